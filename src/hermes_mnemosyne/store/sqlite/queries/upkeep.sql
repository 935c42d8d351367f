-- name: meta
SELECT value FROM meta WHERE key = ?

-- name: save_meta
INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: delete_meta
DELETE FROM meta WHERE key = ?

-- name: begin_erasure
INSERT INTO meta SELECT 'erasure_begun', coalesce((SELECT value FROM meta WHERE key = 'erasures_pending'), '0')

-- name: subtract_meta
UPDATE meta SET value = max(0, CAST(value AS INTEGER) - ?) WHERE key = ?

-- name: changes
SELECT total_changes()

-- name: merge
INSERT INTO tokens (tokens, rank) VALUES ('merge', ?)

-- name: old_rows
SELECT rowid FROM tokens WHERE rowid > :after AND version < :version ORDER BY rowid LIMIT :limit

-- name: all_rows
SELECT id FROM (
    SELECT id FROM entries UNION ALL SELECT id FROM turns UNION SELECT rowid FROM tokens UNION SELECT row FROM recent_tokens
)
WHERE id > :after AND :version IS NOT NULL ORDER BY id LIMIT :limit

-- name: uid
SELECT uid FROM entries WHERE id = :row UNION ALL SELECT uid FROM turns WHERE id = :row

-- name: recount
UPDATE scopes SET
    memory_rows = (SELECT count(*) FROM entries AS e WHERE e.scope = scopes.id AND e.target = 'memory'),
    user_rows = (SELECT count(*) FROM entries AS e WHERE e.scope = scopes.id AND e.target = 'user'),
    turn_rows = (SELECT count(*) FROM turns AS t WHERE t.scope = scopes.id)

-- name: look_for_missing_vectors
UPDATE vector_models SET swept = 0

-- name: rows_without_tokens
WITH indexed AS MATERIALIZED (SELECT rowid AS row FROM tokens UNION SELECT row FROM recent_tokens)
SELECT (SELECT count(*) FROM entries WHERE id NOT IN (SELECT row FROM indexed))
    + (SELECT count(*) FROM turns WHERE id NOT IN (SELECT row FROM indexed))

-- name: tokens_without_rows
SELECT count(*) FROM (SELECT rowid AS row FROM tokens UNION ALL SELECT row FROM recent_tokens)
WHERE row NOT IN (SELECT id FROM entries) AND row NOT IN (SELECT id FROM turns)

-- name: wrong_counters
SELECT count(*) FROM scopes WHERE
    memory_rows <> (SELECT count(*) FROM entries AS e WHERE e.scope = scopes.id AND e.target = 'memory')
    OR user_rows <> (SELECT count(*) FROM entries AS e WHERE e.scope = scopes.id AND e.target = 'user')
    OR turn_rows <> (SELECT count(*) FROM turns AS t WHERE t.scope = scopes.id)

-- name: vectors_without_rows
SELECT count(*) FROM (SELECT row FROM vectors UNION SELECT row FROM missing_vectors UNION SELECT row FROM vector_exclusions)
WHERE row NOT IN (SELECT id FROM entries) AND row NOT IN (SELECT id FROM turns)

-- name: check_tokens
INSERT INTO tokens (tokens) VALUES ('integrity-check')

-- name: rebuild_tokens
INSERT INTO tokens (tokens) VALUES ('rebuild')

-- name: prune_ops
DELETE FROM applied_ops WHERE at < ?

-- name: prune_injected
DELETE FROM injected WHERE at < ?

-- name: save_meta_once
INSERT OR IGNORE INTO meta VALUES (?, ?)

-- name: recent
SELECT row, length(body) + length(context) FROM recent_tokens ORDER BY row LIMIT ?

-- name: index_recent
INSERT INTO tokens (rowid, body, context, facets, version)
SELECT row, body, context, facets, version FROM recent_tokens WHERE row <= ? ORDER BY row

-- name: note_missing
INSERT OR IGNORE INTO missing_vectors (model, row)
SELECT m.id, r.row FROM vector_models AS m CROSS JOIN recent_tokens AS r WHERE NOT m.gone AND r.row <= m.swept AND r.row <= ?
    AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.model = m.id AND v.row = r.row)
    AND NOT EXISTS (SELECT 1 FROM vector_exclusions AS x WHERE x.row = r.row)

-- name: delete_recent
DELETE FROM recent_tokens WHERE row <= ?

-- name: stale
SELECT row FROM stale_contexts ORDER BY row LIMIT ?

-- name: delete_stale
DELETE FROM stale_contexts WHERE row = ?
