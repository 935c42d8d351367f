"""The work that gives rows their vectors: in batches, in the background or by hand, around texts that cannot be embedded."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hermes_mnemosyne._errors import EmbeddingError
from hermes_mnemosyne.clock import now_text, utc_text
from hermes_mnemosyne.embed.fingerprint import PROBES, same
from hermes_mnemosyne.embed.protocol import Embedder, Vector
from hermes_mnemosyne.embedding import Embedding, active_model
from hermes_mnemosyne.store.protocol import PendingText, Store, VectorCounts, VectorFailure

_log = logging.getLogger(__name__)
SUBSTANTIVE_CHARS = 120
_PAGE = 256
_BATCH = 32
_STEP = 0.5
_LAST_WAIT = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 3600.0
# Over about two hours; then a text is set aside, until a backfill by hand.
_MOST_ATTEMPTS = 7
# Beside those who write, a change of the model begins anew so often, until so few rows are left or a hundredth of them.
_ROUNDS, _FEW = 5, 64


@dataclass(slots=True)
class Progress:
    """What one run has done so far: rows that were embedded, left out by setting, and failed."""

    embedded: int = 0
    excluded: int = 0
    failed: int = 0


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run over the pending rows of a model.

    `until` is of time.monotonic(), `timeout` bounds each call of the embedder in seconds; `by_hand` takes rows that a setting would
    leave out, or that wait to be tried again; `rows` is how many there are to be done, without which it goes on beside one who writes.
    """

    store: Store
    model: str
    embedder: Embedder
    progress: Progress
    until: float | None = None
    timeout: float | None = None
    by_hand: bool = False
    report: Report | None = None
    rows: int | None = None

    def is_over(self) -> bool:
        done = self.progress.embedded + self.progress.excluded + self.progress.failed
        return (self.until is not None and time.monotonic() >= self.until) or (self.rows is not None and done >= self.rows)


class Backfill:
    """Embeds the pending rows of one engine's store; what a run has not done the next one finds pending."""

    def __init__(self, embedding: Embedding, store: Callable[[], Store]) -> None:
        """Take the embedder and how the store is reached."""
        self._embedding = embedding
        self._settings = embedding.settings
        self._store = store
        self._attempts: dict[int, int] = {}
        self.error = ""
        self.counters: Counter[str] = Counter()

    # -- in the background -------------------------------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Tell whether a row waits for its vector, or an endpoint has not said yet which model it is. Raises StoreError."""
        return self._embedding.is_unmet or self._has_pending()

    def _has_pending(self) -> bool:
        # To know it no model need be loaded.
        active = active_model(self._store())
        return bool(self._store().pending_vectors(active.key if active else "", limit=1, now=now_text()))

    def work(self, *, last: bool) -> bool:
        """Embed for about half a second; True when nothing is left that may be tried now.

        With `last`, before a process ends, an embedder that hangs is not waited for. Raises StoreError.
        """
        embedder = self._embedding.choice.embedder
        if embedder is None or not (self._has_pending() if last else self.has_work()):
            return True
        timeout = _LAST_WAIT if last else None
        progress = Progress()
        try:
            if not last:
                self._embedding.look_again()
            model = self._embedding.model(timeout=timeout)
            done = self._run(
                _Run(
                    store=self._store(),
                    model=model.key,
                    embedder=embedder,
                    progress=progress,
                    until=time.monotonic() + _STEP,
                    timeout=timeout,
                )
            )
        except EmbeddingError as error:
            if str(error) != self.error:
                _log.warning("no vectors for now: %s", error)
            self.error = str(error)
            self.counters["embedding_errors"] += 1
            return last or not error.retryable
        finally:
            self.counters["embedded"] += progress.embedded
            self.counters["embedding_failures"] += progress.failed
        self.error = ""
        return done

    # -- by hand -----------------------------------------------------------------------------------------------------------------

    def all_pending(self, *, include_excluded: bool = False, report: Report | None = None) -> VectorCounts:
        """Embed every pending row, those that failed before too, and return how the rows stand then.

        Raises EmbeddingError when the embedder does not answer or is another model than the store's; StoreError.
        """
        self._embedding.look_again()
        model, store = self._embedding.model(), self._store()
        if include_excluded:
            store.include_vectors()
        store.clear_failures(model.key)
        self._by_hand(model.key, by_hand=include_excluded, report=report)
        return store.vector_counts(model.key)

    def reembed(self, *, report: Report | None = None) -> VectorCounts:
        """Give every row a vector of this process's model, then search these; until then the old ones are searched.

        What an interrupted run has done is used. Raises EmbeddingError when the embedder does not answer; StoreError.
        """
        store = self._store()
        wanted = self._embedding.described(active=False)
        models = store.vector_models()
        known = next((model for model in models if same(model.probes, wanted.probes)), None)
        if known is None:
            store.add_vector_model(wanted)
        key = known.key if known else wanted.key
        if known is None or not known.active:
            active = next((model for model in models if model.active), None)
            if active:
                # What the settings leave out is left out now, so that every other row keeps its vector, whatever they say of new ones.
                self._leave_out(store, active.key)
            store.clear_failures(key)
            self._catch_up(store, key, by_hand=active is not None, report=report)
            store.activate_vector_model(key)
            self._embedding.forget_model()
        return self.all_pending(report=report)

    def _catch_up(self, store: Store, model: str, *, by_hand: bool, report: Report | None) -> None:
        """Give vectors to every row that is there, and to most of those that others write meanwhile.

        Neither those who write on nor a text that fails again and again must keep the old model for ever: what is left after some
        rounds waits for its vector as any new row does.
        """
        for _ in range(_ROUNDS):
            self._by_hand(model, by_hand=by_hand, report=report)
            counts = store.vector_counts(model)
            if counts.pending - counts.retrying <= max(_FEW, counts.stored // 100):
                return

    def _by_hand(self, model: str, *, by_hand: bool, report: Report | None) -> None:
        embedder = self._embedding.choice.embedder
        if embedder is None:
            raise EmbeddingError(self._embedding.choice.why)
        store, progress = self._store(), Progress()
        rows = store.vector_counts(model).pending
        self._run(_Run(store=store, model=model, embedder=embedder, progress=progress, by_hand=by_hand, report=report, rows=rows))

    # -- one run -----------------------------------------------------------------------------------------------------------------

    def leaves_out(self, row: PendingText, *, by_hand: bool = False) -> bool:
        """Tell whether the settings leave a row without a vector; `by_hand` overrules all but what must not leave the machine."""
        if row.local and not self._embedding.may_see_local:
            return True
        if by_hand or not self._settings.embed_on_write:
            return not by_hand
        policy = self._settings.conversation_embed_policy
        if row.kind == "entry" or policy == "all":
            return False
        return policy == "none" or (row.role != "user" and row.chars < SUBSTANTIVE_CHARS)

    def _leave_out(self, store: Store, model: str) -> None:
        after = 0
        while page := store.pending_vectors(model, limit=_PAGE, after=after):
            after = page[-1].id
            if left_out := [row.id for row in page if self.leaves_out(row)]:
                store.exclude_vectors(left_out)

    def _run(self, run: _Run) -> bool:
        """Embed what is pending; True when nothing is left that may be tried now. Raises EmbeddingError, StoreError."""
        after = 0
        while not run.is_over():
            now = None if run.by_hand else now_text()
            page = run.store.pending_vectors(run.model, limit=_PAGE, after=after, now=now)
            if not page:
                return True
            after = page[-1].id
            left_out = [row.id for row in page if self.leaves_out(row, by_hand=run.by_hand)]
            if left_out:
                run.progress.excluded += run.store.exclude_vectors(left_out)
            skipped = frozenset(left_out)
            # Of like length, so that a network does not fill up short ones.
            rows = sorted((row for row in page if row.id not in skipped), key=lambda row: len(row.text))
            for start in range(0, len(rows), _BATCH):
                self._embed(run, rows[start : start + _BATCH])
                if run.report:
                    run.report(run.progress)
                if run.is_over():
                    return False
        return False

    def _embed(self, run: _Run, rows: Sequence[PendingText]) -> None:
        """Embed some rows; when a text among them is the cause of a failure, halve until it stands alone."""
        try:
            vectors = run.embedder.embed([row.text for row in rows], "document", timeout=run.timeout)
        except EmbeddingError as error:
            if len(rows) > 1 and error.about_text:
                middle = len(rows) // 2
                self._embed(run, rows[:middle])
                self._embed(run, rows[middle:])
                return
            if len(rows) > 1 or not _answers(run):
                raise
            run.store.note_failures(run.model, [self._failure(rows[0], error)])
            run.progress.failed += 1
            return
        run.progress.embedded += _attach(run, rows, vectors)
        for row in rows:
            self._attempts.pop(row.id, None)

    def _failure(self, row: PendingText, error: EmbeddingError) -> VectorFailure:
        count = self._attempts[row.id] = self._attempts.get(row.id, 0) + 1
        if not error.retryable or count >= _MOST_ATTEMPTS:
            return VectorFailure(id=row.id, reason=str(error), retry_at=None)
        pause = min(_FIRST_PAUSE * 2.0 ** (count - 1), _LONGEST_PAUSE)
        return VectorFailure(id=row.id, reason=str(error), retry_at=utc_text(datetime.now(UTC) + timedelta(seconds=pause)))


def _answers(run: _Run) -> bool:
    """Tell whether the embedder takes a harmless text, so that it is the other text that it cannot take.

    A wrong model name gets the same answer from some endpoints as a text that is too long.
    """
    try:
        run.embedder.embed(PROBES[:1], "document", timeout=run.timeout)
    except EmbeddingError:
        return False
    return True


def _attach(run: _Run, rows: Sequence[PendingText], vectors: Sequence[Vector]) -> int:
    """Store the vectors of rows and return how many of them still live."""
    cut = frozenset(row.id for row in rows if run.embedder.cuts(row.text))
    texts = {row.id: row.text for row in rows}
    pairs = [(row.id, vector) for row, vector in zip(rows, vectors, strict=True)]
    return run.store.attach_vectors(run.model, pairs, cut=cut, texts=texts)
