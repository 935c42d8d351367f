-- What other replicas ask. Every statement for a kind of record begins with change number, scope, the visibility of the row that it
-- tells of, and that row's kind; `..._of` finds those of some uids. A version that was local stays so when its row is shared.

-- name: entries
SELECT r.seq, r.scope, r.visibility, 'entry', r.id FROM mnemosyne.entries AS r
WHERE r.seq > $1::bigint ORDER BY r.seq LIMIT $2::bigint

-- name: entries_of
SELECT r.seq, r.scope, r.visibility, 'entry', r.id FROM mnemosyne.entries AS r
WHERE r.uid IN (SELECT unnest($1::text[]))

-- name: turns
SELECT r.seq, r.scope, r.visibility, 'turn', r.id FROM mnemosyne.turns AS r
WHERE r.seq > $1::bigint ORDER BY r.seq LIMIT $2::bigint

-- name: turns_of
SELECT r.seq, r.scope, r.visibility, 'turn', r.id FROM mnemosyne.turns AS r
WHERE r.uid IN (SELECT unnest($1::text[]))

-- name: aliases
SELECT a.seq, a.scope, COALESCE((SELECT e.visibility FROM mnemosyne.entries AS e WHERE e.uid = a.survivor), (SELECT t.visibility FROM mnemosyne.turns AS t WHERE t.uid = a.survivor),
        (SELECT g.visibility FROM mnemosyne.tombstones AS g WHERE g.uid = a.survivor), 'synced'),
    CASE WHEN EXISTS (SELECT 1 FROM mnemosyne.turns AS t WHERE t.uid = a.survivor) OR EXISTS (SELECT 1 FROM mnemosyne.tombstones AS g WHERE g.uid = a.survivor AND g.kind = 'turn')
        THEN 'turn' ELSE 'entry' END, a.uid, a.survivor, a.clock
FROM mnemosyne.aliases AS a
WHERE a.seq > $1::bigint ORDER BY a.seq LIMIT $2::bigint

-- name: aliases_of
SELECT a.seq, a.scope, COALESCE((SELECT e.visibility FROM mnemosyne.entries AS e WHERE e.uid = a.survivor), (SELECT t.visibility FROM mnemosyne.turns AS t WHERE t.uid = a.survivor),
        (SELECT g.visibility FROM mnemosyne.tombstones AS g WHERE g.uid = a.survivor), 'synced'),
    CASE WHEN EXISTS (SELECT 1 FROM mnemosyne.turns AS t WHERE t.uid = a.survivor) OR EXISTS (SELECT 1 FROM mnemosyne.tombstones AS g WHERE g.uid = a.survivor AND g.kind = 'turn')
        THEN 'turn' ELSE 'entry' END, a.uid, a.survivor, a.clock
FROM mnemosyne.aliases AS a
WHERE a.uid IN (SELECT unnest($1::text[])) OR a.survivor IN (SELECT unnest($1::text[]))

-- name: tombstones
SELECT r.seq, r.scope, r.visibility, r.kind, r.uid, r.state, r.at, r.clock, n.session_id, r.role, encode(r.content_hash, 'hex'), r.occurrence
FROM mnemosyne.tombstones AS r LEFT JOIN mnemosyne.sessions AS n ON n.id = r.session
WHERE r.seq > $1::bigint ORDER BY r.seq LIMIT $2::bigint

-- name: tombstones_of
SELECT r.seq, r.scope, r.visibility, r.kind, r.uid, r.state, r.at, r.clock, n.session_id, r.role, encode(r.content_hash, 'hex'), r.occurrence
FROM mnemosyne.tombstones AS r LEFT JOIN mnemosyne.sessions AS n ON n.id = r.session
WHERE r.uid IN (SELECT unnest($1::text[]))

-- name: withdrawn
SELECT r.seq, r.scope, 'synced', r.kind, r.uid, 'forgotten', r.at, r.clock, NULL::text, NULL::text, NULL::text, NULL::bigint FROM mnemosyne.withdrawn AS r
WHERE r.seq > $1::bigint ORDER BY r.seq LIMIT $2::bigint

-- name: withdrawn_of
SELECT r.seq, r.scope, 'synced', r.kind, r.uid, 'forgotten', r.at, r.clock, NULL::text, NULL::text, NULL::text, NULL::bigint FROM mnemosyne.withdrawn AS r
WHERE r.uid IN (SELECT unnest($1::text[]))

-- name: history
SELECT h.seq, h.scope, CASE h.snapshot::jsonb ->> 'visibility' WHEN 'local' THEN 'local' ELSE
    COALESCE((SELECT e.visibility FROM mnemosyne.entries AS e WHERE e.uid = h.name), (SELECT t.visibility FROM mnemosyne.turns AS t WHERE t.uid = h.name),
        (SELECT g.visibility FROM mnemosyne.tombstones AS g WHERE g.uid = h.name), 'synced') END,
    CASE WHEN h.snapshot::jsonb ->> 'role' IS NULL THEN 'entry' ELSE 'turn' END, h.uid, h.action, h.at, h.clock, h.snapshot
FROM (
    SELECT k.seq, k.scope, k.uid, k.action, k.at, k.clock, k.snapshot,
        COALESCE((SELECT a.survivor FROM mnemosyne.aliases AS a WHERE a.uid = k.uid), k.uid) AS name
    FROM mnemosyne.history AS k WHERE k.seq > $1::bigint ORDER BY k.seq LIMIT $2::bigint
) AS h ORDER BY h.seq

-- name: history_of
SELECT h.seq, h.scope, CASE h.snapshot::jsonb ->> 'visibility' WHEN 'local' THEN 'local' ELSE
    COALESCE((SELECT e.visibility FROM mnemosyne.entries AS e WHERE e.uid = h.name), (SELECT t.visibility FROM mnemosyne.turns AS t WHERE t.uid = h.name),
        (SELECT g.visibility FROM mnemosyne.tombstones AS g WHERE g.uid = h.name), 'synced') END,
    CASE WHEN h.snapshot::jsonb ->> 'role' IS NULL THEN 'entry' ELSE 'turn' END, h.uid, h.action, h.at, h.clock, h.snapshot
FROM (
    SELECT k.seq, k.scope, k.uid, k.action, k.at, k.clock, k.snapshot,
        COALESCE((SELECT a.survivor FROM mnemosyne.aliases AS a WHERE a.uid = k.uid), k.uid) AS name
    FROM mnemosyne.history AS k WHERE k.uid IN (SELECT unnest($1::text[]))
) AS h

-- name: row_numbers
SELECT uid, id FROM mnemosyne.entries WHERE uid = ANY ($1::text[]) UNION ALL SELECT uid, id FROM mnemosyne.turns WHERE uid = ANY ($1::text[])

-- name: vectors
SELECT v.row, coalesce(v.embedding::real[], v.half::real[]) FROM mnemosyne.vectors AS v JOIN mnemosyne.vector_models AS m ON m.id = v.model
WHERE m.key = $1 AND v.scope = ANY (SELECT j >> 38 FROM unnest($2::bigint[]) AS j) AND v.row = ANY ($2::bigint[])

-- name: states
SELECT uid, 'entry', 'live', clock FROM mnemosyne.entries WHERE scope = $1 AND visibility = 'synced'
UNION ALL SELECT uid, 'turn', 'live', clock FROM mnemosyne.turns WHERE scope = $1 AND visibility = 'synced'
UNION ALL SELECT uid, kind, state, clock FROM mnemosyne.tombstones WHERE scope = $1 AND visibility = 'synced'
UNION ALL SELECT w.uid, w.kind, 'forgotten', w.clock FROM mnemosyne.withdrawn AS w
    WHERE w.scope = $1 AND NOT EXISTS (SELECT 1 FROM mnemosyne.tombstones AS g WHERE g.uid = w.uid AND g.visibility = 'synced')

-- name: places
SELECT id, theme, subject FROM mnemosyne.scopes

-- name: kept
SELECT key, value FROM mnemosyne.meta WHERE left(key, length($1)) = $1
