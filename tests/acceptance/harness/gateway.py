"""The host's API server as a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import socket
import subprocess
from collections import Counter
from typing import Any, Self

from tests.acceptance.harness.hosts import PATIENCE, Home, wait_until


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Gateway:
    """`hermes gateway run` with the API server, under the observer; a context manager.

    `kill` (`HOOK:TEXT`) makes the server kill itself with SIGKILL right after such a call of a hook has returned.
    """

    def __init__(self, home: Home, kill: str = "-") -> None:
        """Choose a port and a key."""
        self._home = home
        self._kill = kill
        self._port = _free_port()
        self._key = secrets.token_hex(16)
        self._answered: list[str] = []

    def __enter__(self) -> Self:
        """Start the server and wait until it answers."""
        server = {
            "API_SERVER_ENABLED": "1",
            "API_SERVER_KEY": self._key,
            "API_SERVER_PORT": str(self._port),
            "API_SERVER_HOST": "127.0.0.1",
        }
        self._output = (self._home.path / "gateway.out").open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            self._home.observed_command("gateway", "run", kill=self._kill),
            env={**self._home.environment, **server},
            cwd=self._home.path,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        wait_until(self._answers, "the API server")
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server, as a service manager does."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(timeout=PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            self._output.close()

    def _answers(self) -> bool:
        output = self._home.path / "gateway.out"
        assert self._process.poll() is None, f"the server ended:\n{output.read_text(encoding='utf-8')}"
        try:
            return self._request("GET", "/health")[0] == http.client.OK
        except OSError:
            return False

    def _request(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            content = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}", **(headers or {})}
            connection.request(method, path, None if body is None else json.dumps(body), content)
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"null")
        finally:
            connection.close()

    def chat(self, text: str, *, key: str | None = None, session: str | None = None, history: tuple[Any, ...] = ()) -> str:
        """Send one user message, and return the answer."""
        headers = {"X-Hermes-Session-Key": key, "X-Hermes-Session-Id": session}
        body = {"model": "hermes-agent", "messages": [*history, {"role": "user", "content": text}]}
        given = {name: value for name, value in headers.items() if value}
        status, answer = self._request("POST", "/v1/chat/completions", body, given)
        assert status == http.client.OK, answer
        content: str = answer["choices"][0]["message"]["content"]
        self._answered.append(text)
        return content

    def chat_until_killed(self, text: str, *, key: str | None = None, session: str | None = None) -> None:
        """Send a message whose turn the server does not survive, and wait for its end; the answer may still arrive."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.chat(text, key=key, session=session)
        assert self._process.wait(timeout=PATIENCE) < 0, "the server was not killed"

    def wait_for_turns(self, count: int) -> None:
        """Wait until the host has handed over `count` turns since the home was made; fail with those of this server that are missing."""
        try:
            wait_until(lambda: len(self._home.observed("sync_turn")) >= count, f"{count} turns to be handed over")
        except AssertionError as error:
            begun = Counter(hook["kwargs"].get("session_id") for hook in self._home.observed("initialize"))
            error.add_note(f"never handed over: {self._missing()}; agents with a memory by session: {dict(begun)}")
            output = (self._home.path / "gateway.out").read_text(encoding="utf-8").splitlines()
            error.add_note("\n".join(line for line in output if "emory" in line))
            raise

    def _missing(self) -> list[str]:
        handed = Counter(hook["args"][0] for hook in self._home.observed("sync_turn"))
        return [text.partition("\n")[0] for text in (Counter(self._answered) - handed).elements()]
