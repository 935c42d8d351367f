"""Sync in the process of an agent: a round every now and then, in a thread of its own that no hook waits for."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne._errors import MnemosyneError
from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.core import Engine
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.setting_keys import SyncSettings
from hermes_mnemosyne.store.protocol import EVERYTHING
from hermes_mnemosyne.sync.remote import Remote
from hermes_mnemosyne.sync.round import Options, sync_once
from hermes_mnemosyne.sync.secret import CREDENTIALS_VARIABLE, SEAL_VARIABLE, client_key
from hermes_mnemosyne.sync.sharing import wanted
from hermes_mnemosyne.sync.watch import pause_after
from hermes_mnemosyne.values import DEFAULT_THEME
from hermes_mnemosyne.worker import Worker

if TYPE_CHECKING:
    from hermes_mnemosyne.sync.seal import Sealer

_log = logging.getLogger(__name__)
_LONGEST_LOOK = 30.0
_FIRST_AFTER = 3.0
# A page is one transaction, and work that the hooks of this process wait for: a short one.
_PAGE = 100
_COUNTED = ("pulled", "pushed", "refused", "set_aside", "restamped", "healed")


def attach(engine: Engine) -> None:
    """Let an engine whose settings name a remote sync in the background; repeated, it sees to it that it does. Never waits."""
    if engine.settings.sync.remote and not engine.one_shot:
        engine.companions.carry("sync", lambda: Background(engine, engine.settings.sync))


class Background:
    """The rounds of one engine with the remote of its settings. What goes wrong is counted, told in the log once, and tried again."""

    def __init__(self, engine: Engine, settings: SyncSettings) -> None:
        """Take an engine and the settings of sync; nothing is asked or opened before the first round."""
        self._memory = Memory(engine, theme=DEFAULT_THEME, subject="", reach=EVERYTHING)
        self._settings = settings
        self._counted: Counter[str] = Counter()
        self._failed_in_a_row = 0
        self._problem = ""
        self._last_success: str | None = None
        # A session that begins has better things to do.
        self._next = time.monotonic() + min(settings.interval, _FIRST_AFTER)
        self._remote: Remote | None = None
        self._stop = threading.Event()
        self._worker = Worker(self._work, name="mnemosyne-sync")
        self._worker.be_patient(min(settings.interval / 2, _LONGEST_LOOK))

    def wake(self) -> None:
        """See to it that the thread is there."""
        if not self._worker.is_running:
            self._worker.wake()

    def renew(self) -> None:
        """Go on in a forked child, with a connection of its own."""
        self._stop, self._remote = threading.Event(), None
        self._worker.renew()

    def stop(self, *, timeout: float) -> bool:
        """End the thread; a round that is under way is cut, and the next process goes on from there."""
        self._stop.set()
        if (remote := self._remote) is not None:
            remote.cut()
        return self._worker.stop(timeout=timeout)

    def figures(self) -> dict[str, Any]:
        """Return what was counted, and the last problem (empty when the last round was well)."""
        return {
            "remote": self._settings.remote,
            "rounds": self._counted["rounds"],
            "failures": self._counted["failures"],
            **{name: self._counted[name] for name in _COUNTED},
            "last_success": self._last_success,
            "problem": self._problem,
        }

    def _work(self) -> bool:
        """Do a round when it is time; never done, for the next one will come."""
        if time.monotonic() < self._next or self._stop.is_set():
            return False
        try:
            problem = self._round()
        except MnemosyneError as error:
            problem = str(error)
        if self._stop.is_set():
            return False
        if problem:
            self._counted["failures"] += 1
            self._failed_in_a_row += 1
            if problem != self._problem:
                _log.warning("sync: %s", problem)
        else:
            self._failed_in_a_row = 0
            self._last_success = now_text()
        self._problem = problem
        pause = pause_after(self._failed_in_a_row, self._settings.interval) if problem else self._settings.interval
        self._next = time.monotonic() + pause
        return False

    def _sealer(self) -> Sealer | None:
        """Return what seals, read anew for each round: a key may be added to the file. Raises ConfigError, MissingExtra."""
        setting = self._settings.seal_key_file
        if setting is None and not any(name in os.environ for name in (SEAL_VARIABLE, CREDENTIALS_VARIABLE)):
            return None
        from hermes_mnemosyne.sync.seal_keys import sealer_of

        return sealer_of(flag=None, setting=setting, environ=os.environ)

    def _round(self) -> str:
        settings = self._settings
        if self._remote is None:
            key = client_key(flag=None, setting=settings.api_key_file, environ=os.environ)
            # No second attempts: the next round is one.
            self._remote = Remote(settings.remote or "", key, attempts=1, stop=self._stop)
        chosen = wanted(settings.include, settings.exclude, turns=settings.turns)
        options = Options(wanted=chosen, sealer=self._sealer(), limit=_PAGE, lock_wait=0.0, stop=self._stop)
        summary = sync_once(self._memory, self._remote, options)
        self._remote.close()
        self._counted["rounds"] += 1
        self._counted.update({name: getattr(summary, name) for name in _COUNTED})
        return "; ".join(summary.errors)
