"""The settings: one frozen value and one table of typed keys."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from operator import attrgetter
from typing import Any, Literal

from hermes_mnemosyne.values import ALL_THEMES, DEFAULT_THEME, VISIBILITIES

Type = Literal["flag", "whole", "bytes", "number", "text", "choice", "list", "aliases", "duration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSettings:
    """The keys whose names begin with `sync.`: what the background sync of an agent's process does."""

    remote: str | None = None
    interval: float = 600.0
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    turns: bool = False
    api_key_file: str | None = None
    seal_key_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The value of every key; hashable, so that equal settings share an engine. The table `KEYS` says what each means."""

    db: str | None = None
    data_dir: str | None = None
    dsn: str | None = None
    theme: str = DEFAULT_THEME
    readable_themes: tuple[str, ...] | None = None
    scope_default: str = "current"
    visibility: str | None = None
    durability: str = "normal"
    busy_timeout: float = 5.0
    reader_connections: int = 4
    pool_min: int = 0
    pool_max: int = 4
    pool_idle: float = 30.0
    pool_lifetime: float = 300.0
    prepared_statements: bool = True
    connect_timeout: float = 5.0
    statement_timeout: float = 30.0
    subject_key_file: str | None = None
    write_queue_maxsize: int = 256
    shutdown_drain_timeout: float = 10.0
    spool_max_bytes: int = 256 * 1024 * 1024
    mask_secrets: bool = True
    sync_turns: bool = True
    turn_min_chars: int = 40
    bulk_sync_on_init: bool = True
    write_contexts: tuple[str, ...] = ("primary",)
    prefetch_limit: int = 5
    prefetch_budget_chars: int = 1600
    prefetch_budget: float = 5.0
    hybrid_search: bool = True
    min_similarity: float | None = None
    recency_half_life_days: float = 365.0
    embedder: str = "auto"
    embed_url: str | None = None
    embed_model: str = "nomic-embed-text"
    embed_dim: int = 768
    embed_api_key_env: str | None = None
    embed_protocol: str = "auto"
    embed_dir: str | None = None
    embed_timeout: float = 10.0
    embed_write_timeout: float = 30.0
    embed_write_retries: int = 2
    embed_write_backoff: float = 0.1
    embed_on_write: bool = True
    embed_local_rows: bool = False
    conversation_embed_policy: str = "all"
    vector_weight: float | None = None
    allowed_themes: tuple[str, ...] | None = None
    identity_aliases: tuple[tuple[str, str], ...] = ()
    bench_mode: str = "bucket"
    ttl_days: int = 0
    sync: SyncSettings = SyncSettings()


def names_of(settings: Any = Settings) -> Iterator[str]:
    """Yield the names of all keys in the order of the fields; a key inside a group carries the group's name and a dot."""
    for field in fields(settings):
        if is_dataclass(field.default):
            yield from (f"{field.name}.{name}" for name in names_of(field.default))
        else:
            yield field.name


def value_of(settings: Settings, name: str) -> Any:
    """Return the value of a key."""
    return attrgetter(name)(settings)


def changed(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return settings with other values of some keys."""
    plain = {name: value for name, value in values.items() if "." not in name}
    for group in sorted({name.partition(".")[0] for name in values if "." in name}):
        inner = {name.partition(".")[2]: value for name, value in values.items() if name.startswith(f"{group}.")}
        plain[group] = replace(getattr(settings, group), **inner)
    return replace(settings, **plain)


# Where users of a provider know a key whose numbers are taken for the bound that they pass.
CLAMPED = {"pgvector": frozenset({"prefetch_limit"})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One line of the table.

    `low` and `high` bound numbers; what lies outside is wrong, or with `clamped` taken for the bound. `asked` keys are offered by the
    host's wizard. `provider` names the only provider that has the key.
    """

    name: str
    type: Type
    help: str
    env: str | None = None
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = math.inf
    asked: bool = False
    clamped: bool = False
    provider: str = ""

    @property
    def default(self) -> Any:
        """Return the default value."""
        return value_of(DEFAULTS, self.name)


DEFAULTS = Settings()
DEFAULT_DSN = "dbname=hermes_memory user=hermes host=/var/run/postgresql connect_timeout=5"
# What is otherwise where a fleet shares one database.
PROVIDER_DEFAULTS: dict[str, dict[str, Any]] = {
    "pgvector": {"dsn": DEFAULT_DSN, "readable_themes": (ALL_THEMES,), "min_similarity": 0.3},
}
KEYS: tuple[Key, ...] = (
    Key(
        name="db",
        type="text",
        env="MNEMOSYNE_DB",
        provider="mnemosyne",
        help="database file, or the URL of a Postgres; unset: mnemosyne.db in the default place",
    ),
    Key(
        name="data_dir",
        type="text",
        env="MNEMOSYNE_DATA_DIR",
        provider="mnemosyne",
        help="directory of the database file when `db` is unset",
    ),
    Key(
        name="dsn",
        type="text",
        provider="pgvector",
        help="Postgres database: postgresql://user@host/database or libpq's key=value form",
    ),
    Key(name="theme", type="text", env="MNEMOSYNE_THEME", help="theme of the command line and the API"),
    Key(
        name="readable_themes",
        type="list",
        help="themes the agent may read besides its own; `*` is every ordinary theme; unset: the provider's default",
    ),
    Key(name="scope_default", type="text", help="scope of recall_memory when the call names none: current, all or a theme"),
    Key(
        name="visibility",
        type="choice",
        choices=VISIBILITIES,
        help="whether new rows leave this machine; unset: synced, and local in the themes shared by contacts",
    ),
    Key(
        name="durability",
        type="choice",
        choices=("normal", "full"),
        help="normal survives kill -9; full survives a power cut too and writes more slowly",
    ),
    Key(name="busy_timeout", type="number", high=600, help="seconds a command or API call waits for the database's write lock"),
    Key(name="reader_connections", type="whole", low=1, high=7, help="connections for reading per process and store"),
    Key(name="pool_min", type="whole", high=64, provider="pgvector", help="connections that the pool keeps while idle"),
    Key(name="pool_max", type="whole", low=1, high=64, provider="pgvector", help="most connections of one process"),
    Key(name="pool_idle", type="number", low=1, provider="pgvector", help="seconds after which an idle connection is closed"),
    Key(name="pool_lifetime", type="number", low=1, provider="pgvector", help="seconds after which a connection is made anew"),
    Key(name="prepared_statements", type="flag", provider="pgvector", help="false behind PgBouncer in transaction mode"),
    Key(
        name="connect_timeout",
        type="number",
        low=1,
        high=600,
        provider="pgvector",
        help="seconds for a connection to be made, unless the dsn says",
    ),
    Key(name="statement_timeout", type="number", low=0.1, high=3600, provider="pgvector", help="most seconds for one statement"),
    Key(
        name="subject_key_file",
        type="text",
        provider="pgvector",
        help="file of the fleet's subject key, the same on all hosts; unset: beside the spool",
    ),
    Key(
        name="write_queue_maxsize",
        type="whole",
        low=-math.inf,
        provider="pgvector",
        help="most writes held in memory while the spool is locked; never refuses one",
    ),
    Key(
        name="shutdown_drain_timeout",
        type="number",
        high=600,
        provider="pgvector",
        help="most seconds of draining when a process ends; what is left stays in the spool",
    ),
    Key(
        name="spool_max_bytes", type="bytes", low=1, help="size of the local queue at which new writes are refused (also 64 MiB)"
    ),
    Key(name="mask_secrets", type="flag", asked=True, help="replace keys, tokens and passwords before text is stored"),
    Key(name="sync_turns", type="flag", asked=True, help="store the turns of conversations"),
    Key(name="turn_min_chars", type="whole", help="turns with fewer characters are not stored"),
    Key(name="bulk_sync_on_init", type="flag", help="bring MEMORY.md and USER.md in line when a session starts"),
    Key(name="write_contexts", type="list", help="values of the host's agent_context in which the provider writes"),
    Key(
        name="prefetch_limit",
        type="whole",
        high=50,
        asked=True,
        help="most memories added to a prompt before each turn; 0 turns it off",
    ),
    Key(
        name="prefetch_budget_chars",
        type="whole",
        asked=True,
        help="most characters of memories added to a prompt before each turn",
    ),
    Key(
        name="prefetch_budget",
        type="number",
        low=0.1,
        high=7.5,
        clamped=True,
        provider="pgvector",
        help="most seconds of the recall before a turn; 1.4 is its own limit",
    ),
    Key(
        name="hybrid_search",
        type="flag",
        provider="pgvector",
        help="find by words and by meaning; false: by meaning alone while an embedder answers",
    ),
    Key(
        name="min_similarity",
        type="number",
        high=1,
        clamped=True,
        provider="pgvector",
        help="least cosine of what is found by meaning alone",
    ),
    Key(
        name="recency_half_life_days", type="number", help="days after which age halves its soft boost in ranking; 0 turns it off"
    ),
    Key(
        name="embedder",
        type="choice",
        env="MNEMOSYNE_EMBEDDER",
        choices=("auto", "none", "endpoint", "directory", "packaged", "wordllama"),
        asked=True,
        help="what finds memories by meaning; auto: the endpoint if embed_url is set, else embed_dir, else packaged weights if installed",
    ),
    Key(
        name="embed_url",
        type="text",
        asked=True,
        help="base URL of an OpenAI-compatible or Ollama embedding endpoint; unset: none",
    ),
    Key(name="embed_model", type="text", asked=True, help="model that the endpoint is asked for"),
    Key(name="embed_dim", type="whole", low=1, asked=True, help="length of the vectors that the endpoint's model returns"),
    Key(
        name="embed_api_key_env",
        type="text",
        asked=True,
        help="NAME of the environment variable with the endpoint's bearer token",
    ),
    Key(
        name="embed_protocol",
        type="choice",
        choices=("auto", "openai", "ollama"),
        asked=True,
        help="openai: /v1/embeddings; ollama: /api/embed; auto: the first, then the other",
    ),
    Key(name="embed_dir", type="text", help="directory of a local model: model2vec (static) or ONNX as fastembed lays it out"),
    Key(
        name="embed_timeout",
        type="number",
        low=0.01,
        high=600,
        help="most seconds for a query's vector (1.2 in prefetch, 3 in tools)",
    ),
    Key(
        name="embed_write_timeout",
        type="number",
        low=0.01,
        high=3600,
        help="most seconds for one call in the background, its attempts together",
    ),
    Key(name="embed_write_retries", type="whole", high=20, help="further attempts of one request in the background"),
    Key(name="embed_write_backoff", type="number", high=600, help="seconds before the first further attempt; doubled each time"),
    Key(name="embed_on_write", type="flag", help="give new rows a vector; false: they are found by words alone"),
    Key(
        name="embed_local_rows",
        type="flag",
        help="send rows that stay on this machine, and questions about them, to an endpoint on another one too",
    ),
    Key(
        name="conversation_embed_policy",
        type="choice",
        choices=("all", "substantive_only", "none"),
        help="which turns get a vector; substantive_only: those of users, and answers of 120 characters or more",
    ),
    Key(
        name="vector_weight",
        type="number",
        high=1,
        help="share of meaning against words in ranking; unset: what fits the embedder",
    ),
    Key(name="allowed_themes", type="list", help="if set, every other identity gets the theme `default`"),
    Key(name="identity_aliases", type="aliases", help="identity to theme, as a mapping or `raw=theme,raw2=theme`"),
    Key(
        name="bench_mode",
        type="choice",
        choices=("bucket", "reject"),
        help="benchmark identities go to the theme _bench, or with reject to default",
    ),
    Key(
        name="ttl_days",
        type="whole",
        provider="pgvector",
        help="default of `hermes-pgvector prune --days`; nothing is pruned by itself",
    ),
    Key(
        name="sync.remote",
        type="text",
        help="server that an agent's process syncs with in the background: http(s)://host:port; unset: none",
    ),
    Key(name="sync.interval", type="duration", low=1, high=86400 * 365, help="time between two rounds, also 10m, 1h"),
    Key(name="sync.include", type="list", help="the only themes that sync; `*` is every ordinary theme; unset: these"),
    Key(name="sync.exclude", type="list", help="themes that do not sync"),
    Key(name="sync.turns", type="flag", help="sync the turns of conversations too"),
    Key(name="sync.api_key_file", type="text", help="file that holds the server's key; unset: as `mnemosyne sync` finds it"),
    Key(
        name="sync.seal_key_file",
        type="text",
        help="file of keys that seal rows before they are sent; unset: as `mnemosyne sync` finds it",
    ),
)
