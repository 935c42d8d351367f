-- oldest-writer: 1
-- What other replicas need: every change is found by its number, those of history too.

ALTER TABLE history ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
UPDATE history SET seq = (SELECT seq FROM sequence) + id;
UPDATE sequence SET seq = seq + coalesce((SELECT max(id) FROM history), 0);

CREATE INDEX entries_by_seq ON entries (seq);
CREATE INDEX turns_by_seq ON turns (seq);
CREATE INDEX aliases_by_seq ON aliases (seq);
CREATE INDEX tombstones_by_seq ON tombstones (seq);
CREATE INDEX history_by_seq ON history (seq);

-- Rows that have become local: other replicas are to forget them.
CREATE TABLE withdrawn (
    uid TEXT PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES scopes (id),
    kind TEXT NOT NULL CHECK (kind IN ('entry', 'turn')),
    at TEXT NOT NULL,
    clock TEXT NOT NULL,
    seq INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX withdrawn_by_seq ON withdrawn (seq);
