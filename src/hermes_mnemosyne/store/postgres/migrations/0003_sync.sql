-- oldest-writer: 1
-- What other replicas need: every change is found by its number, those of history too.

ALTER TABLE mnemosyne.history ADD COLUMN seq bigint NOT NULL DEFAULT 0;
UPDATE mnemosyne.history AS h SET seq = q.seq + o.place
FROM mnemosyne.sequence AS q, (
    SELECT scope, uid, clock, action, row_number() OVER (ORDER BY clock, uid, action) AS place FROM mnemosyne.history
) AS o
WHERE (h.scope, h.uid, h.clock, h.action) = (o.scope, o.uid, o.clock, o.action);
UPDATE mnemosyne.sequence SET seq = greatest(seq, (SELECT coalesce(max(seq), 0) FROM mnemosyne.history));

CREATE INDEX entries_by_seq ON mnemosyne.entries (seq);
CREATE INDEX turns_by_seq ON mnemosyne.turns (seq);
CREATE INDEX aliases_by_seq ON mnemosyne.aliases (seq);
CREATE INDEX tombstones_by_seq ON mnemosyne.tombstones (seq);
CREATE INDEX history_by_seq ON mnemosyne.history (seq);

-- Rows that have become local: other replicas are to forget them.
CREATE TABLE mnemosyne.withdrawn (
    uid text COLLATE "C" PRIMARY KEY,
    scope bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('entry', 'turn')),
    at text COLLATE "C" NOT NULL,
    clock text COLLATE "C" NOT NULL,
    seq bigint NOT NULL
);
CREATE INDEX withdrawn_by_seq ON mnemosyne.withdrawn (seq);
