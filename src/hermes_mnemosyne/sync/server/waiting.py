"""Waiting for news without holding a thread: whoever wants to hear of changes waits here, and one task looks for all of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from hermes_mnemosyne._errors import StoreError
from hermes_mnemosyne.sync.server.answers import Refused

_EVERY = 0.2


class Watcher:
    """The position of a store, looked at while somebody waits: other processes write to it too."""

    def __init__(self, look: Callable[[], Awaitable[int]], *, every: float = _EVERY) -> None:
        """Take what tells the position; it is asked each `every` seconds."""
        self._look = look
        self._every = every
        self._news = asyncio.Event()
        self._position = -1
        self._task: asyncio.Task[None] | None = None
        self.waiters = 0
        self.is_stopped = False

    async def beyond(self, position: int, seconds: float, gone: Awaitable[object]) -> None:
        """Return when the store may be beyond a position, when `seconds` are over, when `gone` is done, or when all is to stop."""
        leaving = asyncio.ensure_future(gone)
        self.waiters += 1
        try:
            self._start()
            async with asyncio.timeout(seconds):
                while not self.is_stopped and self._position <= position and not leaving.done():
                    news = asyncio.ensure_future(self._news.wait())
                    try:
                        await asyncio.wait({news, leaving}, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        news.cancel()
        except TimeoutError:
            return
        finally:
            self.waiters -= 1
            if not leaving.done():
                leaving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await leaving

    def tell(self, position: int) -> None:
        """Wake everybody who waits for something beyond an earlier position."""
        if position > self._position:
            self._position = position
            self._wake()

    def stop(self) -> None:
        """Let nobody wait any more."""
        self.is_stopped = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while self.waiters and not self.is_stopped:
            # Whoever asks next is told what is wrong; here it may be over soon.
            with contextlib.suppress(StoreError, Refused):
                self.tell(await self._look())
            await asyncio.sleep(self._every)
