"""The spool: a local durable queue before a store that cannot be written now.

An operation that `append` took is in a database file and stays there, in order, until the store has it, a person drops it, or
a forget erases it. One that the store refuses for a reason of its own goes to a visible quarantine; the others go on. Each
carries an id that the store records, so a drain that dies between the store's commit and its own only repeats itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hermes_mnemosyne._errors import InvalidInput, MnemosyneError, NotFound, StoreBusy, StoreError, StoreFull, StoreUnavailable
from hermes_mnemosyne.clock import now_text, parse_utc
from hermes_mnemosyne.store.operations import Operation, Outcome, from_json, to_json
from hermes_mnemosyne.store.sqlite.spool_file import Row, Run, SpoolFile

Apply = Callable[[Sequence[Operation]], list[Outcome]]

_WAIT = 2.0
_SETTLE_WAIT = 5.0
# The most bytes of one batch of a drain, but for an operation that is larger alone.
_BATCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """What a drain did. `left` operations still wait; `stopped` says why it ended before the queue was empty, if it did.

    `applied` counts what the store answered for, replays and refusals by a tombstone included. `skipped_locked` is true when
    another process or thread was draining.
    """

    applied: int = 0
    quarantined: int = 0
    left: int = 0
    skipped_locked: bool = False
    stopped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """An operation that the store refused `attempts` times; `operation` is None when it cannot be read. Times are UTC text."""

    op_id: str
    theme: str
    error: str
    attempts: int
    queued_at: str
    quarantined_at: str
    bytes: int
    operation: Operation | None


@dataclass(slots=True)
class _Settled:
    """What became of one batch."""

    done: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    suspects: list[tuple[str, str]] = field(default_factory=list)
    answered: bool = False
    stopped: str = ""


def _encoded(op: Operation, queued_at: str) -> Row:
    try:
        body = json.dumps({**to_json(op), "spooled": True}, separators=(",", ":"))
        # JSON can write a lone surrogate, the columns cannot.
        f"{op.op_id}{op.theme}".encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"this cannot be queued: {error}; use JSON values (text, numbers, lists, objects) and valid Unicode"
        ) from error
    return op.op_id, op.theme, queued_at, len(body), body


def _decoded(op_id: str, body: str) -> Operation | None:
    """Return the operation of a queue row, None when it cannot be read."""
    try:
        op = from_json(json.loads(body))
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError):
        return None
    return op if op.op_id == op_id else None


def _age(since: str) -> str:
    """Return the time since a UTC text in words such as `3 min`."""
    seconds = max(0, int((datetime.now(UTC) - parse_utc(since)).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


class Spool:
    """The queue in one file, `mnemosyne.spool.db` beside `mnemosyne.db`. Every method is safe from any thread and process.

    Methods raise StoreBusy, StoreFull, StoreUnavailable. A damaged file is set aside under a visible name and a new one begun.
    """

    def __init__(self, path: Path, *, max_bytes: int, durability: str = "normal") -> None:
        """Use the file at `path`, made at the first append; its directory exists. `max_bytes` bounds the sum of what waits."""
        self.path = path
        self._max_bytes = max_bytes
        self._file = SpoolFile(path, durability=durability)
        # Refusals that could not be written down because the disk is full, too.
        self._unrecorded = 0

    # -- in ----------------------------------------------------------------------------------------------------------------------

    def append(self, ops: Sequence[Operation], *, wait: float = 0.25) -> None:
        """Accept all of `ops` durably, in order, or none; ids that already wait are kept as they are.

        `wait` is in seconds. Raises StoreFull at the limit or on a full disk, StoreBusy, InvalidInput for what is no JSON.
        """
        if not ops:
            return
        queued_at = now_text()
        rows = [_encoded(op, queued_at) for op in ops]
        size = sum(row[3] for row in rows)

        def add(run: Run) -> bool:
            [(held, *_)] = run("totals")
            if held + size > self._max_bytes:
                run("count_refusal", 1)
                return False
            for row in rows:
                run("add", *row)
            return True

        try:
            # In one step what nearly always is one operation for which there is room; else it is looked at what it is.
            if len(rows) == 1 and self._file.write_one("add_within", *rows[0], self._max_bytes, wait=wait):
                return
            accepted = self._file.write(add, wait=wait, create=True)
        except StoreFull:
            self._unrecorded += 1
            raise
        if not accepted:
            raise StoreFull(
                f"{self.path}: the spool has reached its limit of {self._max_bytes} bytes (spool_max_bytes); "
                "the writes it holds are kept: bring the store back, drain it, then write again"
            )

    # -- looking -----------------------------------------------------------------------------------------------------------------

    def is_empty(self, theme: str | None = None, *, wait: float = _WAIT) -> bool:
        """Tell whether nothing waits (in `theme`); an absent file is empty. `wait` is in seconds."""
        if theme is None:
            return not self._file.read("any_queued", wait=wait)
        return not self._file.read("any_queued_of_theme", theme, wait=wait)

    def pending(self, theme: str | None = None, *, limit: int | None = None, wait: float = _WAIT) -> list[Operation]:
        """Return the operations that wait (in `theme`), oldest first; those that cannot be read are left to the drain."""
        decoded = (_decoded(op_id, body) for op_id, body in self._queued(theme, limit, wait=wait))
        return [op for op in decoded if op is not None]

    def quarantined(self) -> list[Quarantined]:
        """Return the operations in quarantine, oldest first."""
        return [
            Quarantined(
                op_id=op_id,
                theme=theme,
                error=error,
                attempts=attempts,
                queued_at=queued_at,
                quarantined_at=quarantined_at,
                bytes=size,
                operation=_decoded(op_id, body),
            )
            for op_id, theme, queued_at, quarantined_at, attempts, error, size, body in self._file.read("quarantined")
        ]

    def problems(self) -> list[str]:
        """Return what a person should look at, one line each."""
        lines = [
            f"a damaged spool was set aside as {path}: it may hold texts; delete it, with its -wal and -shm, when it is of no use"
            for path in self._file.damaged()
        ]
        if count := self._first("count_quarantined"):
            lines.append(f"{count} operations are in quarantine: mnemosyne spool quarantine")
        return lines

    def status(self) -> dict[str, Any]:
        """Return figures: `count`, `bytes`, `max_bytes`, `oldest` (UTC text), `oldest_age`, `quarantined`, `refused`, and more."""
        totals = self._file.read("totals")
        held, refused = totals[0][:2] if totals else (0, 0)
        oldest = self._first("oldest") or ""
        return {
            "path": str(self.path),
            "count": self._count(None),
            "bytes": held,
            "max_bytes": self._max_bytes,
            "oldest": oldest,
            "oldest_age": _age(oldest) if oldest else "",
            "quarantined": self._first("count_quarantined") or 0,
            "refused": refused + self._unrecorded,
            "erasure_pending": self._erasure_pending(),
            "damaged": [str(path) for path in self._file.damaged()],
            "problems": self.problems(),
        }

    def _erasure_pending(self) -> bool:
        totals = self._file.read("totals")
        return bool(totals) and totals[0][2] > totals[0][3]

    def _first(self, name: str) -> Any:
        rows = self._file.read(name)
        return rows[0][0] if rows else None

    def _queued(self, theme: str | None, limit: int | None, *, wait: float = _WAIT) -> list[Row]:
        most = -1 if limit is None else limit
        if theme is None:
            return self._file.read("queued", most, wait=wait)
        return self._file.read("queued_of_theme", theme, most, wait=wait)

    def _next_batch(self, theme: str | None, most: int) -> list[Row]:
        """Return the oldest rows that wait (in `theme`), at most so many and of at most so many bytes together."""
        if theme is None:
            return self._file.read("batch", most, _BATCH_BYTES)
        return self._file.read("batch_of_theme", theme, most, _BATCH_BYTES)

    def _count(self, theme: str | None) -> int:
        rows = self._file.read("count") if theme is None else self._file.read("count_of_theme", theme)
        return rows[0][0] if rows else 0

    # -- out ---------------------------------------------------------------------------------------------------------------------

    def drain(self, apply: Apply, *, theme: str | None = None, batch: int = 64, until: float | None = None) -> DrainReport:
        """Hand what waits (in `theme`) to `apply` in order, in batches; take out what it answered for.

        `until` is a time of `time.monotonic()`. StoreBusy, StoreFull and StoreUnavailable of `apply` end the drain and leave
        the rest. An outcome `failed` puts that operation into quarantine. Any other error of ours is narrowed down to single
        operations; one that the store itself fails on is blamed only if the store took another of the same batch, since
        otherwise it is the store that is broken, and the drain ends. Only one drain runs per file and machine.
        """
        if self.is_empty(theme) and not self._erasure_pending():
            return DrainReport()
        with self._file.exclusive() as held:
            if not held:
                return DrainReport(left=self._count(theme), skipped_locked=True)
            applied = quarantined = 0
            stopped = ""
            while not stopped and (until is None or time.monotonic() < until):
                rows = self._next_batch(theme, batch)
                if not rows:
                    break
                settled = self._settle(rows, apply)
                try:
                    self._take_out(settled)
                except (StoreBusy, StoreFull, StoreUnavailable) as error:
                    # They come again and the store knows them.
                    stopped = str(error)
                    break
                applied += len(settled.done)
                quarantined += len(settled.failed)
                stopped = settled.stopped
            left = self._count(theme)
            if not left:
                self._file.scrub(wait=_WAIT if until is None else min(_WAIT, max(0.0, until - time.monotonic())))
        return DrainReport(applied=applied, quarantined=quarantined, left=left, stopped=stopped)

    def _settle(self, rows: Sequence[Row], apply: Apply) -> _Settled:
        settled = _Settled()
        ops = []
        for op_id, body in rows:
            op = _decoded(op_id, body)
            if op is None:
                settled.failed.append((op_id, "the operation cannot be read: a later release wrote it, or it is damaged"))
            else:
                ops.append(op)
        if ops:
            self._apply_halving(ops, apply, settled)
        if settled.answered:
            settled.failed += settled.suspects
        elif settled.suspects and not settled.stopped:
            settled.stopped = settled.suspects[0][1]
        return settled

    def _apply_halving(self, ops: Sequence[Operation], apply: Apply, settled: _Settled) -> None:
        try:
            outcomes = apply(ops)
        except (StoreBusy, StoreFull, StoreUnavailable) as error:
            settled.stopped = str(error)
            return
        except MnemosyneError as error:
            if len(ops) == 1:
                blame = settled.suspects if isinstance(error, StoreError) else settled.failed
                blame.append((ops[0].op_id, str(error)))
                return
            middle = len(ops) // 2
            self._apply_halving(ops[:middle], apply, settled)
            if not settled.stopped:
                self._apply_halving(ops[middle:], apply, settled)
            return
        settled.answered = True
        for op, outcome in zip(ops, outcomes, strict=True):
            if outcome.status == "failed":
                settled.failed.append((op.op_id, outcome.error))
            else:
                settled.done.append(op.op_id)

    def _take_out(self, settled: _Settled) -> None:
        moment = now_text()

        def change(run: Run) -> None:
            if settled.done:
                run("remove_all", json.dumps(settled.done))
            # The row as it stands now moves: a forget may have erased or rewritten it while it was being applied.
            for op_id, error in settled.failed:
                run("quarantine", moment, error, op_id)

        if settled.done or settled.failed:
            self._file.write(change, wait=_SETTLE_WAIT)

    # -- quarantine --------------------------------------------------------------------------------------------------------------

    def retry(self, op_id: str | None = None) -> int:
        """Put an operation of the quarantine, or all of them, back to their old places in the queue; return how many.

        Raises NotFound when this one is not in quarantine.
        """
        return self._change_quarantined("requeue_all" if op_id is None else "requeue", op_id)

    def drop(self, op_id: str) -> None:
        """Erase an operation of the quarantine for good. Raises NotFound when it is not there."""
        self._change_quarantined("drop_quarantined", op_id)
        self._file.scrub()

    def _change_quarantined(self, name: str, op_id: str | None) -> int:
        parameters = () if op_id is None else (op_id,)

        def change(run: Run) -> int:
            run(name, *parameters)
            [(count,)] = run("changes")
            return int(count)

        count = self._file.write(change) or 0
        if op_id is not None and not count:
            raise NotFound(f"no operation {op_id} is in quarantine: mnemosyne spool quarantine lists them")
        return count

    # -- forgetting --------------------------------------------------------------------------------------------------------------

    def cancel(self, matches: Callable[[Operation], Operation | None]) -> int:
        """Erase or rewrite operations, queued and in quarantine, and wipe what they held; return how many.

        `matches` returns None to erase an operation, another one to replace it (its id stays), the same one to keep it; it is
        called under the write lock, possibly more than once. An operation that is being applied by a drain at this moment is
        for the store to refuse, which has the tombstone first. Where the wiping is hindered, `status` says `erasure_pending`
        and the next drain or `scrub` completes it.
        """

        def changes(rows: Sequence[Row]) -> list[tuple[str, Operation | None]]:
            found: list[tuple[str, Operation | None]] = []
            for op_id, body in rows:
                before = _decoded(op_id, body)
                if before is None:
                    continue
                after = matches(before)
                if after is not None:
                    after = replace(after, op_id=op_id, spooled=True)
                if after != before:
                    found.append((op_id, after))
            return found

        def change(run: Run) -> int:
            found = changes(run("bodies"))
            for op_id, after in found:
                if after is None:
                    run("remove", op_id)
                else:
                    *_, size, body = _encoded(after, "")
                    run("rewrite", size, body, op_id)
            return len(found)

        # Most forgets find nothing here: they should not wait for the write lock.
        if not changes(self._file.read("bodies")):
            return 0
        count = self._file.write(change, wait=_SETTLE_WAIT) or 0
        self._file.scrub()
        return count

    def scrub(self, *, wait: float = _WAIT) -> bool:
        """Wipe what was erased out of the file and its log, if that is due; True when nothing is left. `wait` is in seconds."""
        return self._file.scrub(wait=wait)

    # -- lifetime ----------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file; a later use opens it again."""
        self._file.close()

    def abandon(self) -> None:
        """Forget what a forked child inherited; the next use opens the file again."""
        self._file.abandon()
