-- name: models
SELECT key, name, dimension, probes, floor, active FROM vector_models WHERE NOT gone ORDER BY active DESC, id

-- name: model
SELECT id, dimension, swept FROM vector_models WHERE key = ?

-- name: save_model
INSERT INTO vector_models (key, name, dimension, probes, floor, active)
VALUES (:key, :name, :dimension, :probes, :floor, :active AND NOT EXISTS (SELECT 1 FROM vector_models WHERE active))
ON CONFLICT (key) DO UPDATE SET name = excluded.name, probes = excluded.probes, floor = excluded.floor,
    active = max(active, excluded.active), swept = CASE WHEN gone THEN 0 ELSE swept END, gone = 0

-- name: insert_model
INSERT OR IGNORE INTO vector_models (key, name, dimension) VALUES (?1, ?1, ?2)

-- name: retire_others
UPDATE vector_models SET active = 0, gone = 1 WHERE id <> ?

-- name: activate
UPDATE vector_models SET active = 1, gone = 0 WHERE id = ?

-- name: is_live
SELECT EXISTS (SELECT 1 FROM entries WHERE id = ?1) OR EXISTS (SELECT 1 FROM turns WHERE id = ?1)

-- name: attach
INSERT OR REPLACE INTO vectors (model, row, cut, sketch, vector) VALUES (?, ?, ?, ?, ?)

-- name: found
DELETE FROM missing_vectors WHERE model = ? AND row = ?

-- name: not_excluded
DELETE FROM vector_exclusions WHERE row = ?

-- name: missing
SELECT row FROM missing_vectors WHERE model = :model AND row > :after
    AND (reason IS NULL OR (retry_at IS NOT NULL AND (:now IS NULL OR retry_at <= :now)))
ORDER BY row LIMIT :limit

-- name: missing_recent
SELECT r.row FROM recent_tokens AS r WHERE r.row > :after AND r.row <= :swept AND (@lacks(r.row))
ORDER BY r.row LIMIT :limit

-- name: missing_entries
SELECT e.id FROM entries AS e WHERE e.id > :unswept AND (@lacks(e.id)) ORDER BY e.id LIMIT :limit

-- name: missing_turns
SELECT t.id FROM turns AS t WHERE t.id > :unswept AND (@lacks(t.id)) ORDER BY t.id LIMIT :limit

-- name: texts
SELECT e.id, 'entry', substr(e.content, 1, ?2), length(e.content), '', '', NULL, e.visibility = 'local' FROM json_each(?1) AS j JOIN entries AS e ON e.id = j.value
UNION ALL
SELECT t.id, 'turn', substr(t.content, 1, ?2), length(t.content), t.role, t.speaker, t.occurred_at, t.visibility = 'local'
FROM json_each(?1) AS j JOIN turns AS t ON t.id = j.value

-- name: save_swept
UPDATE vector_models SET swept = ? WHERE id = ?

-- name: unswept
SELECT id, swept FROM vector_models WHERE NOT gone AND swept < 9223372036854775807

-- name: note_failure
INSERT INTO missing_vectors (model, row, reason, retry_at)
SELECT :model, :row, :reason, :retry_at WHERE
    NOT EXISTS (SELECT 1 FROM vectors WHERE model = :model AND row = :row)
    AND NOT EXISTS (SELECT 1 FROM vector_exclusions WHERE row = :row)
ON CONFLICT (model, row) DO UPDATE SET reason = excluded.reason, retry_at = excluded.retry_at

-- name: clear_failures
UPDATE missing_vectors SET reason = NULL, retry_at = NULL WHERE model = ? AND reason IS NOT NULL

-- name: exclude
INSERT OR IGNORE INTO vector_exclusions
SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM vector_models WHERE NOT gone) OR EXISTS (
    SELECT 1 FROM vector_models AS m
    WHERE NOT m.gone AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.model = m.id AND v.row = ?1))

-- name: forget_missing
DELETE FROM missing_vectors WHERE row = ?1 AND model IN (SELECT id FROM vector_models)

-- name: excluded
SELECT row FROM vector_exclusions ORDER BY row LIMIT ?

-- name: include
INSERT OR IGNORE INTO missing_vectors (model, row)
SELECT m.id, ?1 FROM vector_models AS m WHERE NOT m.gone AND ?1 <= m.swept
    AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.model = m.id AND v.row = ?1)

-- name: counts
SELECT
    (SELECT coalesce(sum(memory_rows + user_rows + turn_rows), 0) FROM scopes),
    (SELECT count(*) FROM vectors WHERE model = ?1),
    (SELECT count(*) FROM vectors WHERE model = ?1 AND cut),
    (SELECT count(*) FROM vector_exclusions AS x
        WHERE NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.model = ?1 AND v.row = x.row)),
    (SELECT count(*) FROM missing_vectors WHERE model = ?1 AND reason IS NOT NULL AND retry_at IS NULL),
    (SELECT count(*) FROM missing_vectors WHERE model = ?1 AND reason IS NOT NULL AND retry_at IS NOT NULL)

-- name: sketches
SELECT row, stamp, sketch FROM vectors WHERE model = ? AND stamp > ? ORDER BY stamp

-- name: vectors
SELECT row, stamp, vector FROM vectors WHERE model = ? AND stamp > ? ORDER BY stamp

-- name: last_stamp
SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'vectors'

-- name: count
SELECT count(*) FROM vectors WHERE model = ?

-- name: by_stamp
SELECT v.stamp, v.row, v.vector FROM json_each(?) AS j CROSS JOIN vectors AS v ON v.stamp = j.value

-- name: passing
SELECT j.value FROM json_each(:rows) AS j WHERE (@passes(j.value))

-- name: by_row
SELECT v.row, v.vector FROM json_each(?2) AS j CROSS JOIN vectors AS v ON v.model = ?1 AND v.row = j.value

-- name: passing_entries
SELECT e.id FROM entries AS e WHERE e.id BETWEEN :low AND :high AND @entry_passes

-- name: passing_turns
SELECT t.id FROM turns AS t JOIN sessions AS n ON n.id = t.session WHERE t.id BETWEEN :low AND :high AND @turn_passes

-- name: hidden_entries
SELECT id FROM entries WHERE valid_until IS NOT NULL AND valid_until <= :now
UNION ALL SELECT id FROM entries WHERE NOT :superseded AND superseded_by IS NOT NULL

-- name: session_rows
SELECT rowid FROM tokens WHERE tokens MATCH ?1
UNION ALL SELECT r.row FROM recent_tokens AS r WHERE EXISTS (
    SELECT 1 FROM json_each(?2) AS j WHERE instr(' ' || r.facets || ' ', ' ' || j.value || ' '))

-- name: turns_of_session
SELECT t.id FROM json_each(?) AS j CROSS JOIN turns AS t ON t.session = j.value

-- name: gone
SELECT id FROM vector_models WHERE gone ORDER BY id LIMIT 1

-- name: delete_some_vectors
DELETE FROM vectors WHERE stamp IN (SELECT stamp FROM vectors WHERE model = ? LIMIT ?)

-- name: delete_some_missing
DELETE FROM missing_vectors WHERE (model, row) IN (SELECT model, row FROM missing_vectors WHERE model = ? LIMIT ?)

-- name: delete_model
DELETE FROM vector_models WHERE id = ? AND gone
