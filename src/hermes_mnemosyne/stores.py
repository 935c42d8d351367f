"""Which store is meant, where what belongs to it lies on this machine, and how it is opened.

This is the one place that knows the implementations: everything above asks the Store protocol.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

from hermes_mnemosyne import paths
from hermes_mnemosyne._errors import InvalidInput, MissingExtra, StoreUnavailable
from hermes_mnemosyne.contact import Contact
from hermes_mnemosyne.dsn import Dsn, is_dsn
from hermes_mnemosyne.settings import Settings, database_file
from hermes_mnemosyne.store.protocol import Analyser, ContentKey, Store

# A batch of a drain is one transaction: of a file, which other processes wait for, a short one; over a network, a long one.
_FILE_BATCH, _SERVER_BATCH = 64, 512
_DRIVER = ("psycopg", "psycopg_pool", "pgvector")


class Place(Protocol):
    """Where a store lies. `str` of it is for people and holds no secret."""

    @property
    def key(self) -> str:
        """The same text for the same store, a hash where there may be secrets."""
        ...

    @property
    def is_server(self) -> bool:
        """Whether the store is a server, which may be away or hang, and not a file of this machine."""
        ...

    @property
    def file(self) -> Path | None:
        """The database file, None for a server."""
        ...

    @property
    def batch(self) -> int:
        """The most operations of one transaction of a drain."""
        ...

    def beside(self, suffix: str) -> Path:
        """Return the file of this machine that belongs to the store under a suffix such as `spool.db`."""
        ...

    def exists(self) -> bool:
        """Tell whether there is a store, as far as that is known without asking it."""
        ...

    def open(self, analyser: Analyser, key: ContentKey, settings: Settings, *, wait: float) -> Store:
        """Open the store; it may take long. Raises store errors, MissingExtra."""
        ...


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A SQLite file; everything else lies beside it under its name."""

    path: Path
    is_server = False
    batch = _FILE_BATCH

    @property
    def key(self) -> str:
        """The file without links."""
        return os.path.realpath(self.path)

    @property
    def file(self) -> Path:
        """The database file."""
        return self.path

    def __str__(self) -> str:
        """Return the file."""
        return str(self.path)

    def beside(self, suffix: str) -> Path:
        """Return a file beside the database."""
        return self.path.with_name(f"{self.path.stem}.{suffix}")

    def exists(self) -> bool:
        """Tell whether the file is there."""
        return self.path.exists()

    def open(self, analyser: Analyser, key: ContentKey, settings: Settings, *, wait: float) -> Store:
        """Open the file."""
        from hermes_mnemosyne.store.sqlite.connections import Options
        from hermes_mnemosyne.store.sqlite.store import SqliteStore

        options = Options(durability=settings.durability, readers=settings.reader_connections, busy_timeout=settings.busy_timeout)
        return SqliteStore(self.path, analyser, key, options, wait=wait)


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """A Postgres database; what belongs to it on this machine lies in `directory`, named by a hash of host, database and user."""

    dsn: Dsn
    directory: Path
    is_server = True
    file = None
    batch = _SERVER_BATCH

    @property
    def key(self) -> str:
        """A hash, since a DSN may hold a password, and the directory."""
        return f"postgres:{self.dsn.key}:{os.path.realpath(self.directory)}"

    def __str__(self) -> str:
        """Return the database without secrets."""
        return str(self.dsn)

    def beside(self, suffix: str) -> Path:
        """Return a file in the directory."""
        return self.directory / f"pgvector-{self.dsn.name}.{suffix}"

    def exists(self) -> bool:
        """Say yes: only the server knows."""
        return True

    def open(self, analyser: Analyser, key: ContentKey, settings: Settings, *, wait: float) -> Store:
        """Connect, and verify the schema."""
        try:
            from hermes_mnemosyne.store.postgres.connections import PostgresOptions
            from hermes_mnemosyne.store.postgres.store import PostgresStore
        except ImportError as error:
            raise StoreUnavailable(
                f"the Postgres driver cannot be loaded ({error}): pip install 'hermes-mnemosyne[postgres]' 'psycopg[binary]'"
            ) from error
        options = PostgresOptions(
            pool_min=settings.pool_min,
            pool_max=max(settings.pool_max, settings.pool_min, 1),
            pool_idle=settings.pool_idle,
            pool_lifetime=settings.pool_lifetime,
            busy_timeout=settings.busy_timeout,
            connect_timeout=settings.connect_timeout,
            statement_timeout=settings.statement_timeout,
            prepared=settings.prepared_statements,
        )
        return PostgresStore(self.dsn.text, analyser, key, options, wait=wait)


def place_of(settings: Settings, *, hermes_home: str | os.PathLike[str] | None = None) -> Place:
    """Return the place that settings name; nothing is opened or made. `hermes_home` is the one a host gave, None the user's own.

    Raises ConfigError for a DSN that cannot be read or when no home directory is known, InvalidInput for what names no store,
    MissingExtra for a DSN without a driver.
    """
    named = settings.dsn or settings.db or ""
    if is_dsn(named) or settings.dsn:
        if any(find_spec(name) is None for name in _DRIVER):
            raise MissingExtra("postgres")
        return ServerPlace(Dsn(named), _directory(hermes_home))
    if named == ":memory:":
        raise InvalidInput("a memory is kept in a file: name one instead of :memory:")
    if "://" in named:
        raise InvalidInput(f"{named.split('://', 1)[0]}:// is no store of ours: name a SQLite file or postgresql://...")
    return FilePlace(database_file(settings, hermes_home=hermes_home))


def _directory(hermes_home: str | os.PathLike[str] | None) -> Path:
    home = Path(hermes_home) if hermes_home is not None else paths.hermes_home()
    return home / "mnemosyne" if home is not None else paths.state_directory()


# -- a store that may be away ----------------------------------------------------------------------------------------------------

# These ask no server.
_LOCAL = frozenset({"replica", "is_behind", "is_turn", "together", "only_round", "close", "abandon"})


class Watched:
    """A store on a server whose every call tells `contact` how it went, and fails at once while the server is known to be away."""

    def __init__(self, store: Store, contact: Contact, ready: Callable[[], bool]) -> None:
        """Watch a store; `ready` is asked whether a server that was away is back, and may have it tried."""
        self._store = store
        self._contact = contact
        self._ready = ready

    @classmethod
    def over(cls, store: Store, contact: Contact, ready: Callable[[], bool]) -> Store:
        """Return the store, watched."""
        return cast("Store", cls(store, contact, ready))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in _LOCAL or not callable(found):
            return found

        @wraps(found)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._contact.state == "away" and not self._ready():
                raise self._contact.error()
            try:
                answer = found(*args, **kwargs)
            except StoreUnavailable as error:
                self._contact.failed(error)
                raise
            self._contact.worked()
            return answer

        # Found without this detour from now on.
        setattr(self, name, watched)
        return watched
