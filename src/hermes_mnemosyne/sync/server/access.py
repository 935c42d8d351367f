"""Who asks, and what they may: bearer keys, signed requests, and the checks that keep foreign web pages out."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import Headers

from hermes_mnemosyne._errors import ConfigError
from hermes_mnemosyne.sync.keyring import Grant, Keyring
from hermes_mnemosyne.sync.server.answers import Refused, unavailable
from hermes_mnemosyne.sync.signing import Nonces, Signed, SigningKeys, challenge, derive, parse_authorization, verify

_log = logging.getLogger(__name__)
_BEARER = "bearer "
_OWNER = Grant("api-key", read=True, write=True, themes=None)
_ANYBODY = Grant("anybody", read=True, write=True, themes=None)
_OWN_SITE = {"same-origin", "none"}


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request says of itself before its body is read: of a bearer key the grant, of a signed one what is to be verified."""

    grant: Grant | None
    signed: Signed | None = None
    keys: SigningKeys | None = None


class Access:
    """The keys of a server: one with full rights, a file of named ones, both, or none at all. Safe from any thread."""

    def __init__(self, key: str | None = None, keyring: Keyring | None = None, *, clear_is_safe: bool = False) -> None:
        """Take the keys; `clear_is_safe` says that a proxy with TLS is before this server, so that bearer keys may come in clear."""
        self._digest = None if key is None else _digest(key)
        self._keys = None if key is None else derive(key)
        self._keyring = keyring
        self._clear_is_safe = clear_is_safe
        self._warned: set[str] = set()
        self.nonces = Nonces()

    @property
    def is_open(self) -> bool:
        """Whether everybody is let in who reaches the server."""
        return self._digest is None and self._keyring is None

    @property
    def kind(self) -> str:
        """How visitors show who they are, for people."""
        parts = [
            *(["one key"] if self._digest is not None else []),
            *([f"the keys in {self._keyring.path}"] if self._keyring is not None else []),
        ]
        return " and ".join(parts) or "no key: every program of this machine may read and write"

    def claim(self, headers: Headers, *, peer: str, is_secure: bool) -> Claim:
        """Return what a request claims. Raises Refused: 401, the same for every reason."""
        if self.is_open:
            return Claim(_ANYBODY)
        given = headers.getlist("authorization")
        header = given[0] if len(given) == 1 else ""
        if header[: len(_BEARER)].lower() == _BEARER:
            grant = self._of_bearer(header[len(_BEARER) :].strip())
            if grant is not None and (is_secure or self._clear_is_safe or is_loopback(peer)):
                return Claim(grant)
            if grant is not None:
                self._warn(peer)
            raise self.unauthorized()
        signed = parse_authorization(header)
        keys = None if signed is None else self._signing_keys(signed.key_id)
        if signed is None or keys is None:
            raise self.unauthorized()
        return Claim(keys[0], signed, keys[1])

    def settle(self, claim: Claim, method: str, target: str, digest: str) -> Grant:
        """Return what a claim is worth now that the body is known. Raises Refused (401)."""
        if claim.signed is not None and not (
            verify(claim.keys, claim.signed, method, target, digest) and self.nonces.take(claim.signed.nonce)
        ):
            raise self.unauthorized()
        if claim.grant is None:
            raise self.unauthorized()
        return claim.grant

    def unauthorized(self) -> Refused:
        """Return the refusal of whoever has no valid key; it hands out a nonce."""
        how = f'Bearer realm="mnemosyne", {challenge(self.nonces.issue())}'
        return Refused(HTTPStatus.UNAUTHORIZED, "unauthorized", "a valid key is needed", {"WWW-Authenticate": how})

    def _of_bearer(self, key: str) -> Grant | None:
        is_owner = self._digest is not None and hmac.compare_digest(_digest(key), self._digest)
        try:
            named = None if self._keyring is None else self._keyring.check_bearer(key)
        except ConfigError as error:
            if not is_owner:
                raise self._unreadable(error) from None
            named = None
        return _OWNER if is_owner else named

    def _signing_keys(self, key_id: str) -> tuple[Grant, SigningKeys] | None:
        if self._keys is not None and hmac.compare_digest(self._keys.id, key_id):
            return _OWNER, self._keys
        try:
            known = None if self._keyring is None else self._keyring.find(key_id)
        except ConfigError as error:
            raise self._unreadable(error) from None
        return None if known is None else (known.grant, known.signing)

    @staticmethod
    def _unreadable(error: ConfigError) -> Refused:
        _log.error("nobody is let in by a named key: %s", error)
        return unavailable("store", "the keys of the server cannot be read; its log says why")

    def _warn(self, peer: str) -> None:
        if peer not in self._warned and len(self._warned) < 100:  # noqa: PLR2004 - a log is no list of the internet
            self._warned.add(peer)
            _log.warning(
                "%s sent its key over clear HTTP and was refused: replace that key, use https or sign requests; "
                "behind a proxy with TLS start with --behind-tls-proxy",
                peer,
            )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def is_loopback(host: str) -> bool:
    """Tell whether an address or name is this machine's own, out of reach of others."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


class Hosts:
    """The names by which this server may be called.

    A web page can make its own name stand for this machine's address (DNS rebinding), but not an address. Names are known: this
    machine's, the one it was told to listen on, and those that were allowed.
    """

    def __init__(self, allowed: Iterable[str], *, host: str) -> None:
        """Take further names; `*` allows every one."""
        names = {name.strip().lower().rstrip(".") for name in allowed}
        self._any = "*" in names
        self._allowed = names
        self._known = names | {"localhost", host.lower(), socket.gethostname().lower()}

    def check(self, headers: Headers) -> None:
        """Raise Refused (421, or 403 for a foreign web page) unless a request is meant for this server."""
        hosts = headers.getlist("host")
        name = _name_of(hosts[0]) if len(hosts) == 1 else None
        if name is None or not (self._any or name in self._known or _is_address(name)):
            raise Refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                "misdirected",
                "this server is not known by this name: start it with --allowed-host NAME, or use its address",
            )
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and not self._is_own(origin, hosts[0]):
            raise _foreign_page()
        if origin is None and site is not None and site not in _OWN_SITE:
            raise _foreign_page()

    def _is_own(self, origin: str, host: str) -> bool:
        scheme, separator, place = origin.partition("://")
        if not separator or scheme not in {"http", "https"}:
            return False
        return place.lower() == host.lower() or _name_of(place) in self._allowed


def _foreign_page() -> Refused:
    return Refused(HTTPStatus.FORBIDDEN, "forbidden", "requests of web pages of other sites are refused")


def _name_of(host: str) -> str | None:
    """Return the name or address in a Host header, without its port; None for what is none."""
    host = host.strip().lower()
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        return name if bracket and _is_address(name) and (not rest or rest.startswith(":")) else None
    name, _, port = host.partition(":")
    if not name or (port and not port.isdecimal()) or any(char in "/@?# " for char in name):
        return None
    return name.rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
