"""A scripted language model behind the chat-completions protocol, on loopback.

The newest user message is the script, so that no test has to configure the model:

    >>> call NAME {json}    a tool call; calls that follow each other are answered together, as parallel calls
    >>> next                the calls after it come in a further answer, once the results of those before are in
    >>> say TEXT            the final answer (else `done`)

Every request is kept as it arrived, so a test can look at what the model was shown. A request without tools is one of the
host's own (titles, summaries) and is answered with a fixed text.
"""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

CONTEXT = re.compile(r"<memory-context>.*?</memory-context>", re.DOTALL)
MARK = ">>> "
SIDE_ANSWER = "A conversation about this and that."

Message = dict[str, Any]


def text_of(message: Message) -> str:
    """Return the text of a message, whichever of the two forms of content it has."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


@dataclass
class Script:
    """What a user message asks of the model: rounds of tool calls, then a final answer."""

    rounds: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    say: str = "done"

    @classmethod
    def of(cls, text: str) -> Script:
        """Read the script lines of a user message; those inside recalled memory are none."""
        script = cls()
        for line in CONTEXT.sub("", text).splitlines():
            verb, _, rest = line.removeprefix(MARK).strip().partition(" ") if line.startswith(MARK) else ("", "", "")
            if verb == "call":
                name, _, arguments = rest.partition(" ")
                script.rounds[-1].append((name, arguments or "{}"))
            elif verb == "next":
                script.rounds.append([])
            elif verb == "say":
                script.say = rest
        script.rounds = [one for one in script.rounds if one]
        return script


def reply_to(request: dict[str, Any]) -> Message:
    """Return the assistant's next message for a request."""
    if not request.get("tools"):
        return {"role": "assistant", "content": SIDE_ANSWER}
    messages: list[Message] = request["messages"]
    newest = max(index for index, message in enumerate(messages) if message["role"] == "user")
    script = Script.of(text_of(messages[newest]))
    answered = sum(1 for message in messages[newest + 1 :] if message.get("tool_calls"))
    if answered == len(script.rounds):
        return {"role": "assistant", "content": script.say}
    calls = [
        {"id": f"call_{len(messages)}_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(script.rounds[answered])
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _chunks(reply: Message, head: dict[str, Any], usage: dict[str, int]) -> list[dict[str, Any]]:
    """Return the events of a streamed answer: the message in one piece, the end, the usage."""
    calls = [{**call, "index": number} for number, call in enumerate(reply.get("tool_calls") or ())]
    delta = {"role": "assistant", "tool_calls": calls} if calls else reply
    return [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]},
        {**head, "choices": [], "usage": usage},
    ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Say nothing: the test's output is pytest's."""

    def do_GET(self) -> None:
        """List the one model."""
        self._answer(json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}).encode())

    def do_POST(self) -> None:
        """Answer a chat completion."""
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(raw)
        self.server.requests.append(request)
        reply = reply_to(request)
        usage = {"prompt_tokens": len(raw) // 4, "completion_tokens": 8, "total_tokens": len(raw) // 4 + 8}
        head = {"id": f"chatcmpl-{len(self.server.requests)}", "created": int(time.time()), "model": "scripted"}
        if request.get("stream"):
            events = _chunks(reply, {**head, "object": "chat.completion.chunk"}, usage)
            lines = [f"data: {json.dumps(event)}\n\n" for event in events]
            self._answer("".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream")
            return
        choice = {"index": 0, "message": reply, "finish_reason": "tool_calls" if reply.get("tool_calls") else "stop"}
        self._answer(json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage}).encode())

    def _answer(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []


class ScriptedModel:
    """The model as a running server; a context manager."""

    def __init__(self) -> None:
        """Bind a free port."""
        self._server = _Server()
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        """Start answering."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop answering and free the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def conversations(self) -> list[dict[str, Any]]:
        """The requests in which an agent talks, oldest first; the host's side requests are left out."""
        return [request for request in self._server.requests if request.get("tools")]

    @property
    def side_requests(self) -> list[dict[str, Any]]:
        """The host's own requests, such as summaries."""
        return [request for request in self._server.requests if not request.get("tools")]

    def shown(self, number: int = -1) -> str:
        """Return the whole text that the model was shown in one request, by default the newest."""
        return "\n".join(text_of(message) for message in self.conversations[number]["messages"])

    def recalled(self, number: int = -1) -> str:
        """Return the recalled memory in the newest user message of one request, empty when there is none."""
        users = [message for message in self.conversations[number]["messages"] if message["role"] == "user"]
        return "\n".join(CONTEXT.findall(text_of(users[-1])))

    def tool_results(self, number: int = -1) -> list[Any]:
        """Return the decoded results of the tools in one request, oldest first."""
        tools = [message for message in self.conversations[number]["messages"] if message["role"] == "tool"]
        return [json.loads(text_of(message)) for message in tools]


def call(name: str, **arguments: object) -> str:
    """Return the script line of a tool call."""
    return f"{MARK}call {name} {json.dumps(arguments)}"


def say(text: str) -> str:
    """Return the script line of a final answer."""
    return f"{MARK}say {text}"


def lines(*parts: str) -> str:
    """Return a user message of several lines."""
    return "\n".join(parts)
