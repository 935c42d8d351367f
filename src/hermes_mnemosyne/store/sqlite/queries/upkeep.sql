-- name: meta
SELECT value FROM meta WHERE key = ?

-- name: save_meta
INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: delete_meta
DELETE FROM meta WHERE key = ?

-- name: begin_erasure
INSERT INTO meta SELECT 'erasure_begun', value || ' ' || hex(randomblob(8)) FROM meta
WHERE key = 'erasures_pending' AND CAST(value AS INTEGER) > 0

-- name: subtract_meta
UPDATE meta SET value = max(0, CAST(value AS INTEGER) - ?) WHERE key = ?

-- name: changes
SELECT total_changes()

-- name: merge
INSERT INTO tokens (tokens, rank) VALUES ('merge', ?)

-- name: old_rows
SELECT rowid FROM tokens WHERE rowid > :after AND version < :version
UNION SELECT row FROM recent_tokens WHERE row > :after AND version < :version ORDER BY 1 LIMIT :limit

-- name: all_rows
SELECT id FROM entries WHERE id > :after AND :version IS NOT NULL
UNION SELECT id FROM turns WHERE id > :after
UNION SELECT rowid FROM tokens WHERE rowid > :after
UNION SELECT row FROM recent_tokens WHERE row > :after
ORDER BY 1 LIMIT :limit

-- name: uid
SELECT uid FROM entries WHERE id = ?1 UNION ALL SELECT uid FROM turns WHERE id = ?1

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

-- name: rows_indexed_twice
SELECT count(*) FROM recent_tokens AS r WHERE EXISTS (SELECT 1 FROM tokens AS t WHERE t.rowid = r.row)

-- name: index_once
DELETE FROM recent_tokens WHERE row IN (SELECT rowid FROM tokens)

-- name: rows_never_embedded
SELECT count(*) FROM vector_models AS m JOIN (SELECT id FROM entries UNION ALL SELECT id FROM turns) AS r ON r.id <= m.swept
WHERE NOT m.gone AND r.id NOT IN (SELECT row FROM recent_tokens) AND r.id NOT IN (SELECT row FROM vector_exclusions)
    AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.model = m.id AND v.row = r.id)
    AND NOT EXISTS (SELECT 1 FROM missing_vectors AS k WHERE k.model = m.id AND k.row = r.id)

-- name: drop_stray_vectors
DELETE FROM vectors WHERE row NOT IN (SELECT id FROM entries) AND row NOT IN (SELECT id FROM turns)

-- name: drop_stray_missing
DELETE FROM missing_vectors WHERE row NOT IN (SELECT id FROM entries) AND row NOT IN (SELECT id FROM turns)

-- name: drop_stray_exclusions
DELETE FROM vector_exclusions WHERE row NOT IN (SELECT id FROM entries) AND row NOT IN (SELECT id FROM turns)

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

-- name: any_recent
SELECT 1 FROM recent_tokens LIMIT 1

-- name: recent
SELECT row, length(body) + length(context) FROM recent_tokens ORDER BY row LIMIT ?

-- name: recent_within
-- The newest rows of some scopes; see the schema on row numbers.
SELECT row FROM recent_tokens WHERE row >> 38 IN (SELECT value FROM json_each(?1)) ORDER BY row & 68719476735 DESC LIMIT ?2

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
