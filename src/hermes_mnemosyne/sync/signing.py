"""Signed requests: over clear HTTP the key itself never crosses the wire, and nobody can answer in the server's name.

Both sides derive two keys of the API key, one for requests and one for answers. A signature covers the method, the target, the
digest of the body and a nonce that the server issued and takes once; no clock of the client is asked.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

SCHEME = "Mnemosyne"
NONCE_HEADER = "Mnemosyne-Nonce"
SIGNATURE_HEADER = "Mnemosyne-Signature"
NONCE_SECONDS = 300.0

_ID_DIGITS = 16
_KEY_BYTES = 32
_HASH_BYTES = 32
_TIME_BYTES, _RANDOM_BYTES, _MAC_BYTES = 6, 12, 16
_NONCES_TAKEN = 1 << 17
_NONCE = re.compile(rf"[0-9a-f]{{{2 * (_TIME_BYTES + _RANDOM_BYTES + _MAC_BYTES)}}}")
_AUTHORIZATION = re.compile(
    rf'{SCHEME} +key="(?P<key>[0-9a-f]{{{_ID_DIGITS}}})" *, *nonce="(?P<nonce>[!#-\[\]-~]{{1,256}})" *, *signature="(?P<signature>[0-9a-f]{{64}})" *',
    re.IGNORECASE,
)
_CHALLENGE = re.compile(rf'(?:^|, *){SCHEME} +nonce="([!#-\[\]-~]{{1,256}})"', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """What is derived of an API key: its id, which is no secret, and the keys of requests and of answers, which are."""

    id: str
    request: bytes = field(repr=False)
    answer: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Signed:
    """What a header `Authorization` of a signed request says."""

    key_id: str
    nonce: str
    signature: str


def key_id(key: str) -> str:
    """Return the name by which a request says whose signature it bears: 16 hex digits, no secret."""
    return hashlib.sha256(b"mnemosyne key id\0" + _raw(key)).hexdigest()[:_ID_DIGITS]


def hkdf(key: bytes, *, salt: bytes = b"", info: bytes, length: int = _KEY_BYTES) -> bytes:
    """Return `length` bytes (at most 8160) derived of `key` by HKDF-SHA256, RFC 5869."""
    pseudorandom = hmac.digest(salt or bytes(_HASH_BYTES), key, "sha256")
    block, output = b"", b""
    for number in range(1, -(-length // _HASH_BYTES) + 1):
        block = hmac.digest(pseudorandom, block + info + bytes([number]), "sha256")
        output += block
    return output[:length]


def derive(key: str) -> SigningKeys:
    """Return what signs requests and answers for an API key."""
    raw = _raw(key)
    return SigningKeys(key_id(key), hkdf(raw, info=b"mnemosyne sync 1 request"), hkdf(raw, info=b"mnemosyne sync 1 answer"))


def body_digest(body: bytes) -> str:
    """Return the digest (hex) of a body as it is sent, compressed if it is."""
    return hashlib.sha256(body).hexdigest()


def sign(key: str | SigningKeys, method: str, target: str, digest: str, nonce: str) -> str:
    """Return the signature (hex) of a request; `target` is the path with the query as sent, `digest` that of the body."""
    return _signature(_derived(key).request, method, target, digest, nonce)


def sign_answer(key: str | SigningKeys, status: int, digest: str, nonce: str) -> str:
    """Return the signature (hex) of an answer to the request that bore `nonce`."""
    return _signature(_derived(key).answer, str(status), digest, nonce)


def verify(key: str | SigningKeys | None, signed: Signed, method: str, target: str, digest: str) -> bool:
    """Tell whether a request is signed by this key, in a time that says nothing; None, for an unknown key, takes as long.

    The nonce is to be taken (`Nonces.take`) after that: what only a key's owner can do.
    """
    expected = sign(_nobody() if key is None else key, method, target, digest, signed.nonce)
    return _same(expected, signed.signature) and key is not None


def verify_answer(key: str | SigningKeys, signature: str, status: int, digest: str, nonce: str) -> bool:
    """Tell whether an answer to the request that bore `nonce` is signed by a server that has this key."""
    return _same(sign_answer(key, status, digest, nonce), signature)


def authorization(key: str | SigningKeys, method: str, target: str, digest: str, nonce: str) -> str:
    """Return the header `Authorization` of a signed request."""
    keys = _derived(key)
    return f'{SCHEME} key="{keys.id}",nonce="{nonce}",signature="{sign(keys, method, target, digest, nonce)}"'


def parse_authorization(header: str) -> Signed | None:
    """Return what a header `Authorization` says, None when it is none of a signed request."""
    found = _AUTHORIZATION.fullmatch(header)
    return None if found is None else Signed(found["key"].lower(), found["nonce"], found["signature"].lower())


def challenge(nonce: str) -> str:
    """Return the header `WWW-Authenticate` that hands out a nonce."""
    return f'{SCHEME} nonce="{nonce}"'


def nonce_of(header: str) -> str | None:
    """Return the nonce that a header `WWW-Authenticate` hands out, beside other schemes or alone."""
    found = _CHALLENGE.search(header)
    return None if found is None else found[1]


def _raw(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _derived(key: str | SigningKeys) -> SigningKeys:
    return derive(key) if isinstance(key, str) else key


@cache
def _nobody() -> SigningKeys:
    return derive(secrets.token_hex())


def _signature(key: bytes, *lines: str) -> str:
    message = "".join(f"{line}\n" for line in lines)
    return hmac.new(key, _raw(message), hashlib.sha256).hexdigest()


def _same(expected: str, given: str) -> bool:
    return hmac.compare_digest(_raw(expected), _raw(given))


class Nonces:
    """The nonces of a server: each is taken once and within five minutes. Safe from any thread.

    A nonce proves by itself that this server issued it and when, so that issuing any number of them to strangers keeps nothing. Only
    those taken are kept, for as long as they would be good: what fills that is a key's owner. After a restart none is good.
    """

    def __init__(
        self, *, seconds: float = NONCE_SECONDS, taken: int = _NONCES_TAKEN, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Let a nonce live `seconds` of `clock`; keep at most `taken` of those that are taken."""
        self._millis = int(seconds * 1000)
        self._limit = taken
        self._clock = clock
        self._start = clock()
        self._secret = secrets.token_bytes(_KEY_BYTES)
        self._taken: dict[str, int] = {}
        self._lock = threading.Lock()

    def issue(self) -> str:
        """Return a new nonce (hex)."""
        head = self._now().to_bytes(_TIME_BYTES, "big") + secrets.token_bytes(_RANDOM_BYTES)
        return (head + self._mac(head)).hex()

    def take(self, nonce: str) -> bool:
        """Tell whether a nonce is ours, still good and not yet taken; it is taken then."""
        if not _NONCE.fullmatch(nonce):
            return False
        raw = bytes.fromhex(nonce)
        head = raw[: _TIME_BYTES + _RANDOM_BYTES]
        if not hmac.compare_digest(self._mac(head), raw[len(head) :]):
            return False
        end = int.from_bytes(head[:_TIME_BYTES], "big") + self._millis
        with self._lock:
            now = self._now()
            while self._taken and next(iter(self._taken.values())) < now:
                del self._taken[next(iter(self._taken))]
            if end < now or nonce in self._taken or len(self._taken) >= self._limit:
                return False
            self._taken[nonce] = end
            return True

    def _now(self) -> int:
        return int((self._clock() - self._start) * 1000)

    def _mac(self, head: bytes) -> bytes:
        return hmac.digest(self._secret, head, "sha256")[:_MAC_BYTES]
