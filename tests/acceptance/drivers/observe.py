"""Run in the host's interpreter: watch every call that the host makes to its memory provider.

As a module: `watch(record, kill)`. As a script: `observe.py LOG KILL ARGUMENT...` is the command `hermes ARGUMENT...` that appends
one JSON line to LOG when a hook has returned. With KILL `HOOK:TEXT` the process kills itself with SIGKILL the moment a call of HOOK
whose arguments hold TEXT has returned (`-` for none): no later instruction of the process runs.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

HOOKS = (
    "initialize",
    "system_prompt_block",
    "prefetch",
    "queue_prefetch",
    "sync_turn",
    "handle_tool_call",
    "on_turn_start",
    "on_session_end",
    "on_session_switch",
    "on_pre_compress",
    "on_memory_write",
    "on_delegation",
    "shutdown",
)

Record = dict[str, Any]


def _observed(name: str, hook: Callable[..., Any], record: Callable[[Record], None]) -> Callable[..., Any]:
    # The host inspects signatures to decide what to pass: functools.wraps keeps them visible.
    @functools.wraps(hook)
    def inner(*args: object, **kwargs: object) -> object:
        seen: Record = {"hook": name, "thread": threading.current_thread().name, "args": args, "kwargs": kwargs}
        try:
            seen["result"] = hook(*args, **kwargs)
        except BaseException as error:
            seen["error"] = repr(error)
            raise
        finally:
            record(seen)
        return seen["result"]

    return inner


class _Complaints(logging.Handler):
    """Turns the errors that Mnemosyne logs into records, since its hooks let no exception out."""

    def __init__(self, record: Callable[[Record], None]) -> None:
        super().__init__(logging.ERROR)
        self._record = record

    def emit(self, record: logging.LogRecord) -> None:
        """Record the message and its traceback."""
        self._record({"hook": "log", "error": self.format(record)})


def watch(record: Callable[[Record], None], kill: str = "-") -> None:
    """Call `record` after each hook of every provider that the host loads from now on, and die after the one that `kill` names."""
    import plugins.memory

    logging.getLogger("hermes_mnemosyne").addHandler(_Complaints(record))
    fatal, _, text = kill.partition(":")

    def witness(seen: Record) -> None:
        record(seen)
        if seen["hook"] == fatal and text in encode([seen["args"], seen["kwargs"]]):
            os.kill(os.getpid(), signal.SIGKILL)

    load = plugins.memory.load_memory_provider

    @functools.wraps(load)
    def loading(*args: Any, **kwargs: Any) -> Any:
        provider = load(*args, **kwargs)
        for name in HOOKS if provider is not None else ():
            hook = getattr(provider, name, None)
            if hook is not None:
                setattr(provider, name, _observed(name, hook, witness))
        return provider

    plugins.memory.load_memory_provider = loading


def encode(value: object) -> str:
    """Return JSON text; objects of the host appear as their names."""
    return json.dumps(value, default=lambda other: f"<{type(other).__name__}>")


def main() -> None:
    """Run the host's command line under observation."""
    log, kill, *arguments = sys.argv[1:]
    lock = threading.Lock()

    def record(seen: Record) -> None:
        line = encode({**seen, "pid": os.getpid()})
        with lock, Path(log).open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    sys.path.pop(0)  # the folder of this script: the host shall find its own modules only
    watch(record, kill)
    sys.argv = ["hermes", *arguments]
    from hermes_cli.main import main as hermes

    sys.exit(hermes())


if __name__ == "__main__":
    main()
