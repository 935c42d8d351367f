"""Names of Postgres databases: libpq's two notations, read without libpq.

Whoever opens a memory needs to know which database is meant long before a driver is: the local queue and the key are named after
it, and a hook of the host has no time to load one. What is read here names a database and hides its secrets; the text itself goes
to the driver, which understands all of it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from hermes_mnemosyne._errors import ConfigError

_SCHEME = re.compile(r"postgres(?:ql)?://", re.IGNORECASE)
_KEYWORDS = (
    "application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname", "fallback_application_name", "gssencmode",
    "host", "hostaddr", "keepalives", "keepalives_idle", "load_balance_hosts", "options", "passfile", "password", "port", "service",
    "sslcert", "sslkey", "sslmode", "sslpassword", "sslrootcert", "target_session_attrs", "tcp_user_timeout", "user",
)  # fmt: skip
_CONNINFO = re.compile(rf"\s*(?:{'|'.join(_KEYWORDS)})\s*=")
_PAIR = re.compile(r"\s*([A-Za-z_]+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(?=\s|$)", re.DOTALL)
_URI = re.compile(r"(?P<userinfo>[^@/]*@)?(?P<hosts>[^/?]*)(?:/(?P<dbname>[^?]*))?(?:\?(?P<query>.*))?", re.DOTALL)
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_HOST = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>[0-9]*))?")
_ENVIRONMENT = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "service": "PGSERVICE",
}
_NAMING = ("host", "hostaddr", "port", "dbname", "user", "service")
_DEFAULT_PORT = "5432"
_NAME_DIGITS = 16


def is_dsn(text: str) -> bool:
    """Tell whether a text names a Postgres database (a URI or libpq's `key=value` form) and not a file."""
    return bool(_SCHEME.match(text.strip()) or _CONNINFO.match(text))


class Dsn:
    """One database: `text` is what the driver is given. Its text forms for people hold no secret."""

    __slots__ = ("_parameters", "text")

    def __init__(self, text: str, *, environ: Mapping[str, str] | None = None) -> None:
        """Read a DSN; what it leaves out comes from libpq's variables. Raises ConfigError, which shows nothing of the text."""
        self.text = text.strip()
        given = _of_uri(self.text) if _SCHEME.match(self.text) else _of_pairs(self.text)
        self._parameters = _completed(given, os.environ if environ is None else environ)

    @property
    def key(self) -> str:
        """A hash (hex) over everything in it, in any order: equal for equal connections."""
        return _digest(sorted(self._parameters.items()))

    @property
    def name(self) -> str:
        """A hash (hex) over what says which database it is, and as whom: host, port, database, user."""
        return _digest([(key, self._parameters[key]) for key in _NAMING if key in self._parameters])[:_NAME_DIGITS]

    def __str__(self) -> str:
        """Return the database without secrets, as a URI."""
        known = self._parameters
        if "service" in known and "host" not in known and "hostaddr" not in known:
            return f"postgresql://?service={quote(known['service'], safe='')}"
        host = known.get("host") or known.get("hostaddr", "")
        is_socket = host.startswith(("/", "@"))
        port = "" if known["port"] == _DEFAULT_PORT else f":{known['port']}"
        where = f"?host={quote(host, safe='/')}{'&port=' + port[1:] if port else ''}" if is_socket else ""
        user = quote(known["user"], safe="")
        return f"postgresql://{user}@{'' if is_socket else host + port}/{quote(known['dbname'], safe='')}{where}"

    def __repr__(self) -> str:
        """Return the same, marked."""
        return f"<Dsn {self}>"


def _digest(pairs: list[tuple[str, str]]) -> str:
    state = hashlib.sha256()
    for key, value in pairs:
        raw = value.encode("utf-8", "surrogatepass")
        state.update(f"{key}:{len(raw)}:".encode())
        state.update(raw)
    return state.hexdigest()


def _of_pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        match = _PAIR.match(text, place)
        if match is None:
            raise ConfigError(
                "the dsn is neither a postgresql:// URI nor `key=value` pairs separated by blanks, values with blanks in quotes"
            )
        value = match[2]
        value = value[1:-1] if value.startswith("'") else value
        if match[1] != match[1].lower():
            raise ConfigError(f"the dsn has the keyword {match[1]}: libpq knows them in small letters only")
        found[match[1]] = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
        place = match.end()
    if "://" in found.get("dbname", ""):
        raise ConfigError("the dsn has a URI for dbname: give the URI alone")
    return found


def _of_uri(text: str) -> dict[str, str]:
    match = _URI.fullmatch(_SCHEME.sub("", text, count=1))
    if match is None:
        raise ConfigError("the dsn is no valid postgresql:// URI: write postgresql://user@host:port/database")
    if _NO_ESCAPE.search(text):
        raise ConfigError("the dsn has a % that begins no escape: write it as %25")
    if "@" in match["hosts"] or "@" in (match["dbname"] or ""):
        # Where such a character stands in a password, the rest of it would be shown as a host or a database.
        raise ConfigError("the dsn has more than one @, or a / in its password: write them as %40 and %2F")
    found: dict[str, str] = {}
    user, colon, password = (match["userinfo"] or "").removesuffix("@").partition(":")
    hosts = [_HOST.fullmatch(one) for one in match["hosts"].split(",")]
    if any(one is None for one in hosts):
        raise ConfigError("the dsn names a port that is no number: write postgresql://user@host:port/database")
    found["host"] = ",".join(unquote(one["host"]).strip("[]") for one in hosts if one)
    found["port"] = ",".join(one["port"] or "" for one in hosts if one)
    found |= {"user": unquote(user), "password": unquote(password) if colon else "", "dbname": unquote(match["dbname"] or "")}
    for pair in (match["query"] or "").split("&"):
        key, equals, value = pair.partition("=")
        if pair and not equals:
            raise ConfigError("the dsn has a parameter without a value: write ?key=value")
        if pair:
            found[unquote(key).lower()] = unquote(value)
    return found


def _completed(given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters with what libpq takes from the environment, as far as it names the database."""
    found = {key: value for key, value in given.items() if value}
    for key, variable in _ENVIRONMENT.items():
        if key not in found and environ.get(variable):
            found[key] = environ[variable]
    if not found.get("port", "").strip(","):
        found["port"] = _DEFAULT_PORT
    if "user" not in found:
        found["user"] = _system_user()
    found.setdefault("dbname", found["user"])
    return found


def _system_user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
