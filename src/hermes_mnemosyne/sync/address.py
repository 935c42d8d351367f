"""Where a remote is, and whether others on the way can read what goes there."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from hermes_mnemosyne._errors import InvalidInput

_HOST = re.compile(r"[^\s\x00-\x20\x7f/?#@\\]+")
_FORM = "write it as https://host, https://host:port or http://127.0.0.1:8765"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens; `path` is what goes before the paths of the protocol, without a slash at its end."""

    secure: bool
    host: str
    port: int | None
    path: str

    @property
    def url(self) -> str:
        """The URL in one spelling, under which what is known of the server is kept."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}{f':{self.port}' if self.port else ''}{self.path}"

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return False

    @property
    def is_readable(self) -> bool:
        """Whether what is sent crosses a network in clear."""
        return not self.secure and not self.is_loopback


def address_of(url: str) -> Address:
    """Return where a URL leads. Raises InvalidInput for what is none, or holds a password, a query or a fragment."""
    try:
        from urllib3.exceptions import LocationParseError
        from urllib3.util import parse_url
    except ImportError as error:
        raise InvalidInput("sync needs urllib3: pip install urllib3") from error
    try:
        parsed = parse_url(url.strip())
    except LocationParseError:
        parsed = None
    host = (parsed.host or "").strip("[]") if parsed is not None else ""
    if parsed is None or parsed.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        raise InvalidInput(f"the remote is no URL: {_FORM}")
    if parsed.auth:
        raise InvalidInput("the remote holds a user or a password: leave them out, the key comes from --api-key-file")
    if parsed.query is not None or parsed.fragment is not None:
        raise InvalidInput(f"the remote has a query or a fragment: {_FORM}")
    port = None if parsed.port == (443 if parsed.scheme == "https" else 80) else parsed.port
    return Address(parsed.scheme == "https", host.lower(), port, (parsed.path or "").rstrip("/"))
