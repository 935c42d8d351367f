"""The memory provider of the host: thin, no SQL, no ranking, nothing kept but the session at hand.

A host makes a provider for every agent, an API server one for every request, and may never shut it down. So the database, its
connections and the worker belong to the process; a provider holds a view of them. Hooks may come from any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hermes_mnemosyne._errors import MnemosyneError, StoreBusy, StoreError, StoreUnavailable
from hermes_mnemosyne.capture import completed_turn, is_trivial, transcript_texts
from hermes_mnemosyne.hermes.provider import attributing, capturing, config, host, mirroring, tools, waiting
from hermes_mnemosyne.hermes.provider.boundary import FINISH_SECONDS, Overdue, count, finish, hook, log, within
from hermes_mnemosyne.hermes.provider.ledger import Ledger
from hermes_mnemosyne.hermes.provider.prefetch import Recalled, recall
from hermes_mnemosyne.hermes.provider.session import Session, Start, begin, settle
from hermes_mnemosyne.store.operations import MarkInjected

START_SECONDS = 0.03
PREFETCH_SECONDS = 1.4
TOOL_SECONDS = 8.0
RETRY_SECONDS = 5.0
# For a server that is not known to answer: so long a hook, a recall before a turn and a tool wait to see whether it does.
READY_SECONDS = 0.01
PREFETCH_READY_SECONDS = 0.03
TOOL_READY_SECONDS = 1.0
LEDGERS = 4


def _nothing(_error: Exception) -> None:
    return None


def _blank(_error: Exception) -> str:
    return ""


def _none(_error: Exception) -> list[str]:
    return []


def _mapping(_error: Exception) -> dict[str, Any]:
    return {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value.strip() else ""


class MnemosyneProvider(host.Base):
    """Durable, searchable, private memory: as `mnemosyne` in one SQLite file, as `pgvector` in a Postgres that a fleet shares."""

    def __init__(self, name: str = "mnemosyne") -> None:
        """Make a provider that is not initialised; nothing is opened or created."""
        self._name = name
        # One guards the fields below; the other keeps reports and transcripts of a session in order, while they are stored.
        self._lock = threading.RLock()
        self._capture_lock = threading.RLock()
        self._start: Start | None = None
        self._session: Session | None = None
        self._settled = False
        self._trouble = ""
        self._retry_at = 0.0
        self._session_id = ""
        self._ledgers: dict[str, Ledger] = {}
        self._recalled: int | None = None

    @property
    def name(self) -> str:
        """The name that `memory.provider` selects."""
        return self._name

    # -- before a session --------------------------------------------------------------------------------------------------------

    @hook(lambda _error: False)
    def is_available(self) -> bool:
        """Tell whether the settings can be read and the place of the database can exist; opens nothing."""
        return not config.why_unavailable(self.name)

    @hook(str)
    def unavailable_reason(self) -> str:
        """Return why the provider is not available, empty when it is."""
        return config.why_unavailable(self.name)

    @hook(_mapping)
    def identity_signature(self) -> dict[str, Any]:
        """Return what makes a host rebuild a cached agent when it changes."""
        return config.identity_signature(self.name)

    @hook(_none)
    def backup_paths(self) -> list[str]:
        """Return our files outside the host's home."""
        return config.backup_paths(self.name)

    def get_config_schema(self) -> list[dict[str, Any]]:
        """Return the settings that the host's wizard asks for."""
        from hermes_mnemosyne.settings import config_schema

        return config_schema(self.name)

    def save_config(self, values: Mapping[str, Any], hermes_home: str) -> None:
        """Merge settings into the host's configuration. Raises ConfigError, which the host shows to the person at its wizard."""
        from hermes_mnemosyne.settings import save

        save(values, hermes_home=hermes_home, provider=self.name)

    @hook(lambda error: {"store": str(error)})
    def get_status_config(self, provider_config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what the host's status command prints."""
        return config.status(self.name, provider_config or {})

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Return the two tools, whatever the state of the store."""
        return tools.schemas()

    # -- the session -------------------------------------------------------------------------------------------------------------

    @hook(_nothing)
    def initialize(self, session_id: str = "", **kwargs: Any) -> None:
        """Bind this provider to a session; a later call binds it to another one.

        What the store has to be opened for is done behind the caller's back when it takes long, and tried again by later hooks.
        """
        start = Start.of(self.name, session_id, kwargs)
        with self._lock:
            self._start, self._session, self._settled, self._trouble, self._retry_at = start, None, False, "", 0.0
            self._session_id = start.session_id
        with self._capture_lock:
            self._ledgers.clear()
        session = self._view(READY_SECONDS)
        if session is not None:
            attributing.seen(session)
            if session.settings.sync.remote:
                from hermes_mnemosyne.sync.background import attach  # most agents have no server to sync with

                attach(session.memory.engine)

    def _view(self, wait: float = 0.0) -> Session | None:
        """Return the session; None while the settings cannot be used. What is not settled yet is tried from time to time.

        A server that is not known to answer is waited for at most `wait` seconds; what is left to settle then waits for it.
        """
        with self._lock:
            start = self._start
            if start is None or self._settled or time.monotonic() < self._retry_at:
                return self._session
            self._retry_at = time.monotonic() + RETRY_SECONDS
        try:
            if self._session is None:
                self._bind(start, begin(start), settled=False)
            if not self._is_ready(wait):
                self._not_ready("the database has not answered yet")
                if self._session is not None:
                    self._session.memory.engine.when_ready(lambda: self._settle(start))
                return self._session
            within(START_SECONDS, lambda: self._settle(start), to_the_end=True)
        except Overdue:
            self._doubt()
            # It goes on behind the caller's back; the first start of a store takes a moment.
            log.info("the memory is still being opened")
            self._not_ready("it is still being opened")
        except (MnemosyneError, OSError) as error:
            count("start")
            log.warning("the memory is not ready: %s", error)
            self._not_ready(str(error))
        return self._session

    def _is_ready(self, wait: float) -> bool:
        """Tell whether the store may be asked without waiting for long."""
        session = self._session
        return session is None or session.memory.engine.ready(wait)

    def _doubt(self) -> None:
        """Have a server that did not answer in time looked at before it is asked again."""
        session = self._session
        if session is not None:
            session.memory.engine.contact.doubt()

    def _not_ready(self, reason: str) -> None:
        with self._lock:
            if not self._settled:
                self._trouble = reason

    def _settle(self, start: Start) -> None:
        session = self._session
        if session is None or self._start is not start or self._settled:
            return
        session = settle(session)
        self._bind(start, session, settled=not session.keyless and bool(session.origins))
        self._trouble = ""  # the store has answered
        if not session.keyless:
            waiting.release(session.memory.engine)
        mirroring.mirror_files(session)

    def _bind(self, start: Start, session: Session, *, settled: bool) -> None:
        with self._lock:
            # A later `initialize` may have come in between.
            if self._start is start:
                before = self._session
                if before is None or (before.keyless and not session.keyless):
                    self._session_id = session.session_name(start.session_id)
                self._session, self._settled = session, settled

    def _named(self, session: Session, session_id: Any) -> str:
        """Return the stored name of the session a hook speaks of; an empty id means the current one."""
        return session.session_name(_text(session_id)) or self._session_id

    @hook(_blank)
    def system_prompt_block(self) -> str:
        """Return a few lines for the system prompt: the theme, its counts, how to recall."""
        started = time.monotonic()
        session = self._view()
        if session is None:
            return config.trouble_block(self._trouble)
        if not self._is_ready(READY_SECONDS):
            return config.prompt_block(session.memory.theme, None, unverified=True)
        if session.keyless:
            reason = waiting.why(session.memory.engine)
            return config.trouble_block(self._trouble) or config.keyless_block(session.memory.theme, reason)
        try:
            counts = within(max(START_SECONDS - (time.monotonic() - started), 0.0), session.memory.counts)
        except (StoreBusy, Overdue) as error:
            count("system_prompt_block")
            log.warning("the number of memories is not known: %s", error)
            if isinstance(error, Overdue):
                self._doubt()
            counts = None
        except StoreError as error:
            count("system_prompt_block")
            log.warning("the store cannot be used: %s", error)
            return config.trouble_block(str(error))
        return config.prompt_block(session.memory.theme, counts)

    @hook(_nothing)
    def on_turn_start(self, turn_number: int = 0, message: Any = "", **_kwargs: Any) -> None:  # noqa: ARG002 - the host's signature
        """Begin a turn: nothing has been recalled for it yet."""
        self._recalled = None

    # -- recall ------------------------------------------------------------------------------------------------------------------

    @hook(_blank)
    def prefetch(self, query: Any, *, session_id: str = "") -> str:
        """Return what is relevant to a message and does not stand in the prompt already, within 1.5 s whatever hangs."""
        self._recalled = None
        session = self._view()
        if session is None or not isinstance(query, str) or is_trivial(query):
            return ""
        if not self._is_ready(PREFETCH_READY_SECONDS):
            count("prefetch-away")
            log.info("nothing was recalled: %s", session.memory.engine.contact.error())
            return ""
        own = self._named(session, session_id)
        try:
            limit = min(PREFETCH_SECONDS, session.settings.prefetch_budget)
            recalled: Recalled = within(limit, lambda: recall(session, query, own))
        except MnemosyneError as error:
            if isinstance(error, Overdue):
                self._doubt()
            count("prefetch")
            log.warning("nothing was recalled: %s", error)
            return ""
        self._mark(session, own, recalled.uids)
        self._recalled = len(recalled.uids)
        return recalled.text

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """Do nothing: a recall is quick, and the next message is another question than the last one."""

    def recall_status(self) -> Any:
        """Return the host's value for how many memories the last `prefetch` recalled, None without any."""
        return host.recall_status(self._recalled) if self._recalled else None

    @hook(tools.trouble)
    def handle_tool_call(self, tool_name: str, args: Any, **kwargs: Any) -> str:
        """Answer a call of one of the two tools with JSON text."""
        if tool_name not in (tools.MEMORY_TOOL, tools.CONVERSATION_TOOL):
            return tools.argument_error(f"Unknown tool: {tool_name}")
        session = self._view()
        if session is None:
            return tools.runtime_error(f"{self.name} unavailable")
        own = self._named(session, kwargs.get("session_id"))
        try:
            call = tools.parse_call(tool_name, args, session.reader(own))
        except tools.ArgumentError as error:
            return tools.argument_error(str(error))
        if session.keyless and session.bucket:
            return tools.runtime_error(self._trouble or waiting.why(session.memory.engine))
        engine = session.memory.engine
        if not engine.ready(TOOL_READY_SECONDS):
            engine.contact.failed(engine.contact.error())
        try:
            result = within(TOOL_SECONDS, lambda: session.memory.recall(call.query))
        except StoreUnavailable as error:
            if isinstance(error, Overdue):
                self._doubt()
            if not engine.place.is_server:
                raise
            return tools.runtime_error(f"{self.name} unavailable (writes are safe in the local spool): {error}")
        self._mark(session, own, tuple(hit.uid for hit in result.hits))
        return tools.answer(call, result, fused=session.settings.hybrid_search)

    def _mark(self, session: Session, session_id: str, uids: Sequence[str]) -> None:
        """Note durably that rows stand in the prompt now, unless the client keeps the history and does not get them back."""
        if not uids or not session.writes or session.client_keeps_history(session_id):
            return
        try:
            capturing.submitted(session, [session.memory.make(MarkInjected, session_id=session_id, uids=tuple(uids))])
        except (MnemosyneError, OSError) as error:
            # To recall it again is better than not to recall it.
            count("mark")
            log.warning("it was not noted what stands in the prompt: %s", error)

    # -- capture -----------------------------------------------------------------------------------------------------------------

    @hook(_nothing)
    def sync_turn(
        self, user_content: str, assistant_content: str, *, session_id: str = "", messages: Any = None, **_kwargs: Any
    ) -> None:
        """Store a completed turn; when this returns it is in a database file."""
        session = self._view()
        if session is None or not session.captures:
            return
        spoken = completed_turn(user_content, assistant_content, messages, reduce=host.user_words)
        turns = capturing.worth_keeping(session, spoken)
        if turns:
            own = self._named(session, session_id)
            with self._capture_lock:
                capturing.store_report(session, self._ledger(own), turns)

    @hook(_nothing)
    def on_session_end(self, messages: Any = None) -> None:
        """Store what the transcript of the session holds beyond what is stored; it may come often and late."""
        session = self._view()
        if session is not None:
            attributing.seen(session)
        self._read_transcript(messages)

    @hook(_blank)
    def on_pre_compress(self, messages: Any = None, **_kwargs: Any) -> str:
        """Store what is about to be compressed away; adds nothing to the summary."""
        self._read_transcript(messages)
        return ""

    def _read_transcript(self, messages: Any) -> None:
        session = self._view()
        if session is None or not session.captures:
            return
        turns = capturing.worth_keeping(session, transcript_texts(messages, reduce=host.user_words))
        if turns:
            with self._capture_lock:
                capturing.store_transcript(session, self._ledger(self._session_id), turns)

    @hook(_nothing)
    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **_kwargs: Any) -> None:
        """Note who gave work to whom, and store task and result as a turn of the asking session."""
        session = self._view()
        if session is None or not session.writes or not (task or result):
            return
        child = session.session_name(_text(child_session_id))
        turn = None
        if session.captures:
            metadata = {"kind": "delegation", "child_session_id": child}
            turn = capturing.made_turn(session, "assistant", f"[delegation] task: {task}\nresult: {result}", metadata=metadata)
        attributing.delegated(session, self._session_id, child, attributing.Work(task, result, turn.uid if turn else ""))
        if turn is not None:
            capturing.store_report(replace(session, parent=self._session_id), Ledger(self._session_id), [turn])

    def _ledger(self, session_id: str) -> Ledger:
        """Return the ledger of a session; of the sessions before only the last few can still get late reports."""
        ledger = self._ledgers.pop(session_id, None) or Ledger(session_id)
        self._ledgers[session_id] = ledger
        while len(self._ledgers) > LEDGERS:
            del self._ledgers[next(iter(self._ledgers))]
        return ledger

    # -- the host's own memory ---------------------------------------------------------------------------------------------------

    @hook(_nothing)
    def on_memory_write(self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Mirror a committed write of the host's memory tool."""
        session = self._view()
        if session is not None and session.writes:
            details = metadata if isinstance(metadata, Mapping) else {}
            mirroring.mirror_write(session, self._session_id, mirroring.Write(action, target, content, details))

    # -- boundaries --------------------------------------------------------------------------------------------------------------

    @hook(_nothing)
    def on_session_switch(
        self, new_session_id: str, *, parent_session_id: str = "", reset: bool = False, rewound: bool = False, **kwargs: Any
    ) -> None:
        """Follow the host to another session, or note that the prompt of this one was cut.

        After a compression, an undo or a reset nothing that was injected before stands in the prompt any more; a branch begins
        with the prompt of its parent.
        """
        session = self._view()
        if session is None:
            with self._lock:
                if self._start is not None:
                    self._start = self._start.moved(_text(new_session_id))
            return
        continued = not reset and kwargs.get("reason") in ("compression", "branch")
        with self._lock:
            before, now = self._session_id, self._named(session, new_session_id)
            self._session_id = now
            if session.keyless and self._start is not None:
                self._start = self._start.moved(_text(new_session_id))
                self._session = session = replace(session, start=self._start)
        if continued and now != before:
            with self._capture_lock:
                self._ledgers[now] = self._ledger(before).continued(now)
        if not session.writes:
            return
        if reset or rewound or now == before:
            with self._capture_lock:
                self._ledger(now).cut(undone=rewound)
            capturing.submitted(session, [session.memory.make(MarkInjected, session_id=now, reset=True)])
        elif continued:
            parent = session.session_name(_text(parent_session_id)) or before
            capturing.continues(session, now, parent)
            if kwargs.get("reason") == "branch":
                self._hand_over(session, parent, now)

    def _hand_over(self, session: Session, parent: str, session_id: str) -> None:
        """Mark as standing in the prompt of a branch what stands in the prompt of its parent."""
        try:
            if not self._is_ready(0.0):
                raise session.memory.engine.contact.error()
            uids = tuple(sorted(within(START_SECONDS, lambda: capturing.in_prompt(session, session.own_marks(parent)))))
        except StoreError as error:
            count("lineage")
            log.warning("it is not known what stands in the prompt of the branch: %s", error)
            return
        if uids:
            capturing.submitted(session, [session.memory.make(MarkInjected, session_id=session.own_marks(session_id), uids=uids)])

    @hook(_nothing)
    def shutdown(self) -> None:
        """End this provider's part: everything it accepted is in a database file, and the process's engine serves the others."""
        with self._capture_lock:
            self._ledgers.clear()
        finish(FINISH_SECONDS)
