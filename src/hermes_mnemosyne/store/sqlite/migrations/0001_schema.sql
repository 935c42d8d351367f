-- oldest-writer: 1
-- Everything a store keeps. Live tables hold live rows only; history and tombstones have their own.
-- A row number is (scope << 2 | shelf) << 36 | seq, shelf 0 = memory, 1 = user, 2 = turn: all rows of a theme and subject, and of
-- each shelf in it, are one range of row numbers, so the theme is part of the full-text index without being a term.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One row: the last change number and the greatest edit clock of this store.
CREATE TABLE sequence (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    seq INTEGER NOT NULL,
    clock TEXT NOT NULL
);
INSERT INTO sequence VALUES (1, 0, '');

CREATE TABLE scopes (
    id INTEGER PRIMARY KEY,
    theme TEXT NOT NULL,
    folded TEXT NOT NULL,
    subject TEXT NOT NULL,
    memory_rows INTEGER NOT NULL DEFAULT 0,
    user_rows INTEGER NOT NULL DEFAULT 0,
    turn_rows INTEGER NOT NULL DEFAULT 0,
    UNIQUE (theme, subject)
);
CREATE INDEX scopes_by_folded_theme ON scopes (folded, subject);

CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    uid TEXT NOT NULL UNIQUE,
    scope INTEGER NOT NULL REFERENCES scopes (id),
    target TEXT NOT NULL CHECK (target IN ('memory', 'user')),
    content TEXT NOT NULL,
    content_hash BLOB NOT NULL,
    tags TEXT NOT NULL,
    importance REAL NOT NULL CHECK (importance BETWEEN 0 AND 1),
    pinned INTEGER NOT NULL CHECK (pinned IN (0, 1)),
    valid_until TEXT,
    occurred_at TEXT,
    occurred_offset INTEGER,
    superseded_by TEXT,
    visibility TEXT NOT NULL CHECK (visibility IN ('synced', 'local')),
    session_id TEXT NOT NULL,
    origins TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    seq INTEGER NOT NULL,
    clock TEXT NOT NULL,
    UNIQUE (scope, target, content_hash)
);
CREATE INDEX entries_by_expiry ON entries (valid_until) WHERE valid_until IS NOT NULL;
CREATE INDEX entries_superseded ON entries (superseded_by) WHERE superseded_by IS NOT NULL;

-- Which entries a mirrored file (an origin of kind `file`) holds; it repeats a part of entries.origins to be looked up.
CREATE TABLE mirrored (
    place TEXT NOT NULL,
    entry INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    PRIMARY KEY (place, entry)
) WITHOUT ROWID;
CREATE INDEX mirrored_by_entry ON mirrored (entry);

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES scopes (id),
    session_id TEXT NOT NULL,
    UNIQUE (scope, session_id)
);

CREATE TABLE turns (
    id INTEGER PRIMARY KEY,
    uid TEXT NOT NULL UNIQUE,
    scope INTEGER NOT NULL REFERENCES scopes (id),
    session INTEGER NOT NULL REFERENCES sessions (id),
    position INTEGER NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    speaker TEXT NOT NULL,
    content TEXT NOT NULL,
    content_hash BLOB NOT NULL,
    occurrence INTEGER NOT NULL,
    occurred_at TEXT,
    occurred_offset INTEGER,
    parent_session_id TEXT NOT NULL,
    visibility TEXT NOT NULL CHECK (visibility IN ('synced', 'local')),
    metadata TEXT NOT NULL,
    created_at TEXT NOT NULL,
    seq INTEGER NOT NULL,
    clock TEXT NOT NULL,
    UNIQUE (session, role, content_hash, occurrence)
);
CREATE INDEX turns_by_position ON turns (session, position, uid);

-- How often each speaker has spoken, so that a name in a query can be recognised.
CREATE TABLE speakers (
    scope INTEGER NOT NULL REFERENCES scopes (id),
    speaker TEXT NOT NULL,
    turns INTEGER NOT NULL,
    PRIMARY KEY (scope, speaker)
) WITHOUT ROWID;

-- Ids that lead to another row: merged equals, and ids promised by a spooled write.
CREATE TABLE aliases (
    uid TEXT PRIMARY KEY,
    survivor TEXT NOT NULL,
    scope INTEGER NOT NULL REFERENCES scopes (id),
    clock TEXT NOT NULL,
    seq INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX aliases_by_survivor ON aliases (survivor);

CREATE TABLE history (
    id INTEGER PRIMARY KEY,
    uid TEXT NOT NULL,
    scope INTEGER NOT NULL REFERENCES scopes (id),
    action TEXT NOT NULL,
    at TEXT NOT NULL,
    clock TEXT NOT NULL,
    content_hash BLOB NOT NULL,
    snapshot TEXT NOT NULL,
    UNIQUE (uid, clock, action)
);
CREATE INDEX history_by_hash ON history (scope, content_hash);

-- Rows that are gone: retired ones (history holds them) and forgotten ones (nothing holds them).
CREATE TABLE tombstones (
    uid TEXT PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES scopes (id),
    kind TEXT NOT NULL CHECK (kind IN ('entry', 'turn')),
    state TEXT NOT NULL CHECK (state IN ('retired', 'forgotten')),
    visibility TEXT NOT NULL,
    at TEXT NOT NULL,
    clock TEXT NOT NULL,
    seq INTEGER NOT NULL,
    session INTEGER,
    role TEXT,
    content_hash BLOB,
    occurrence INTEGER
) WITHOUT ROWID;
CREATE INDEX tombstones_by_scope ON tombstones (scope, state);
CREATE INDEX tombstones_by_capture ON tombstones (session, role, content_hash) WHERE session IS NOT NULL;

-- Keyed hashes of forgotten texts and capture keys: they keep a text out without holding it.
CREATE TABLE forgotten (
    mac TEXT NOT NULL,
    uid TEXT NOT NULL,
    scope INTEGER NOT NULL REFERENCES scopes (id),
    clock TEXT NOT NULL,
    occurrence INTEGER NOT NULL,
    PRIMARY KEY (mac, uid)
) WITHOUT ROWID;
CREATE INDEX forgotten_by_uid ON forgotten (uid);

CREATE TABLE applied_ops (
    op_id TEXT PRIMARY KEY,
    at TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE injected (
    scope INTEGER NOT NULL REFERENCES scopes (id),
    session_id TEXT NOT NULL,
    uid TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (scope, session_id, uid)
) WITHOUT ROWID;

CREATE TABLE stamps (
    scope INTEGER NOT NULL REFERENCES scopes (id),
    place TEXT NOT NULL,
    stamp TEXT NOT NULL,
    PRIMARY KEY (scope, place)
) WITHOUT ROWID;

-- Encoded tokens of the analyser: the text, its neighbours in the session, and facets (session, flags) to filter by.
CREATE VIRTUAL TABLE tokens USING fts5 (body, context, facets, version UNINDEXED, tokenize = 'ascii');
-- Each write makes a segment of its own: merging eight of them at a time, not four, rewrites a word less often.
INSERT INTO tokens (tokens, rank) VALUES ('automerge', 8);

-- Token rows of the latest writes, committed with their text. FTS5 makes a segment per transaction, so they go into `tokens` many at
-- a time: before a search, or by upkeep. A row's tokens stand in one of the two tables.
CREATE TABLE recent_tokens (
    row INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    context TEXT NOT NULL,
    facets TEXT NOT NULL,
    version INTEGER NOT NULL
);

-- Turns whose neighbour column lacks the words of the turn that came after them; upkeep adds these.
CREATE TABLE stale_contexts (
    row INTEGER PRIMARY KEY
);

-- At most one model is searched (`active`); upkeep removes those that are `gone`. Rows up to number `swept` were looked at: those of
-- them that lack a vector stand in `missing_vectors`.
CREATE TABLE vector_models (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    probes BLOB NOT NULL DEFAULT x'',
    floor REAL NOT NULL DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 0 CHECK (active IN (0, 1)),
    gone INTEGER NOT NULL DEFAULT 0 CHECK (gone IN (0, 1)),
    swept INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX vector_models_active ON vector_models (active) WHERE active;

-- One vector per row and model: little-endian float32 of unit length, and one sign bit per dimension as a sketch. A stamp stands for
-- one vector for ever: a row that gets another one gets another stamp, greater than all before.
CREATE TABLE vectors (
    stamp INTEGER PRIMARY KEY AUTOINCREMENT,
    model INTEGER NOT NULL REFERENCES vector_models (id),
    row INTEGER NOT NULL,
    cut INTEGER NOT NULL CHECK (cut IN (0, 1)),
    sketch BLOB NOT NULL,
    vector BLOB NOT NULL,
    UNIQUE (model, row)
);
-- All sketches are read at once, or those since a stamp, without the pages of the vectors.
CREATE INDEX vector_sketches ON vectors (model, stamp, row, sketch);
CREATE INDEX vectors_cut ON vectors (model) WHERE cut;

-- Rows without a vector that a sweep over the rows would not find; with a `reason` those that have failed, to be tried again at
-- `retry_at` or not of themselves. Rows in `recent_tokens` come here when they leave that table.
CREATE TABLE missing_vectors (
    model INTEGER NOT NULL REFERENCES vector_models (id),
    row INTEGER NOT NULL,
    reason TEXT,
    retry_at TEXT,
    PRIMARY KEY (model, row)
) WITHOUT ROWID;

-- Rows that have no vector by setting.
CREATE TABLE vector_exclusions (
    row INTEGER PRIMARY KEY
);
