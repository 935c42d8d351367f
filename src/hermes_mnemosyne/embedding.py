"""The engine's side of embedding: which model the store and this process have, the vectors of queries, and the work left.

The store says which model's vectors it holds. A process whose embedder is another one never adds to them nor searches them: recall
goes on with words, and `reembed` is what changes the model of a store.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hermes_mnemosyne._errors import EmbeddingError, StoreError
from hermes_mnemosyne.embed.breaker import Breaker, Limits
from hermes_mnemosyne.embed.choice import Choice, choose
from hermes_mnemosyne.embed.fingerprint import floor_of, key_of, probe, same
from hermes_mnemosyne.embed.protocol import Embedder, Family, Vector
from hermes_mnemosyne.recall.meaning import Meaning, Weights
from hermes_mnemosyne.setting_keys import Settings
from hermes_mnemosyne.store.protocol import Store, VectorModel

_CACHED_QUERIES = 256
_MOST_ASKING = 4
_TRUSTED_SECONDS = 1.0
# So long an endpoint is believed to be the model that it was: whoever runs it may put another one behind the same name.
_PROBED_SECONDS = 3600.0
# After as many waits in vain the embedder is left alone for a while, whatever it was that took so long.
_PATIENCE = Limits(failures=3)
# A network is never loaded within less than this: who cannot wait so long need not begin.
_LOADING = 0.3
# By measurement: docs/retrieval.md.
_WEIGHTS: dict[Family, Weights] = {
    "static": Weights(turn=0.1, entry=0.4, fills=True),
    "transformer": Weights(turn=0.4, entry=0.6),
    "endpoint": Weights(turn=0.4, entry=0.6),
}


@dataclass(slots=True)
class _Asked:
    """A query on its way to the embedder."""

    done: threading.Event
    meaning: Meaning | None = None
    error: str = ""


class Embedding:
    """The embedder of one engine and the model of its store. Safe from any thread."""

    def __init__(self, settings: Settings, store: Callable[[], Store]) -> None:
        """Take the settings and how the store is reached; loads nothing."""
        self.settings = settings
        self._store = store
        self._choice: Choice | None = None
        self.renew()

    def renew(self) -> None:
        """Begin anew, as in a forked child: what another thread was doing is not done here."""
        self._lock = threading.Lock()
        self._resolving = threading.Lock()
        self._patience = Breaker(_PATIENCE)
        self._asking = 0
        self._warm = False
        self._own: tuple[tuple[float, ...], ...] | None = None
        self._probed = 0.0
        self._model: VectorModel | None = None
        self._checked = 0.0
        self._queries: OrderedDict[str, Vector] = OrderedDict()
        self.problem = ""

    @property
    def choice(self) -> Choice:
        """The embedder of the settings, and why."""
        if self._choice is None:
            self._choice = choose(self.settings)
        return self._choice

    @property
    def is_on(self) -> bool:
        """Whether there is an embedder at all."""
        return self.choice.embedder is not None

    @property
    def is_wanted(self) -> bool:
        """Whether the settings ask for an embedder, there or not: what is off or absent degrades nothing."""
        return self.is_on or self.choice.problem

    @property
    def may_see_local(self) -> bool:
        """Whether rows that must not leave this machine, and questions about them, may be given to the embedder."""
        embedder = self.choice.embedder
        return self.settings.embed_local_rows or (embedder is not None and not embedder.is_remote)

    # -- which model -------------------------------------------------------------------------------------------------------------

    def model(self, *, timeout: float | None = None) -> VectorModel:
        """Return the store's model, made known now when the store has none, if it is the one of this process.

        Raises EmbeddingError when the embedder does not answer, or is another model than the store's; StoreError.
        """
        model = self._resolved(timeout, make_known=True)
        if model is None:
            raise EmbeddingError("the store does not keep the model")
        return model

    def _resolved(self, timeout: float | None, *, make_known: bool) -> VectorModel | None:
        """Return the store's model if it is the one of this process; None when the store has none and it is not to be made known."""
        embedder = self._embedder()
        # Another thread may be asking an embedder that hangs, and may wait for longer than this caller.
        if not self._resolving.acquire(timeout=-1 if timeout is None else timeout):
            raise EmbeddingError(f"{embedder.name} has not said yet which model it is", retryable=True)
        try:
            if self._model is not None and time.monotonic() - self._checked < _TRUSTED_SECONDS:
                return self._model
            store = self._store()
            active = active_model(store)
            if self._model is None or active is None or active.key != self._model.key:
                self._model = self._matched(store, active, timeout, make_known=make_known)
                self._queries.clear()
            self._checked = time.monotonic()
            return self._model
        finally:
            self._resolving.release()

    @property
    def is_unmet(self) -> bool:
        """Whether the embedder is an endpoint that has not said yet which model it is.

        Its vectors of a dozen texts tell, which may take it longer than a question may wait.
        """
        return self._own is None and self.choice.embedder is not None and self.choice.embedder.family == "endpoint"

    def _embedder(self) -> Embedder:
        if self.choice.embedder is None:
            raise EmbeddingError(self.choice.why)
        return self.choice.embedder

    def _matched(
        self, store: Store, active: VectorModel | None, timeout: float | None, *, make_known: bool
    ) -> VectorModel | None:
        self._model = None
        embedder = self._embedder()
        if active is not None and active.dimension != embedder.dimension:
            raise EmbeddingError(other_model(active, embedder))
        if active is None and (misfit := _misfit(store, embedder)):
            raise EmbeddingError(misfit)
        probes = self.probes(timeout=timeout)
        if active is None and not make_known:
            return None
        if active is None:
            store.add_vector_model(self.described(active=True))
            active = active_model(store)  # another process may have been first
        if active is None or not same(active.probes, probes):
            raise EmbeddingError(other_model(active, embedder))
        return active

    def probes(self, *, timeout: float | None = None) -> tuple[tuple[float, ...], ...]:
        """Return the vectors that this process's embedder gives to the probe texts. Raises EmbeddingError."""
        if self._own is None:
            self._own = probe(self._embedder(), timeout=timeout)
            self._probed = time.monotonic()
            self._warm = True
        return self._own

    def look_again(self) -> None:
        """Ask an endpoint that was asked long ago anew which model it is, before vectors of it are stored. Raises EmbeddingError."""
        embedder = self._embedder()
        if self._own is None or embedder.family != "endpoint" or time.monotonic() - self._probed < _PROBED_SECONDS:
            return
        own = probe(embedder)
        with self._resolving:
            self._own, self._probed, self._model = own, time.monotonic(), None

    def forget_model(self) -> None:
        """Look at the store again before the next use."""
        with self._resolving:
            self._model = None

    def described(self, *, active: bool) -> VectorModel:
        """Return this process's model as a store keeps it. Raises EmbeddingError."""
        embedder, probes = self._embedder(), self.probes()
        return VectorModel(
            key=key_of(embedder.name, probes),
            name=embedder.name,
            dimension=embedder.dimension,
            probes=probes,
            floor=floor_of(probes),
            active=active,
        )

    def mismatch(self) -> str:
        """Return why the store's vectors cannot be used, as far as that is known without asking the embedder; else nothing."""
        store = self._store()
        active, embedder = active_model(store), self.choice.embedder
        if embedder is None:
            return ""
        if active is None:
            return _misfit(store, embedder)
        if active.dimension != embedder.dimension or (self._own is not None and not same(active.probes, self._own)):
            return other_model(active, embedder)
        return ""

    # -- queries -----------------------------------------------------------------------------------------------------------------

    def ask(self, text: str, *, wait: float) -> tuple[Meaning | None, str]:
        """Return the meaning of a query, or None and why it cannot be had within `wait` seconds.

        A text of which the model knows nothing has no meaning, and that is no problem.
        """
        embedder = self.choice.embedder
        if embedder is None:
            self.problem = self.choice.why
            return None, self.problem
        if self._warm and embedder.family != "endpoint":
            asked = _Asked(threading.Event())
            self._answer(text, asked, wait)
        else:
            asked = self._ask_beside(text, embedder, wait)
        self.problem = asked.error
        return asked.meaning, asked.error

    def _ask_beside(self, text: str, embedder: Embedder, wait: float) -> _Asked:
        """Ask in a thread of its own, so that nothing that hangs keeps the caller."""
        asked = _Asked(threading.Event(), error=f"{embedder.name} did not answer within {wait:.2g} s")
        if not self._warm and embedder.family == "transformer" and wait < _LOADING:
            asked.error = f"loading {embedder.name} takes longer than {wait:.2g} s"
            return asked
        ticket = self._patience.admit(wait)
        if ticket is None:
            late, pause = self._patience.failures, self._patience.wait()
            asked.error = f"{embedder.name} was late {late} times in a row and is asked again in {pause:.1f} s"
            return asked
        with self._lock:
            if self._asking >= _MOST_ASKING:
                self._patience.undecided(ticket)
                asked.error = f"{embedder.name} is busy with earlier queries"
                return asked
            self._asking += 1
        beside, until = _Asked(threading.Event()), time.monotonic() + wait
        thread = threading.Thread(target=self._answer_and_leave, args=(text, beside, wait), name="mnemosyne-asker", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending
            self._leave(beside, "no thread could be started to ask the embedder")
        answered = beside.done.wait(wait)
        if beside.meaning is None and time.monotonic() >= until:
            self._patience.failed(ticket, asked.error)
        elif beside.error:
            self._patience.undecided(ticket)
        else:
            self._patience.succeeded()
        return beside if answered else asked

    def _leave(self, asked: _Asked, error: str = "") -> None:
        with self._lock:
            self._asking -= 1
        asked.error = asked.error or error
        asked.done.set()

    def _answer_and_leave(self, text: str, asked: _Asked, wait: float) -> None:
        try:
            self._answer(text, asked, wait)
        finally:
            self._leave(asked)

    def _answer(self, text: str, asked: _Asked, wait: float) -> None:
        try:
            # A question writes nothing, for it would wait for the lock; where no row has a vector, none is found by one.
            model = self._resolved(wait, make_known=False)
            if model is None:
                return
            embedder = self._embedder()
            vector = self._known(text)
            if vector is None:
                vector = embedder.embed([text], "query", timeout=wait)[0]
                self._remember(text, vector)
            share = self.settings.vector_weight
            weights = _WEIGHTS[embedder.family] if share is None else Weights(turn=share, entry=share)
            least = -1.0 if self.settings.min_similarity is None else self.settings.min_similarity
            asked.meaning = Meaning(
                model=model.key,
                vector=vector,
                floor=model.floor,
                weights=weights,
                least=least,
                alone=not self.settings.hybrid_search,
            )
        except EmbeddingError as error:
            # A model on this machine that knows no word of a text is well; an endpoint that answers nothing of use is not.
            asked.error = "" if error.about_text and self._embedder().family != "endpoint" else str(error)
        except StoreError as error:
            asked.error = str(error)

    def _known(self, text: str) -> Vector | None:
        with self._lock:
            vector = self._queries.get(text)
            if vector is not None:
                self._queries.move_to_end(text)
            return vector

    def _remember(self, text: str, vector: Vector) -> None:
        with self._lock:
            self._queries[text] = vector
            while len(self._queries) > _CACHED_QUERIES:
                self._queries.popitem(last=False)

    # -- figures -----------------------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """Return what `stats` and `doctor` say: the embedder and why, the store's model, the state of the rows, what is wrong.

        Raises StoreError.
        """
        store, embedder = self._store(), self.choice.embedder
        active = active_model(store)
        found: dict[str, Any] = {
            "embedder": embedder.name if embedder else None,
            "why": self.choice.why,
            "model": active.key if active else None,
            "problem": (self.choice.why if self.choice.problem else "") or self.mismatch() or self.problem,
        }
        return found | dataclasses.asdict(store.vector_counts(active.key if active else ""))

    def close(self) -> None:
        """Give back the embedder's connections and memory."""
        if self._choice is not None and self._choice.embedder is not None:
            self._choice.embedder.close()


def _misfit(store: Store, embedder: Embedder) -> str:
    """Return why a model cannot become the first of a store that was set up for vectors of a certain length."""
    held = store.meta("embed_dim")
    if not held or held == str(embedder.dimension):
        return ""
    return (
        f"the store was set up for vectors of {held} dimensions, {embedder.name} gives {embedder.dimension}: recall goes on by words alone; "
        "configure such a model, or run `hermes-pgvector reembed` to change the store's"
    )


def active_model(store: Store) -> VectorModel | None:
    """Return the model whose vectors a store searches."""
    return next((model for model in store.vector_models() if model.active), None)


def other_model(active: VectorModel | None, embedder: Embedder) -> str:
    """Return the message for a process whose embedder is not the store's model."""
    held = f"{active.name} ({active.dimension} dimensions)" if active else "another model"
    return (
        f"the store holds vectors of {held}, this process embeds with {embedder.name} ({embedder.dimension}): recall goes on by words "
        "alone; configure that model, or run `mnemosyne reembed` to change the store's"
    )
