"""`mnemosyne install`: the discovery directory under a Hermes home's `plugins/`.

A host of the 0.19 line finds memory providers by directory only. What is written there are import lines and the plugin's
description, no code of ours; every file carries a mark, and only marked files are ever changed or removed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from hermes_mnemosyne._errors import InvalidInput, MnemosyneError

Status = Literal["absent", "current", "stale", "linked", "foreign", "foreign-link"]

DISTRIBUTION = "hermes-mnemosyne"
PLUGINS = {"mnemosyne": "hermes_mnemosyne.hermes"}
_MARK = "# Written by `mnemosyne install`"
_FILES = ("plugin.yaml", "cli.py", "__init__.py")
_VERIFY_SECONDS = 60.0
_REPLY = "mnemosyne-install-check:"

# Distributions that were made before this one and claim the same provider or command; each with the word that betrays its shim.
_OLDER = {
    "mnemosyne-hermes": "mnemosyne_hermes",
    "mnemosyne-memory": "hermes_memory_provider",
    "hermes-memory-pgvector": "hermes_pgvector",
}

_CHECK = r"""
import importlib.util, json, sys
name, init, mark = sys.argv[1:4]
class Context:
    provider = None
    def register_memory_provider(self, provider):
        self.provider = provider
try:
    from plugins.memory import load_memory_provider
except ImportError:
    host = False
    spec = importlib.util.spec_from_file_location("mnemosyne_install_check", init)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    context = Context()
    module.register(context)
    provider = context.provider
else:
    host = True
    provider = load_memory_provider(name)
reply = {"host": host, "loaded": provider is not None}
if provider is not None:
    reply["name"] = provider.name
    reply["ours"] = any(kind.__module__.startswith("hermes_mnemosyne.") for kind in type(provider).__mro__)
    reply["available"] = bool(provider.is_available())
    reason = getattr(provider, "unavailable_reason", None)
    reply["reason"] = "" if reply["available"] or reason is None else reason()
    from hermes_mnemosyne.install import rivals
    reply["rivals"] = rivals(name)
print(mark + json.dumps(reply))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What stands at the place of a discovery directory.

    `status`: `absent`, `current` (as we would write it), `stale` (ours, of another release or place), `linked` (a link to a plugin
    directory of Mnemosyne), `foreign`, `foreign-link`. `owner` names the distribution of a foreign one, when known.
    """

    directory: Path
    status: Status
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of loading the provider in a clean process; `by_host` is false when no hermes-agent could be found.

    `rivals` are other distributions in that interpreter's environment that own our command or provider name.
    """

    ok: bool
    by_host: bool
    interpreter: str
    detail: str = ""
    rivals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallReport:
    """What an installation or removal did; `warnings` need a person, `next_steps` are commands to type."""

    directory: Path
    action: Literal["installed", "updated", "unchanged", "removed", "nothing"]
    verification: Verification | None = None
    backup: Path | None = None
    warnings: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Tell whether nothing went wrong."""
        return self.verification is None or self.verification.ok


def inspect(home: Path, *, provider: str = "mnemosyne") -> Inspection:
    """Tell what stands at the place of the discovery directory.

    Raises InvalidInput for an unknown provider.
    """
    directory = _place(home, provider)
    if directory.is_symlink():
        linked = (directory / "provider" / "provider.py").is_file() and directory.resolve().parent.name == "hermes_mnemosyne"
        return Inspection(
            directory=directory, status="linked" if linked else "foreign-link", owner="" if linked else _owner(directory)
        )
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return Inspection(directory=directory, status="absent")
    written = _contents(provider)
    present = {name: _read(directory / name) for name in _FILES}
    if present == written:
        return Inspection(directory=directory, status="current")
    if present["__init__.py"].startswith(_MARK) and all(not text or text.startswith(_MARK) for text in present.values()):
        return Inspection(directory=directory, status="stale")
    return Inspection(directory=directory, status="foreign", owner=_owner(directory))


def install(home: Path, *, provider: str = "mnemosyne", force: bool = False) -> InstallReport:
    """Write the discovery directory and load it in a clean process.

    With `force`, something foreign at its place is set aside under a hidden name. Raises MnemosyneError when it is foreign and
    `force` is false, InvalidInput for an unknown provider, OSError when the home cannot be written.
    """
    found = inspect(home, provider=provider)
    directory, backup = found.directory, None
    if found.status in ("foreign", "foreign-link"):
        if not force:
            raise MnemosyneError(_foreign(found))
        backup = _set_aside(directory)
    if found.status in ("current", "linked"):
        action: Literal["installed", "updated", "unchanged"] = "unchanged"
    elif found.status == "stale":
        _rewrite(directory, _contents(provider))
        action = "updated"
    else:
        _create(directory, _contents(provider))
        action = "installed"
    verification = verify(home, provider=provider)
    return InstallReport(
        directory=directory,
        action=action,
        verification=verification,
        backup=backup,
        warnings=tuple(dict.fromkeys((*rivals(provider), *verification.rivals, *_doubts(verification)))),
        next_steps=_next_steps(home, provider),
    )


def remove(home: Path, *, provider: str = "mnemosyne", force: bool = False) -> InstallReport:
    """Remove what `install` wrote; a link goes only with `force`, and a foreign directory is then set aside, not deleted.

    Raises MnemosyneError when it is not ours and `force` is false, InvalidInput for an unknown provider, OSError when the home
    cannot be written.
    """
    found = inspect(home, provider=provider)
    directory = found.directory
    if found.status == "absent":
        return InstallReport(directory=directory, action="nothing")
    if found.status in ("current", "stale"):
        left = _unwrite(directory)
        warnings = (f"{directory} stays: it holds {', '.join(left)}",) if left else ()
        return InstallReport(directory=directory, action="removed", warnings=warnings)
    if not force:
        raise MnemosyneError(_foreign(found))
    return InstallReport(directory=directory, action="removed", backup=_set_aside(directory))


def verify(home: Path, *, provider: str = "mnemosyne") -> Verification:
    """Load the provider in a clean process, with the host's own discovery where hermes-agent can be found."""
    init = _place(home, provider) / "__init__.py"
    failure = Verification(ok=False, by_host=False, interpreter=sys.executable, detail="no interpreter could load it")
    for interpreter in _interpreters(home):
        reply, detail = _ask(interpreter, home, provider, init)
        if reply is None:
            failure = Verification(ok=False, by_host=False, interpreter=interpreter, detail=detail)
            continue
        if not reply["host"] and interpreter != sys.executable:
            continue
        ok = bool(reply["loaded"] and reply["ours"] and reply["available"])
        if not reply["loaded"]:
            detail = "the host does not load it; its log has the reason"
        elif not reply["ours"]:
            detail = f"the host loads another provider under the name {reply['name']}"
        else:
            detail = str(reply["reason"])
        others = tuple(map(str, reply.get("rivals", ())))
        return Verification(ok=ok, by_host=bool(reply["host"]), interpreter=interpreter, detail=detail, rivals=others)
    return failure


def rivals(provider: str = "mnemosyne") -> tuple[str, ...]:
    """Return a line for each other distribution of this environment that owns our command or our provider name."""
    claims: dict[str, list[str]] = {}
    for group, what in (("console_scripts", "command"), ("hermes_agent.memory_providers", "provider name")):
        for point in metadata.entry_points(group=group):
            owner = point.dist.name if point.dist else ""
            if owner and _canonical(owner) != DISTRIBUTION and point.name == provider:
                claims.setdefault(owner, []).append(what)
    for older in _OLDER:
        if _version(older) and not any(_canonical(owner) == older for owner in claims):
            claims[older] = []
    lines = []
    for owner, owned in sorted(claims.items()):
        owns = f" and owns the {' and the '.join(owned)} {provider}" if owned else ""
        lines.append(f"{owner} is installed here too{owns}: import its memories, then pip uninstall {owner}")
    return tuple(lines)


# -- files -----------------------------------------------------------------------------------------------------------------------


def _place(home: Path, provider: str) -> Path:
    if provider not in PLUGINS:
        raise InvalidInput(f"there is no provider {provider!r}: use one of {', '.join(sorted(PLUGINS))}")
    return home.expanduser() / "plugins" / provider


def _contents(provider: str) -> dict[str, str]:
    """Return the text of each file. The recorded path serves a host whose interpreter does not have us on its own."""
    package = PLUGINS[provider]
    plugin = Path(__file__).parent.joinpath(*package.split(".")[1:])
    head = f"{_MARK} ({DISTRIBUTION} {_version(DISTRIBUTION) or 'unknown'}); `mnemosyne install --remove` takes it away.\n"
    reach = (
        "import sys\nfrom importlib.util import find_spec\n\n"
        'if find_spec("hermes_mnemosyne") is None:\n'
        f"    sys.path.append({str(Path(__file__).resolve().parents[1])!r})  # last: the host's own versions win\n\n"
    )
    return {
        "plugin.yaml": head + _read(plugin / "plugin.yaml"),
        "cli.py": f"{head}{reach}from {package}.cli import {provider}_command, register_cli\n",
        "__init__.py": (
            f"{head}# A host knows the directory of a memory provider by these words: register_memory_provider, MemoryProvider.\n"
            f"{reach}from {package} import register\n"
        ),
    }


def _create(directory: Path, contents: dict[str, str]) -> None:
    """Make the whole directory appear at once."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}.new-", dir=directory.parent))
    try:
        fresh.chmod(directory.parent.stat().st_mode & 0o777)
        for name, text in contents.items():
            (fresh / name).write_text(text, encoding="utf-8")
        fresh.rename(directory)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _rewrite(directory: Path, contents: dict[str, str]) -> None:
    """Replace each file at once, `__init__.py` last: a host that starts meanwhile loads the old or the new one."""
    for name in _FILES:
        fresh = directory / f".{name}.new-{os.getpid()}"
        fresh.write_text(contents[name], encoding="utf-8")
        fresh.replace(directory / name)


def _unwrite(directory: Path) -> list[str]:
    """Remove our files and the byte code made of them; return the names of what is not ours."""
    for name in _FILES:
        if _read(directory / name).startswith(_MARK):
            (directory / name).unlink()
    shutil.rmtree(directory / "__pycache__", ignore_errors=True)
    left = sorted(path.name for path in directory.iterdir())
    if not left:
        directory.rmdir()
    return left


def _set_aside(directory: Path) -> Path | None:
    """Move a directory to a hidden name beside it, which a host does not list; a link is just removed."""
    if directory.is_symlink():
        directory.unlink()
        return None
    backup = directory.with_name(f".{directory.name}.bak-{datetime.now().astimezone():%Y%m%d-%H%M%S-%f}")
    directory.rename(backup)
    return backup


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# -- others ----------------------------------------------------------------------------------------------------------------------


def _owner(directory: Path) -> str:
    text = _read(directory / "__init__.py") + str(directory.resolve() if directory.is_symlink() else "")
    return next((name for name, word in _OLDER.items() if word in text), "")


def _foreign(found: Inspection) -> str:
    what = "is a link that" if found.status in ("linked", "foreign-link") else "was"
    who = f"{found.owner} made" if found.owner else "`mnemosyne install` did not make"
    subject = (
        f"{found.directory} {what} {who}"
        if what.endswith("that")
        else f"{found.directory} was not written by `mnemosyne install`"
    )
    if found.owner and not what.endswith("that"):
        subject = f"{found.directory} belongs to {found.owner}"
    return f"{subject}: remove it yourself, or repeat with --force (a directory is kept under a hidden name)"


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


# -- the host --------------------------------------------------------------------------------------------------------------------


def _interpreters(home: Path) -> list[str]:
    """Return interpreters that may hold hermes-agent, the likeliest first, our own last."""
    command = shutil.which("hermes")
    candidates = [_shebang(Path(command))] if command else []
    candidates += [str(home.expanduser() / "hermes-agent" / "venv" / "bin" / "python"), sys.executable]
    return list(dict.fromkeys(path for path in candidates if path and os.access(path, os.X_OK)))


def _shebang(script: Path) -> str:
    """Return the interpreter of a console script, which long paths move to its second line; empty for another program."""
    try:
        with script.open("rb") as lines:
            head = lines.read(1024).decode("utf-8", "replace")
    except OSError:
        return ""
    found = (
        re.search(r"(/[^\s'\"]*/python[\d.]*)(?=[\s'\"]|$)", "\n".join(head.splitlines()[:2])) if head.startswith("#!") else None
    )
    if found:
        return found.group(1)
    return shutil.which("python3") or "" if head.startswith("#!/usr/bin/env python") else ""


def _ask(interpreter: str, home: Path, provider: str, init: Path) -> tuple[dict[str, Any] | None, str]:
    """Return what a clean process found out, or None and why there is no answer."""
    env = {**os.environ, "HERMES_HOME": str(home.expanduser()), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(  # noqa: S603 - an interpreter of this machine and our own program
            [interpreter, "-P", "-c", _CHECK, provider, str(init), _REPLY],
            env=env,
            cwd=tempfile.gettempdir(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERIFY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    for line in done.stdout.splitlines():
        if line.startswith(_REPLY):
            reply: dict[str, Any] = json.loads(line.removeprefix(_REPLY))
            return reply, ""
    return None, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _doubts(verification: Verification) -> tuple[str, ...]:
    if not verification.ok:
        return (f"{verification.interpreter} could not load the provider: {verification.detail}",)
    if not verification.by_host:
        return (
            "hermes-agent was not found, so only the import was checked: put `hermes` on the PATH and repeat to check with it",
        )
    return ()


def _next_steps(home: Path, provider: str) -> tuple[str, ...]:
    default = Path(os.environ.get("HERMES_HOME") or "~/.hermes").expanduser()
    prefix = "" if home.expanduser() == default else f"HERMES_HOME={home.expanduser()} "
    return (f"{prefix}hermes memory setup {provider}", f"{prefix}hermes memory status")
