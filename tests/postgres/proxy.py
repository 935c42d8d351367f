"""A way to a server that can hang, be cut, refuse and delay: networks as they are."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar

_T = TypeVar("_T")
_CHUNK = 65536


class Proxy:
    """Listens on a port of the loopback interface and forwards to `target`, a socket's path or (host, port).

    `hang` holds back every byte from now on, new connections included; `flow` lets them go on. `cut` breaks the connections there
    are; `refuse` closes the port too, `accept` opens it again. `delay` is the time, in seconds, that each piece of an answer waits.
    """

    def __init__(self, target: Path | tuple[str, int]) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._gate = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.host = "127.0.0.1"
        self.port = 0
        self.delay = 0.0
        self.accepted = 0
        """How many connections there have been."""

    @property
    def open(self) -> int:
        """How many connections there are now."""
        return len(self._tasks)

    def __enter__(self) -> Self:
        self._thread.start()
        self.flow()
        self.accept()
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def dsn(self, dsn: str) -> str:
        """Return a DSN of the server behind, by way of this proxy."""
        from psycopg.conninfo import make_conninfo

        return make_conninfo(dsn, host=self.host, port=self.port)

    def hang(self) -> None:
        self._call(self._set(flowing=False))

    def flow(self) -> None:
        self._call(self._set(flowing=True))

    def accept(self) -> None:
        self._call(self._accept())

    def refuse(self) -> None:
        self._call(self._refuse())

    def cut(self) -> None:
        self._call(self._cut())

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    async def _set(self, *, flowing: bool) -> None:
        if flowing:
            self._gate.set()
        else:
            self._gate.clear()

    async def _accept(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, self.host, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _refuse(self) -> None:
        if self._server is not None:
            # A connection that is being taken in when its server closes would be lost and never closed.
            for listening in self._server.sockets:
                self._loop.remove_reader(listening.fileno())
            await asyncio.sleep(0)
            self._server.close()
            self._server = None
        await self._cut()

    async def _cut(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _end(self) -> None:
        """Refuse, and wait for the connections that were on their way in: nothing is left open when the loop stops."""
        await self._refuse()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Start to forward one connection; in a task of our own, since asyncio reports a cancelled one of its."""
        if self._server is None:
            writer.close()
            return
        self.accepted += 1
        task = asyncio.get_running_loop().create_task(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A task that is cancelled before its first step does not come to its own end.
        task.add_done_callback(lambda _: writer.close())

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind: asyncio.StreamWriter | None = None
        pumps: list[asyncio.Task[None]] = []
        try:
            await self._gate.wait()
            answers, behind = await self._connect()
            pumps = [
                asyncio.create_task(self._pump(reader, behind)),
                asyncio.create_task(self._pump(answers, writer, answer=True)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            return  # nobody answers there: the client sees the connection end
        finally:
            open_ends = [one for one in (writer, behind) if one is not None]
            for pump in pumps:
                pump.cancel()
            # All of them before anything is waited for: a cut may come meanwhile.
            for one in open_ends:
                one.close()
            await asyncio.gather(*pumps, return_exceptions=True)
            for one in open_ends:
                await _close(one)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, Path):
            return await asyncio.open_unix_connection(str(self._target))
        return await asyncio.open_connection(*self._target)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answer: bool = False) -> None:
        while data := await reader.read(_CHUNK):
            if answer and self.delay:
                await asyncio.sleep(self.delay)
            await self._gate.wait()
            writer.write(data)
            await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close once what has been written already is sent, or nobody takes it; a reset by the other side is no matter any more."""
    writer.close()
    with contextlib.suppress(OSError):
        await asyncio.wait_for(writer.wait_closed(), 1)
    writer.transport.abort()
