-- name: scopes_all
SELECT id, theme, subject, memory_rows, user_rows, turn_rows FROM scopes WHERE ?1 IS NULL OR subject = ?1

-- name: scopes_of
SELECT id, theme, subject, memory_rows, user_rows, turn_rows FROM scopes
WHERE folded IN (SELECT value FROM json_each(?2)) AND (?1 IS NULL OR subject = ?1)

-- name: sequence
SELECT seq, clock FROM sequence

-- name: alias
SELECT survivor FROM aliases WHERE uid = ?

-- name: entry_by_uid
SELECT e.id, e.uid, s.theme, s.subject, e.target, e.content, e.tags, e.importance, e.pinned, e.valid_until, e.occurred_at,
    e.occurred_offset, e.superseded_by, e.visibility, e.session_id, e.origins, e.metadata, e.created_at, e.updated_at, e.seq, e.clock
FROM entries AS e JOIN scopes AS s ON s.id = e.scope WHERE e.uid = ?

-- name: turn_by_uid
SELECT t.id, t.uid, s.theme, s.subject, n.session_id, t.position, t.role, t.speaker, t.content, t.occurrence, t.occurred_at,
    t.occurred_offset, t.parent_session_id, t.visibility, t.metadata, t.created_at, t.seq, t.clock
FROM turns AS t JOIN scopes AS s ON s.id = t.scope JOIN sessions AS n ON n.id = t.session WHERE t.uid = ?

-- name: entries_by_id
SELECT e.id, e.uid, s.theme, s.subject, e.target, e.content, e.tags, e.importance, e.pinned, e.valid_until, e.occurred_at,
    e.occurred_offset, e.superseded_by, e.visibility, e.session_id, e.origins, e.metadata, e.created_at, e.updated_at, e.seq, e.clock
FROM json_each(?) AS j JOIN entries AS e ON e.id = j.value JOIN scopes AS s ON s.id = e.scope

-- name: turns_by_id
SELECT t.id, t.uid, s.theme, s.subject, n.session_id, t.position, t.role, t.speaker, t.content, t.occurrence, t.occurred_at,
    t.occurred_offset, t.parent_session_id, t.visibility, t.metadata, t.created_at, t.seq, t.clock
FROM json_each(?) AS j JOIN turns AS t ON t.id = j.value JOIN scopes AS s ON s.id = t.scope JOIN sessions AS n ON n.id = t.session

-- name: ids_by_uid
WITH wanted (uid) AS (
    SELECT value FROM json_each(?1) UNION SELECT a.survivor FROM json_each(?1) AS j JOIN aliases AS a ON a.uid = j.value
)
SELECT e.id FROM wanted AS w JOIN entries AS e ON e.uid = w.uid UNION ALL SELECT t.id FROM wanted AS w JOIN turns AS t ON t.uid = w.uid

-- name: list_newest
SELECT id FROM (
    SELECT e.id AS id, e.created_at AS at, e.uid AS uid FROM entries AS e
    WHERE :entries AND (:places IS NULL OR e.id >> 36 IN (SELECT value FROM json_each(:places)))
    UNION ALL
    SELECT t.id, t.created_at, t.uid FROM turns AS t
    WHERE :turns AND (:places IS NULL OR t.id >> 36 IN (SELECT value FROM json_each(:places)))
) AS v
WHERE (@passes(v.id)) AND (:exclude IS NULL OR v.id NOT IN (SELECT value FROM json_each(:exclude)))
ORDER BY at DESC, uid DESC LIMIT :limit OFFSET :offset

-- name: list_oldest
SELECT id FROM (
    SELECT e.id AS id, e.created_at AS at, e.uid AS uid FROM entries AS e
    WHERE :entries AND (:places IS NULL OR e.id >> 36 IN (SELECT value FROM json_each(:places)))
    UNION ALL
    SELECT t.id, t.created_at, t.uid FROM turns AS t
    WHERE :turns AND (:places IS NULL OR t.id >> 36 IN (SELECT value FROM json_each(:places)))
) AS v
WHERE (@passes(v.id)) AND (:exclude IS NULL OR v.id NOT IN (SELECT value FROM json_each(:exclude)))
ORDER BY at, uid LIMIT :limit OFFSET :offset

-- name: history
SELECT uid, action, at, clock, snapshot FROM history
WHERE snapshot <> '{}' AND (uid = ?1 OR uid IN (SELECT uid FROM aliases WHERE survivor = ?1)) ORDER BY clock, action, uid

-- name: grave
SELECT s.theme, s.subject, t.state FROM tombstones AS t JOIN scopes AS s ON s.id = t.scope WHERE t.uid = ?

-- name: injected
SELECT i.uid FROM injected AS i JOIN scopes AS s ON s.id = i.scope WHERE s.theme = ? AND s.subject = ? AND i.session_id = ?

-- name: stamp
SELECT p.stamp FROM stamps AS p JOIN scopes AS s ON s.id = p.scope WHERE s.theme = ? AND s.subject = '' AND p.place = ?

-- name: meta
SELECT value FROM meta WHERE key = ?

-- name: metas
SELECT key, value FROM meta WHERE key IN (SELECT value FROM json_each(?))

-- name: applied
SELECT name FROM migrations ORDER BY number

-- name: figures
WITH within(scope) AS (SELECT value FROM json_each(:scopes))
SELECT (SELECT count(*) FROM history WHERE scope IN within),
    (SELECT count(*) FROM tombstones WHERE state = 'retired' AND scope IN within),
    (SELECT count(*) FROM tombstones WHERE state = 'forgotten' AND scope IN within),
    (SELECT count(*) FROM aliases WHERE scope IN within),
    (SELECT count(*) FROM entries WHERE superseded_by IS NOT NULL AND scope IN within),
    (SELECT count(*) FROM entries WHERE valid_until <= :now AND scope IN within),
    coalesce(sum(memory_rows), 0), coalesce(sum(user_rows), 0), coalesce(sum(turn_rows), 0), count(DISTINCT folded)
FROM scopes WHERE id IN within

-- name: vector_figures
SELECT m.key, m.dimension, (SELECT count(*) FROM vectors AS v WHERE v.model = m.id) FROM vector_models AS m ORDER BY m.key

-- name: export_entries
SELECT e.id FROM entries AS e JOIN scopes AS s ON s.id = e.scope ORDER BY s.theme, s.subject, e.created_at, e.uid

-- name: export_turns
SELECT t.id FROM turns AS t JOIN scopes AS s ON s.id = t.scope JOIN sessions AS n ON n.id = t.session
ORDER BY s.theme, s.subject, n.session_id, t.position, t.uid

-- name: export_aliases
SELECT a.uid, a.survivor, a.clock, s.theme, s.subject FROM aliases AS a JOIN scopes AS s ON s.id = a.scope ORDER BY a.uid

-- name: export_history
SELECT h.uid, h.action, h.at, h.clock, h.snapshot, s.theme, s.subject FROM history AS h JOIN scopes AS s ON s.id = h.scope WHERE h.snapshot <> '{}'
ORDER BY h.uid, h.clock, h.action

-- name: export_tombstones
SELECT t.uid, s.theme, s.subject, t.kind, t.state, t.visibility, t.at, t.clock, n.session_id, t.role, hex(t.content_hash),
    t.occurrence
FROM tombstones AS t JOIN scopes AS s ON s.id = t.scope LEFT JOIN sessions AS n ON n.id = t.session ORDER BY t.uid

-- name: export_forgotten
SELECT mac, clock, occurrence FROM forgotten WHERE uid = ? ORDER BY mac
