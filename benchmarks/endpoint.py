"""An embedding endpoint that costs next to nothing: `python benchmarks/endpoint.py`, see `Endpoint` for how it is used.

`POST /v1/embeddings` takes one text or many. The vector of a text is one of some thousand clustered ones, its first numbers turned a
little by a hash of the text, or the one that was taught for it. Answers are prepared as text, so that neither system waits for it.
`POST /teach` takes `{"texts": [...], "file": ..., "dimension": n}`, `POST /mode` `{"hang": true}`.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

DIMENSION = 768
_POOL, _TURNED = 2_048, 12
_HANG_SECONDS = 120.0


class Vectors:
    """The vectors of texts, as they stand in an answer."""

    def __init__(self, dimension: int = DIMENSION) -> None:
        """Draw the vectors that those of unknown texts are made of."""
        from benchmarks.fleet_corpus import Clusters

        drawn = Clusters(dimension).rows(_POOL)
        self._scale = float(abs(drawn).mean())
        # Without what is replaced for each text.
        self._tails = [",".join(f"{value:.6f}" for value in row[_TURNED:]) for row in drawn]
        self._heads = [row[:_TURNED].tolist() for row in drawn]
        self.taught: dict[str, str] = {}

    def of(self, text: str) -> str:
        """Return the vector of a text as a JSON list."""
        known = self.taught.get(text)
        if known is not None:
            return known
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_TURNED + 4).digest()
        number = int.from_bytes(digest[:4], "big") % _POOL
        turned = (
            f"{value + self._scale * (byte / 255 - 0.5):.6f}" for value, byte in zip(self._heads[number], digest[4:], strict=True)
        )
        return f"[{','.join(turned)},{self._tails[number]}]"

    def teach(self, texts: Sequence[str], file: str, dimension: int) -> None:
        """Take the vectors of these texts from a file of float32."""
        import numpy as np

        rows = np.fromfile(file, dtype="<f4").reshape(-1, dimension)
        self.taught |= {text: f"[{','.join(f'{value:.7g}' for value in row)}]" for text, row in zip(texts, rows, strict=True)}


class _Server(ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.vectors = Vectors()
        self.hangs = threading.Event()
        self.counted = {"requests": 0, "texts": 0}


class _Handler(StreamRequestHandler):
    server: _Server
    disable_nagle_algorithm = True
    wbufsize = 1 << 20

    def handle(self) -> None:
        while line := self.rfile.readline():
            length, closes = 0, False
            while header := self.rfile.readline().strip().lower():
                if header.startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
                closes = closes or header == b"connection: close"
            answer = self._answer(line.split()[1].decode(), json.loads(self.rfile.read(length) or b"{}"))
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer
            )
            self.wfile.flush()
            if closes:
                return

    def _answer(self, path: str, body: Mapping[str, Any]) -> bytes:
        if path == "/teach":
            self.server.vectors.teach(body["texts"], body["file"], body["dimension"])
        elif path == "/mode":
            (self.server.hangs.set if body["hang"] else self.server.hangs.clear)()
        elif path == "/v1/embeddings":
            return self._embeddings(body)
        return json.dumps(self.server.counted).encode()

    def _embeddings(self, body: Mapping[str, Any]) -> bytes:
        until = time.monotonic() + _HANG_SECONDS
        while self.server.hangs.is_set() and time.monotonic() < until:
            time.sleep(0.02)
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        self.server.counted["requests"] += 1
        self.server.counted["texts"] += len(texts)
        parts = (f'{{"index":{place},"embedding":{self.server.vectors.of(text)}}}' for place, text in enumerate(texts))
        return f'{{"data":[{",".join(parts)}]}}'.encode()


class Endpoint:
    """The endpoint as its users see it."""

    def __init__(self, url: str) -> None:
        """Take its base URL."""
        self.url = url

    def teach(self, texts: Sequence[str], file: Path, dimension: int) -> None:
        """Let it answer the vectors of a file for these texts."""
        self._post("/teach", {"texts": list(texts), "file": str(file), "dimension": dimension})

    def hang(self, *, hang: bool) -> None:
        """Let it hang, or answer again."""
        self._post("/mode", {"hang": hang})

    def counted(self) -> dict[str, int]:
        """Return how many requests and texts there were."""
        found: dict[str, int] = self._post("/counted", {})
        return found

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode())  # noqa: S310 - our own server
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 - our own server
            return json.load(answer)


@contextmanager
def running() -> Iterator[Endpoint]:
    """Run an endpoint in a process of its own."""
    with subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            yield Endpoint(process.stdout.readline().strip())
        finally:
            process.terminate()


if __name__ == "__main__":
    with _Server() as server:
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()
