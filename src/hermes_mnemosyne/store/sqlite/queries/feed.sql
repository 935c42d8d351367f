-- What other replicas ask. Every statement for a kind of record begins with change number, scope, the visibility of the row that it
-- tells of, and that row's kind; `..._of` finds those of some uids. A version that was local stays so when its row is shared.

-- name: entries
SELECT r.seq, r.scope, r.visibility, 'entry', r.id FROM entries AS r
WHERE r.seq > ?1 ORDER BY r.seq LIMIT ?2

-- name: entries_of
SELECT r.seq, r.scope, r.visibility, 'entry', r.id FROM entries AS r
WHERE r.uid IN (SELECT value FROM json_each(?1))

-- name: turns
SELECT r.seq, r.scope, r.visibility, 'turn', r.id FROM turns AS r
WHERE r.seq > ?1 ORDER BY r.seq LIMIT ?2

-- name: turns_of
SELECT r.seq, r.scope, r.visibility, 'turn', r.id FROM turns AS r
WHERE r.uid IN (SELECT value FROM json_each(?1))

-- name: aliases
SELECT a.seq, a.scope, COALESCE((SELECT e.visibility FROM entries AS e WHERE e.uid = a.survivor), (SELECT t.visibility FROM turns AS t WHERE t.uid = a.survivor),
        (SELECT g.visibility FROM tombstones AS g WHERE g.uid = a.survivor), 'synced'),
    CASE WHEN EXISTS (SELECT 1 FROM turns AS t WHERE t.uid = a.survivor) OR EXISTS (SELECT 1 FROM tombstones AS g WHERE g.uid = a.survivor AND g.kind = 'turn')
        THEN 'turn' ELSE 'entry' END, a.uid, a.survivor, a.clock
FROM aliases AS a
WHERE a.seq > ?1 ORDER BY a.seq LIMIT ?2

-- name: aliases_of
SELECT a.seq, a.scope, COALESCE((SELECT e.visibility FROM entries AS e WHERE e.uid = a.survivor), (SELECT t.visibility FROM turns AS t WHERE t.uid = a.survivor),
        (SELECT g.visibility FROM tombstones AS g WHERE g.uid = a.survivor), 'synced'),
    CASE WHEN EXISTS (SELECT 1 FROM turns AS t WHERE t.uid = a.survivor) OR EXISTS (SELECT 1 FROM tombstones AS g WHERE g.uid = a.survivor AND g.kind = 'turn')
        THEN 'turn' ELSE 'entry' END, a.uid, a.survivor, a.clock
FROM aliases AS a
WHERE a.uid IN (SELECT value FROM json_each(?1)) OR a.survivor IN (SELECT value FROM json_each(?1))

-- name: tombstones
SELECT r.seq, r.scope, r.visibility, r.kind, r.uid, r.state, r.at, r.clock, n.session_id, r.role, hex(r.content_hash), r.occurrence
FROM tombstones AS r LEFT JOIN sessions AS n ON n.id = r.session
WHERE r.seq > ?1 ORDER BY r.seq LIMIT ?2

-- name: tombstones_of
SELECT r.seq, r.scope, r.visibility, r.kind, r.uid, r.state, r.at, r.clock, n.session_id, r.role, hex(r.content_hash), r.occurrence
FROM tombstones AS r LEFT JOIN sessions AS n ON n.id = r.session
WHERE r.uid IN (SELECT value FROM json_each(?1))

-- name: withdrawn
SELECT r.seq, r.scope, 'synced', r.kind, r.uid, 'forgotten', r.at, r.clock, NULL, NULL, NULL, NULL FROM withdrawn AS r
WHERE r.seq > ?1 ORDER BY r.seq LIMIT ?2

-- name: withdrawn_of
SELECT r.seq, r.scope, 'synced', r.kind, r.uid, 'forgotten', r.at, r.clock, NULL, NULL, NULL, NULL FROM withdrawn AS r
WHERE r.uid IN (SELECT value FROM json_each(?1))

-- name: history
SELECT h.seq, h.scope, CASE json_extract(h.snapshot, '$.visibility') WHEN 'local' THEN 'local' ELSE
    COALESCE((SELECT e.visibility FROM entries AS e WHERE e.uid = h.name), (SELECT t.visibility FROM turns AS t WHERE t.uid = h.name),
        (SELECT g.visibility FROM tombstones AS g WHERE g.uid = h.name), 'synced') END,
    CASE WHEN json_extract(h.snapshot, '$.role') IS NULL THEN 'entry' ELSE 'turn' END, h.uid, h.action, h.at, h.clock, h.snapshot
FROM (
    SELECT k.seq, k.scope, k.uid, k.action, k.at, k.clock, k.snapshot,
        COALESCE((SELECT a.survivor FROM aliases AS a WHERE a.uid = k.uid), k.uid) AS name
    FROM history AS k WHERE k.seq > ?1 ORDER BY k.seq LIMIT ?2
) AS h ORDER BY h.seq

-- name: history_of
SELECT h.seq, h.scope, CASE json_extract(h.snapshot, '$.visibility') WHEN 'local' THEN 'local' ELSE
    COALESCE((SELECT e.visibility FROM entries AS e WHERE e.uid = h.name), (SELECT t.visibility FROM turns AS t WHERE t.uid = h.name),
        (SELECT g.visibility FROM tombstones AS g WHERE g.uid = h.name), 'synced') END,
    CASE WHEN json_extract(h.snapshot, '$.role') IS NULL THEN 'entry' ELSE 'turn' END, h.uid, h.action, h.at, h.clock, h.snapshot
FROM (
    SELECT k.seq, k.scope, k.uid, k.action, k.at, k.clock, k.snapshot,
        COALESCE((SELECT a.survivor FROM aliases AS a WHERE a.uid = k.uid), k.uid) AS name
    FROM history AS k WHERE k.uid IN (SELECT value FROM json_each(?1))
) AS h

-- name: row_numbers
SELECT uid, id FROM entries WHERE uid IN (SELECT value FROM json_each(?1)) UNION ALL SELECT uid, id FROM turns WHERE uid IN (SELECT value FROM json_each(?1))

-- name: vectors
SELECT v.row, v.vector FROM vectors AS v JOIN vector_models AS m ON m.id = v.model
WHERE m.key = ?1 AND v.row IN (SELECT value FROM json_each(?2))

-- name: states
SELECT uid, 'entry', 'live', clock FROM entries WHERE scope = ?1 AND visibility = 'synced'
UNION ALL SELECT uid, 'turn', 'live', clock FROM turns WHERE scope = ?1 AND visibility = 'synced'
UNION ALL SELECT uid, kind, state, clock FROM tombstones WHERE scope = ?1 AND visibility = 'synced'
UNION ALL SELECT w.uid, w.kind, 'forgotten', w.clock FROM withdrawn AS w
    WHERE w.scope = ?1 AND NOT EXISTS (SELECT 1 FROM tombstones AS g WHERE g.uid = w.uid AND g.visibility = 'synced')

-- name: places
SELECT id, theme, subject FROM scopes

-- name: kept
SELECT key, value FROM meta WHERE substr(key, 1, length(?1)) = ?1
