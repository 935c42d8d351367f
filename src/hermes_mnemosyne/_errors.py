"""Every error that Mnemosyne raises on purpose.

MnemosyneError
├── InvalidInput            the caller's argument, text or file is wrong (exit code 2)
│   └── ConfigError         a setting is unknown, unreadable or of the wrong type
├── NotFound                no such id within reach (exit code 1)
├── MissingExtra            an optional part is not installed
├── EmbeddingError          an embedding model could not do its part; text is stored and found by words all the same
└── StoreError              the database could not do its part
    ├── StoreBusy           the write lock was not free in time: try again
    ├── StoreFull           no room: the disk or the spool's limit
    ├── StoreCorrupt        the file is damaged
    └── StoreUnavailable    the store is away: unreachable, read-only, not ours, or of another schema
        ├── ForeignFile     the file belongs to another program
        ├── SchemaMismatch  the schema needs another release of Mnemosyne
        └── SchemaNotApplied  the schema is missing, or older than this release needs
"""


class MnemosyneError(Exception):
    """Mnemosyne could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        """Take `message`, or the class docstring's first line when it is None."""
        super().__init__(message or (self.__doc__ or "").strip().split("\n")[0])


class InvalidInput(MnemosyneError, ValueError):
    """The input is not acceptable."""


class ConfigError(InvalidInput):
    """The configuration is not acceptable."""


class NotFound(MnemosyneError, LookupError):
    """There is no such id."""


class MissingExtra(MnemosyneError, ImportError):
    """An optional part is not installed."""

    def __init__(self, extra: str) -> None:
        """Name the `extra` of the distribution that brings the missing part."""
        super().__init__(f"this needs an optional part: pip install 'hermes-mnemosyne[{extra}]'")


class EmbeddingError(MnemosyneError):
    """The embedding model cannot be used now."""

    def __init__(self, message: str | None = None, *, retryable: bool = False, about_text: bool = False) -> None:
        """Tell whether the same call may succeed later, and whether one of its texts is the cause."""
        super().__init__(message)
        self.retryable = retryable
        self.about_text = about_text


class StoreError(MnemosyneError):
    """The database could not do its part."""


class StoreBusy(StoreError):
    """The database is busy: another process holds its write lock; try again."""


class StoreFull(StoreError):
    """There is no room left for the write."""


class StoreCorrupt(StoreError):
    """The database file is damaged: keep it, and restore a backup or export what can be read."""


class StoreUnavailable(StoreError):
    """The store cannot be used now."""


class ForeignFile(StoreUnavailable):
    """The file belongs to another program: name another one with --db, or import it."""


class SchemaMismatch(StoreUnavailable):
    """The store needs another release of Mnemosyne."""


class SchemaNotApplied(StoreUnavailable):
    """The database lacks the schema: as its administrator, run `hermes-pgvector migrate --admin-dsn DSN`."""
