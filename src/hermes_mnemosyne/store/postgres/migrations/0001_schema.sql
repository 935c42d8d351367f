-- oldest-writer: 1
-- Everything a store keeps. Live tables hold live rows only; history and tombstones have their own.
-- A row number is (scope << 2 | shelf) << 36 | seq, shelf 0 = memory, 1 = user, 2 = turn. A scope is a theme and a subject in it, and
-- the first column of every key of the large tables, so that these can be partitioned by it (`@partitioned`).
-- Times are fixed-width UTC text and compare as bytes do, as do clocks and ids: hence COLLATE "C".
-- Names of any length are looked up by their MD5, since an index row cannot hold them; the name itself is compared too.

CREATE SCHEMA IF NOT EXISTS mnemosyne;

CREATE TABLE mnemosyne.meta (
    key text PRIMARY KEY,
    value text NOT NULL
);

-- One row: the last change number and the greatest edit clock of this store.
CREATE TABLE mnemosyne.sequence (
    id integer PRIMARY KEY CHECK (id = 1),
    seq bigint NOT NULL,
    clock text COLLATE "C" NOT NULL
) WITH (fillfactor = 10);
INSERT INTO mnemosyne.sequence VALUES (1, 0, '');

CREATE TABLE mnemosyne.scopes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    theme text COLLATE "C" NOT NULL,
    folded text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    memory_rows bigint NOT NULL DEFAULT 0,
    user_rows bigint NOT NULL DEFAULT 0,
    turn_rows bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX scopes_by_theme ON mnemosyne.scopes (md5(theme), md5(subject));
CREATE INDEX scopes_by_folded_theme ON mnemosyne.scopes (md5(folded));

CREATE TABLE mnemosyne.entries (
    scope bigint NOT NULL,
    id bigint NOT NULL,
    uid text COLLATE "C" NOT NULL,
    target text NOT NULL CHECK (target IN ('memory', 'user')),
    content text COLLATE "C" NOT NULL,
    content_hash bytea NOT NULL,
    tags text NOT NULL,
    importance double precision NOT NULL CHECK (importance BETWEEN 0 AND 1),
    pinned boolean NOT NULL,
    valid_until text COLLATE "C",
    occurred_at text COLLATE "C",
    occurred_offset integer,
    superseded_by text COLLATE "C",
    visibility text NOT NULL CHECK (visibility IN ('synced', 'local')),
    session_id text COLLATE "C" NOT NULL,
    origins text NOT NULL,
    metadata text NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    clock text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, id),
    CONSTRAINT entries_by_text UNIQUE (scope, target, content_hash)
) @partitioned;
CREATE @unique INDEX entries_by_uid ON mnemosyne.entries (uid);
CREATE INDEX entries_by_age ON mnemosyne.entries (scope, created_at, uid);
CREATE INDEX entries_by_expiry ON mnemosyne.entries (valid_until) WHERE valid_until IS NOT NULL;
CREATE INDEX entries_by_session ON mnemosyne.entries (scope, md5(session_id)) WHERE session_id <> '';
CREATE INDEX entries_superseded ON mnemosyne.entries (superseded_by) WHERE superseded_by IS NOT NULL;

-- Which entries a mirrored file (an origin of kind `file`) holds; it repeats a part of entries.origins to be looked up.
CREATE TABLE mnemosyne.mirrored (
    place text COLLATE "C" NOT NULL,
    entry bigint NOT NULL
);
CREATE UNIQUE INDEX mirrored_by_place ON mnemosyne.mirrored (md5(place), entry);
CREATE INDEX mirrored_by_entry ON mnemosyne.mirrored (entry);

CREATE TABLE mnemosyne.sessions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope bigint NOT NULL,
    session_id text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX sessions_by_name ON mnemosyne.sessions (scope, md5(session_id));

CREATE TABLE mnemosyne.turns (
    scope bigint NOT NULL,
    id bigint NOT NULL,
    uid text COLLATE "C" NOT NULL,
    session bigint NOT NULL,
    position bigint NOT NULL,
    role text NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    speaker text COLLATE "C" NOT NULL,
    content text COLLATE "C" NOT NULL,
    content_hash bytea NOT NULL,
    occurrence bigint NOT NULL,
    occurred_at text COLLATE "C",
    occurred_offset integer,
    parent_session_id text COLLATE "C" NOT NULL,
    visibility text NOT NULL CHECK (visibility IN ('synced', 'local')),
    metadata text NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    clock text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, id),
    CONSTRAINT turns_by_capture UNIQUE (scope, session, role, content_hash, occurrence)
) @partitioned;
CREATE @unique INDEX turns_by_uid ON mnemosyne.turns (uid);
CREATE INDEX turns_by_age ON mnemosyne.turns (scope, created_at, uid);
CREATE INDEX turns_by_position ON mnemosyne.turns (session, position, uid);

-- How often each speaker has spoken, so that a name in a query can be recognised.
CREATE TABLE mnemosyne.speakers (
    scope bigint NOT NULL,
    speaker text COLLATE "C" NOT NULL,
    turns bigint NOT NULL
);
CREATE UNIQUE INDEX speakers_by_name ON mnemosyne.speakers (scope, md5(speaker));

-- Ids that lead to another row: merged equals, and ids promised by a spooled write.
CREATE TABLE mnemosyne.aliases (
    uid text COLLATE "C" PRIMARY KEY,
    survivor text COLLATE "C" NOT NULL,
    scope bigint NOT NULL,
    clock text COLLATE "C" NOT NULL,
    seq bigint NOT NULL
);
CREATE INDEX aliases_by_survivor ON mnemosyne.aliases (survivor);

CREATE TABLE mnemosyne.history (
    scope bigint NOT NULL,
    uid text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    at text COLLATE "C" NOT NULL,
    clock text COLLATE "C" NOT NULL,
    content_hash bytea NOT NULL,
    snapshot text NOT NULL,
    PRIMARY KEY (scope, uid, clock, action)
) @partitioned;
CREATE INDEX history_by_uid ON mnemosyne.history (uid);
CREATE INDEX history_by_hash ON mnemosyne.history (scope, content_hash);
CREATE INDEX history_released ON mnemosyne.history ((snapshot::jsonb ->> 'superseded_by')) WHERE action = 'released';

-- Rows that are gone: retired ones (history holds them) and forgotten ones (nothing holds them).
CREATE TABLE mnemosyne.tombstones (
    uid text COLLATE "C" PRIMARY KEY,
    scope bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('entry', 'turn')),
    state text NOT NULL CHECK (state IN ('retired', 'forgotten')),
    visibility text NOT NULL,
    at text COLLATE "C" NOT NULL,
    clock text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    session bigint,
    role text,
    content_hash bytea,
    occurrence bigint
);
CREATE INDEX tombstones_by_scope ON mnemosyne.tombstones (scope, state);
CREATE INDEX tombstones_by_capture ON mnemosyne.tombstones (session, role, content_hash) WHERE session IS NOT NULL;

-- Keyed hashes of forgotten texts and capture keys: they keep a text out without holding it.
CREATE TABLE mnemosyne.forgotten (
    mac text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    scope bigint NOT NULL,
    clock text COLLATE "C" NOT NULL,
    occurrence bigint NOT NULL,
    PRIMARY KEY (mac, uid)
);
CREATE INDEX forgotten_by_uid ON mnemosyne.forgotten (uid);

CREATE TABLE mnemosyne.applied_ops (
    op_id text COLLATE "C" PRIMARY KEY,
    at text COLLATE "C" NOT NULL
);
CREATE INDEX applied_ops_by_age ON mnemosyne.applied_ops (at);

CREATE TABLE mnemosyne.injected (
    scope bigint NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    at text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX injected_by_session ON mnemosyne.injected (scope, md5(session_id), uid);
CREATE INDEX injected_by_uid ON mnemosyne.injected (uid);

CREATE TABLE mnemosyne.stamps (
    scope bigint NOT NULL,
    place text COLLATE "C" NOT NULL,
    stamp text NOT NULL
);
CREATE UNIQUE INDEX stamps_by_place ON mnemosyne.stamps (scope, md5(place));

-- Encoded tokens of the analyser: words of the text with label A, of its neighbours in the session with label D, and facets without
-- positions, to filter by: `/s<scope>`, `/k<shelf>`, `/n<session>` of a turn, `/m<session>` of an entry, `/ve` with an expiry, `/sp`
-- superseded. `words` counts those of the text, `lead` are the tokens that it lends to its neighbours.
CREATE TABLE mnemosyne.tokens (
    scope bigint NOT NULL,
    row bigint NOT NULL,
    words integer NOT NULL,
    version integer NOT NULL,
    lead text NOT NULL,
    tsv tsvector NOT NULL,
    PRIMARY KEY (scope, row)
) @partitioned;
CREATE INDEX tokens_by_term ON mnemosyne.tokens USING gin (tsv) WITH (gin_pending_list_limit = 1024);
CREATE INDEX tokens_by_version ON mnemosyne.tokens (version);

-- Turns whose neighbour column lacks the words of the turn that came after them; upkeep adds these.
CREATE TABLE mnemosyne.stale_contexts (
    row bigint PRIMARY KEY
);

-- In how many rows of a place (scope << 2 | shelf) a frequent term stands, as of the last count by upkeep; the number of rows and of
-- words then. A term that is not listed is rare: it is counted when it is asked for.
CREATE TABLE mnemosyne.places (
    place bigint PRIMARY KEY,
    rows bigint NOT NULL,
    words bigint NOT NULL
);
CREATE TABLE mnemosyne.term_counts (
    place bigint NOT NULL,
    term text COLLATE "C" NOT NULL,
    rows bigint NOT NULL,
    PRIMARY KEY (place, term)
);

-- At most one model is searched (`active`); upkeep removes those that are `gone`.
CREATE TABLE mnemosyne.vector_models (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text COLLATE "C" NOT NULL UNIQUE,
    name text NOT NULL,
    dimension integer NOT NULL,
    probes bytea NOT NULL DEFAULT '',
    floor double precision NOT NULL DEFAULT 0,
    active boolean NOT NULL DEFAULT false,
    gone boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX vector_models_active ON mnemosyne.vector_models (active) WHERE active;

-- One vector per row and model, of unit length: in `embedding` up to 2,000 dimensions, in `half` above, since no index takes longer
-- ones. The columns have no dimension, so that models can change while agents are at work; indexes are made on casts. Vectors stay in
-- the row up to the size of a page: read from beside it, an exact search took five times as long.
CREATE TABLE mnemosyne.vectors (
    scope bigint NOT NULL,
    row bigint NOT NULL,
    model integer NOT NULL,
    cut boolean NOT NULL,
    embedding @extension.vector,
    half @extension.halfvec,
    PRIMARY KEY (scope, model, row)
) @partitioned;
CREATE INDEX vectors_cut ON mnemosyne.vectors (model) WHERE cut;

-- Rows without a vector of a model; with a `reason` those that have failed, to be tried again at `retry_at` or not of themselves.
CREATE TABLE mnemosyne.missing_vectors (
    model integer NOT NULL,
    row bigint NOT NULL,
    reason text,
    retry_at text COLLATE "C",
    PRIMARY KEY (model, row)
);

-- Rows that have no vector by setting.
CREATE TABLE mnemosyne.vector_exclusions (
    row bigint PRIMARY KEY
);

-- Who has been seen, and who has given work to whom: provenance, never searched.
CREATE TABLE mnemosyne.agents (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    theme text COLLATE "C" NOT NULL,
    kind text NOT NULL DEFAULT 'theme',
    first_seen timestamptz NOT NULL DEFAULT now(),
    last_seen timestamptz NOT NULL DEFAULT now(),
    attrs jsonb NOT NULL DEFAULT '{}'
);
CREATE UNIQUE INDEX agents_by_theme ON mnemosyne.agents (md5(theme));

CREATE TABLE mnemosyne.agent_edges (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    parent_theme text COLLATE "C",
    child_theme text COLLATE "C",
    parent_session_id text COLLATE "C",
    child_session_id text COLLATE "C",
    kind text NOT NULL DEFAULT 'delegated',
    ts timestamptz NOT NULL DEFAULT now(),
    attrs jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX agent_edges_by_parent ON mnemosyne.agent_edges (md5(parent_theme), ts DESC);
CREATE INDEX agent_edges_by_child ON mnemosyne.agent_edges (md5(child_theme), ts DESC);
CREATE INDEX agent_edges_by_turn ON mnemosyne.agent_edges ((attrs ->> 'turn'));
CREATE INDEX agent_edges_by_session ON mnemosyne.agent_edges (md5(parent_session_id));

-- What `prune`, `cleanup`, `remap` and `backfill` have done.
CREATE TABLE mnemosyne.maintenance_log (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    ts timestamptz NOT NULL DEFAULT now(),
    operation text NOT NULL,
    target_table text,
    theme_pattern text,
    affected_count bigint,
    dropped_dupes bigint,
    dry_run boolean NOT NULL DEFAULT true,
    details jsonb NOT NULL DEFAULT '{}'
);

@partitions

DO $$
DECLARE leaf record;
BEGIN
    FOR leaf IN SELECT c.oid::regclass AS name, c.relname FROM pg_class AS c
        WHERE c.relnamespace = 'mnemosyne'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^(tokens|vectors)(_p\d+)?$'
    LOOP
        EXECUTE format('ALTER TABLE %s SET (toast_tuple_target = 8160)', leaf.name);
    END LOOP;
END
$$;
