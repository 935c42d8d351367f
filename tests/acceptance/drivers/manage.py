"""Run in the host's interpreter: `manage.py PLAN ANSWER` drives the loader and the memory manager, without an agent.

The plan is JSON: `{"provider": NAME, "kill": ..., "calls": [[METHOD, ARGUMENTS, KEYWORDS], ...]}`; `kill` is as in observe.py, the methods are those of the host's memory manager, and
`!METHOD` those of the provider itself. The answer holds what the discovery lists, what each call returned or raised, and the hooks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import observe


def _attempt(target: object, method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        return getattr(target, method)(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  the test decides what may be raised
        return {"raised": repr(error)}


def main() -> None:
    """Carry out the plan."""
    import plugins.memory
    from agent.memory_manager import MemoryManager

    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    seen: list[observe.Record] = []
    observe.watch(seen.append, plan["kill"])
    discovered = [list(row) for row in plugins.memory.discover_memory_providers()]
    provider = plugins.memory.load_memory_provider(plan["provider"])
    manager = MemoryManager()
    results = []
    if provider is not None:
        manager.add_provider(provider)
        for method, args, kwargs in plan["calls"]:
            target = provider if method.startswith("!") else manager
            results.append(_attempt(target, method.removeprefix("!"), args, kwargs))
    answer = {"discovered": discovered, "loaded": provider is not None, "results": results, "hooks": seen}
    Path(sys.argv[2]).write_text(observe.encode(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
