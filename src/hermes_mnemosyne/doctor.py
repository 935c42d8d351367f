"""Doctor: what works, what is degraded and why, and what to do about it.

The central check stores, recalls and forgets a real row in a theme of its own, so that "ok" means that the whole path works, and
not that nobody has complained.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hermes_mnemosyne import paths
from hermes_mnemosyne._errors import ConfigError, MnemosyneError
from hermes_mnemosyne.figures import clients_of, remotes_of
from hermes_mnemosyne.store.operations import SCRATCH_THEME, Operation
from hermes_mnemosyne.store.protocol import Reach
from hermes_mnemosyne.values import Origin

if TYPE_CHECKING:
    from hermes_mnemosyne.engine import Memory
    from hermes_mnemosyne.settings import Effective

Status = Literal["ok", "warn", "off", "fail"]
_FINISH_SECONDS = 5.0
_LARGE_SKEW = 300.0
_COMMAND = re.compile(r"\bmnemosyne (?=(?:backfill|config|doctor|reembed|reindex|spool|stats|sync)\b)")


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `fail` needs repair, `warn` wants a look, `off` is a part that is absent or not configured."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All findings; `ok` is false only for what needs repair."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Tell whether nothing needs repair."""
        return all(check.status != "fail" for check in self.checks)

    def as_object(self) -> dict[str, Any]:
        """Return the report as a JSON-ready object."""
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}


def examine(memory: Memory, *, effective: Effective | None = None, home: Path | None = None) -> Report:
    """Check everything about a memory, the settings it was opened with, and the Hermes home (None: there is none).

    Writes one row in the theme `_doctor` and erases it with every trace. Raises nothing that a check can report.
    """
    checks = [*_guarded("store", lambda: _store(memory))]
    if all(check.status != "fail" for check in checks):
        checks += _guarded("round trip", lambda: _round_trip(memory))
        checks += _guarded("integrity", lambda: _integrity(memory))
        checks += _guarded("erasure", lambda: _erasure(memory))
        checks += _guarded("subject key", lambda: _subject_key(memory))
        if memory.engine.place.is_server:
            checks += _guarded("indexes", lambda: _server(memory))
    checks += _guarded("spool", lambda: _spool(memory))
    checks += _guarded("modes", lambda: _modes(memory))
    checks += _guarded("vectors", lambda: _vectors(memory))
    if all(check.status != "fail" for check in checks if check.name == "store"):
        checks += _guarded("sync", lambda: _sync(memory))
    if effective is not None:
        checks += _guarded("settings", lambda: _settings(effective))
    checks += _guarded("hermes", lambda: _hermes(home, "pgvector" if memory.engine.place.is_server else "mnemosyne"))
    checks += _guarded("python", _python)
    if memory.engine.place.is_server:
        checks = [replace(check, detail=of_server(check.detail), remedy=of_server(check.remedy)) for check in checks]
    return Report(tuple(checks))


def of_server(text: str) -> str:
    """Return a text that names commands of `mnemosyne` with the command whose settings are those of a server's store."""
    return _COMMAND.sub("hermes-pgvector ", text)


def _guarded(name: str, check: Callable[[], Iterator[Check]]) -> list[Check]:
    """Run one check; an error of ours is its finding."""
    found: list[Check] = []
    try:
        found += check()
    except (MnemosyneError, OSError) as error:
        detail, _, remedy = str(error).partition(": ") if isinstance(error, MnemosyneError) else (str(error), "", "")
        found.append(Check(name, "fail", detail, remedy))
    return found


# -- the store -------------------------------------------------------------------------------------------------------------------


def _store(memory: Memory) -> Iterator[Check]:
    if memory.path is not None and paths.is_network_filesystem(memory.path):
        yield Check(
            "store", "fail", f"{memory.path} lies on a network file system", "move it to a local disk, or name another with --db"
        )
        return
    figures = memory.engine.store.stats()
    kind = f"SQLite {figures['sqlite']}, durability {memory.settings.durability}" if memory.path is not None else "Postgres"
    yield Check("store", "ok", f"{memory.place}, {figures.get('bytes', 0) / 1e6:.1f} MB, schema {figures['schema']}, {kind}")


def _round_trip(memory: Memory) -> Iterator[Check]:
    scratch = type(memory)(memory.engine, theme=SCRATCH_THEME, subject="", reach=Reach(frozenset({SCRATCH_THEME}), ""))
    word = f"scratch{secrets.token_hex(8)}"
    receipt = scratch.remember(f"doctor {word}", origin=Origin("cli", "doctor"), visibility="local")
    if receipt.status == "queued":
        _cancel(memory, receipt.uid)
        yield Check(
            "round trip",
            "fail",
            "the store cannot be written now: writes wait in the spool",
            "see the check 'store' and the disk",
        )
        return
    try:
        found = receipt.uid in {hit.uid for hit in scratch.recall(word).hits}
    finally:
        scratch.forget(receipt.uid)
    left = scratch.recall(word).hits
    if not found:
        yield Check("round trip", "fail", "a row that was just stored is not found by its own word", "mnemosyne reindex")
    elif left or memory.engine.store.state(receipt.uid, scratch.reach) != "unknown":
        yield Check("round trip", "fail", "a row that was just forgotten is still there", "mnemosyne reindex, then report this")
    else:
        yield Check("round trip", "ok", "a row was stored, recalled and forgotten")


def _cancel(memory: Memory, uid: str) -> None:
    def without(op: Operation) -> Operation | None:
        return None if getattr(op, "uid", None) == uid else op

    memory.engine.spool.cancel(without)


def _integrity(memory: Memory) -> Iterator[Check]:
    problems = memory.engine.store.check()
    for problem in problems:
        yield Check(
            "integrity", "fail", problem, "mnemosyne reindex; if that does not help, export what can be read and restore a backup"
        )
    if not problems:
        what = "the rows, their references" if memory.engine.place.is_server else "the file, its references"
        yield Check("integrity", "ok", f"{what} and the full-text index are sound")


def _erasure(memory: Memory) -> Iterator[Check]:
    memory.engine.finish(_FINISH_SECONDS)
    figures = memory.engine.store.stats()
    if figures.get("compaction_due"):
        detail = "the file is too large to be written anew by itself: free pages may hold traces of forgotten text"
        yield Check("erasure", "warn", detail, "mnemosyne reindex, while no agent is busy")
    elif memory.engine.place.is_server and figures["erasures_pending"] > 0:
        detail = f"dead rows of {figures['erasures_pending']} forgotten texts wait for a vacuum"
        yield Check("erasure", "warn", detail, "hermes-pgvector maintain --admin-dsn DSN")
    elif figures["erasures_pending"] > 0 or memory.engine.spool.status()["erasure_pending"]:
        remedy = "end the programs that read the store, then run mnemosyne doctor again"
        yield Check(
            "erasure",
            "warn",
            "erasures are not complete: traces of forgotten text may be in the file",
            remedy,
        )
    else:
        yield Check("erasure", "ok", "nothing that was forgotten waits to be erased")


def _subject_key(memory: Memory) -> Iterator[Check]:
    usable = memory.engine.bind_key()
    problems = memory.engine.key.problems()
    for problem in problems or ([] if usable else ["the subject key cannot be made: check the directory's mode"]):
        detail, _, remedy = problem.partition(": ")
        yield Check("subject key", "warn" if usable else "fail", detail, remedy)
    if usable and not problems:
        yield Check("subject key", "ok", f"{memory.engine.key.path} is the one this store was made with")


def _server(memory: Memory) -> Iterator[Check]:
    from hermes_mnemosyne import maintenance

    database = maintenance.of(memory)
    wanting = database.wanting_indexes()
    for theme, rows in wanting:
        what = f"theme {theme}" if theme else "all themes together"
        yield Check("indexes", "warn", f"{what} with {rows} vectors is searched without an index", "hermes-pgvector maintain")
    if not wanting:
        yield Check("indexes", "ok", "every index of vectors that is needed is there")
    changes = database.forwarded()
    if changes["held"]:
        detail = f"{changes['held']} changes to rows of contacts, made under the old names, wait for the subject key"
        yield Check("old names", "warn", detail, f"copy the key of this store to {memory.engine.key.path}")
    if changes["failed"]:
        detail = f"{changes['failed']} changes made under the old names could not be applied"
        yield Check("old names", "warn", detail, "see the column problem of mnemosyne.forwarded")


def _spool(memory: Memory) -> Iterator[Check]:
    figures = memory.engine.spool.status()
    sound = True
    waiting = memory.engine.waiting.status()
    if held := waiting["count"]:
        sound = False
        if memory.engine.key.load(create=False):
            yield Check(
                "spool", "warn", f"{held} writes of contacts wait for the next session of an agent of theirs", "start one"
            )
        else:
            detail = f"{held} writes of contacts wait until the subject key is back"
            yield Check("spool", "warn", detail, f"copy the key of this store to {memory.engine.key.path}")
    if nameless := waiting["quarantined"]:
        sound = False
        detail = f"{nameless} writes to a theme of contacts name no contact and are kept in {memory.engine.waiting.path}"
        yield Check(
            "spool", "warn", detail, "let the host give its agents a session key for each contact, or a theme of their own"
        )
    if figures["count"]:
        sound = False
        detail = f"{figures['count']} writes wait for the store, the oldest for {figures['oldest_age']}"
        yield Check("spool", "warn", detail, "mnemosyne spool drain")
    if figures["refused"]:
        sound = False
        detail = f"{figures['refused']} writes were refused because the spool or the disk was full"
        yield Check("spool", "warn", detail, "free space on the disk or raise spool_max_bytes")
    if figures["quarantined"]:
        sound = False
        detail = f"{figures['quarantined']} writes failed for reasons of their own and are kept in quarantine"
        yield Check("spool", "fail", detail, "mnemosyne spool quarantine, then retry or drop each")
    for path in figures["damaged"]:
        sound = False
        yield Check(
            "spool", "warn", f"a damaged spool was set aside as {path}", "delete it with its -wal and -shm when it is of no use"
        )
    if sound:
        yield Check("spool", "ok", "empty")


def _modes(memory: Memory) -> Iterator[Check]:
    files = [memory.engine.spool.path, memory.engine.waiting.path, *([memory.path] if memory.path else [])]
    everything = [path.with_name(path.name + suffix) for path in files for suffix in ("", "-wal", "-shm")]
    problems = [problem for path in (files[0].parent, *everything) for problem in paths.mode_problems(path)]
    for problem in problems:
        detail, _, remedy = problem.partition(": ")
        yield Check("modes", "warn", detail, remedy)
    if not problems:
        yield Check("modes", "ok", "the directory and the files are closed to other users")


# -- around the store ------------------------------------------------------------------------------------------------------------


def _vectors(memory: Memory) -> Iterator[Check]:
    figures = memory.engine.embedding_figures()
    numpy = "" if find_spec("numpy") else "; without numpy, so in plain Python"
    searched = f"searched by sketch and exactly, no SQLite extension is needed{numpy}"
    if memory.engine.place.is_server:
        searched = "searched by pgvector"
    if figures["embedder"] is None:
        status: Status = "warn" if figures["problem"] else "off"
        yield Check("vectors", status, f"{figures['why']}: recall is by words; vectors would be {searched}")
        return
    name = f"{figures['embedder']} ({figures['why']})"
    if figures["problem"]:
        detail, _, remedy = figures["problem"].partition(": ")
        yield Check("vectors", "warn", f"{name}: {detail}", remedy)
        return
    yield Check("vectors", "ok", f"{name}, {searched}")
    if figures["pending"]:
        yield Check(
            "vectors",
            "warn",
            f"{figures['pending']} rows wait for a vector, {figures['retrying']} after a failure",
            "mnemosyne backfill",
        )
    if figures["unembeddable"]:
        yield Check("vectors", "warn", f"{figures['unembeddable']} rows cannot be embedded: they are found by words")
    for name, words in (
        ("cut", "are longer than the model sees: their ends are found by words"),
        ("excluded", "have no vector by setting"),
    ):
        if figures[name]:
            yield Check("vectors", "off", f"{figures[name]} rows {words}")


def _sync(memory: Memory) -> Iterator[Check]:
    remotes, clients = remotes_of(memory.engine.store), clients_of(memory.engine.store)
    yield from _clients(clients)
    for name, state in remotes.items():
        totals = state["totals"] or {}
        last = f"last success {state['last_success'] or 'never'}"
        if state["last_error"]:
            yield Check("sync", "warn", f"{name}: {state['last_error']} ({last})", f"mnemosyne sync --profile {name}")
        else:
            yield Check("sync", "ok", f"{name}: {last}, {totals.get('pulled', 0)} rows came, {totals.get('pushed', 0)} went")
        if abs(state["skew"] or 0) > _LARGE_SKEW:
            ahead = "ahead of" if state["skew"] > 0 else "behind"
            yield Check(
                "sync", "warn", f"{name}: the clock here is {abs(state['skew']):.0f} s {ahead} the server's", "correct one"
            )
        if totals.get("restamped"):
            yield Check("sync", "off", f"{name}: {totals['restamped']} edits made under a wrong clock got the right time")
        if totals.get("set_aside"):
            detail = f"{name}: {totals['set_aside']} rows could not be read or stored by one side"
            yield Check("sync", "warn", detail, f"mnemosyne sync --profile {name} --verify")
    if not remotes and not clients:
        yield Check("sync", "off", "this store syncs with no server")


def _clients(clients: Mapping[str, Mapping[str, Any]]) -> Iterator[Check]:
    """Say of the replicas that this store serves whose clock is wrong, and how many of their edits were corrected."""
    for name, state in clients.items():
        skew, corrected = state.get("skew") or 0.0, state.get("restamps") or 0
        who = f"replica {name} ({state.get('key') or 'no key'})"
        if abs(skew) > _LARGE_SKEW:
            detail = f"{who}: its clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this one"
            yield Check("sync", "warn", detail, "correct the clock of that machine, or of this one")
        if corrected:
            yield Check("sync", "off", f"{who}: {corrected} edits made under a wrong clock got the right time")
    if clients:
        yield Check("sync", "ok", f"{len(clients)} replicas have synced with this store")


def _settings(effective: Effective) -> Iterator[Check]:
    for warning in effective.warnings:
        yield Check("settings", "warn", warning, "mnemosyne config show --effective")
    if not effective.warnings:
        changed = sum(source != "default" for _, _, source in effective.rows())
        yield Check("settings", "ok", f"{changed} set, the rest default")


def _hermes(home: Path | None, provider: str) -> Iterator[Check]:
    from hermes_mnemosyne.install import inspect
    from hermes_mnemosyne.rivals import COMMANDS, older_units, rivals

    install = f"{COMMANDS[provider]} install"
    if home is None:
        yield Check("hermes", "off", "there is no Hermes home", f"install hermes-agent, then {install}")
        return
    found = inspect(home, provider=provider)
    place = f"{found.directory} is {found.status}" + (f" (of {found.owner})" if found.owner else "")
    match found.status:
        case "absent":
            yield Check("hermes", "off", f"{home} has no plugin directory of Mnemosyne", install)
        case "current" | "linked":
            yield Check("hermes", "ok", place)
        case "stale" | "older":
            yield Check("hermes", "warn", place, install)
        case _:
            yield Check("hermes", "warn", place, f"move it away, or {install} --force")
    for line in (*rivals(provider), *older_units(provider)):
        detail, _, remedy = line.partition(": ")
        yield Check("hermes", "warn", detail, remedy)
    active = _active(home, provider)
    yield active
    if active.status == "ok" and provider == "pgvector":
        yield _loaded(home, provider)


def _active(home: Path, provider: str) -> Check:
    from hermes_mnemosyne.config_files import HERMES_CONFIG, read_mapping

    try:
        data = read_mapping(home / HERMES_CONFIG) or {}
    except ConfigError as error:
        return Check("hermes provider", "fail", str(error))
    memory = data.get("memory")
    active = memory.get("provider") if isinstance(memory, dict) else None
    if active == provider:
        return Check("hermes provider", "ok", f"{provider} is the active provider")
    return Check("hermes provider", "off", f"the active provider is {active or 'none'}", f"hermes memory setup {provider}")


def _loaded(home: Path, provider: str) -> Check:
    """Ask the host in a process of its own what it loads under the name: two packages and a directory may claim it."""
    from hermes_mnemosyne.install import verify

    found = verify(home, provider=provider)
    if not found.by_host:
        return Check("hermes loads", "off", "hermes-agent was not found", "put hermes on the PATH")
    if not found.ok:
        return Check("hermes loads", "warn", found.detail or "another provider", "hermes-pgvector install")
    return Check("hermes loads", "ok", f"the {found.source} of Mnemosyne")


def _python() -> Iterator[Check]:
    from importlib.util import find_spec

    version = ".".join(map(str, sys.version_info[:3]))
    missing = [name for name in ("yaml", "ruamel.yaml") if not _present(name, find_spec)]
    if missing:
        yield Check("python", "fail", f"Python {version} without {', '.join(missing)}", "pip install --upgrade hermes-mnemosyne")
    else:
        yield Check("python", "ok", f"Python {version}")


def _present(name: str, find_spec: Callable[[str], object]) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the parent package
        return False
