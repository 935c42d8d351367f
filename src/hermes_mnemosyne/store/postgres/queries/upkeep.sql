-- name: save_meta
INSERT INTO mnemosyne.meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: save_meta_once
INSERT INTO mnemosyne.meta VALUES ($1, $2) ON CONFLICT (key) DO NOTHING

-- name: subtract_meta
UPDATE mnemosyne.meta SET value = greatest(0, value::bigint - $1)::text WHERE key = $2

-- name: old_rows
SELECT row FROM mnemosyne.tokens WHERE row > :after::bigint AND version < :version::integer ORDER BY row LIMIT :limit

-- name: all_rows
SELECT row FROM (
    (SELECT id AS row FROM mnemosyne.entries WHERE id > :after::bigint AND scope >= :after::bigint >> 38 AND :version::integer IS NOT NULL
        ORDER BY scope, id LIMIT :limit)
    UNION (SELECT id FROM mnemosyne.turns WHERE id > :after::bigint AND scope >= :after::bigint >> 38 ORDER BY scope, id LIMIT :limit)
    UNION (SELECT t.row FROM mnemosyne.tokens AS t WHERE t.row > :after::bigint AND t.scope >= :after::bigint >> 38
        ORDER BY t.scope, t.row LIMIT :limit)
) AS r ORDER BY row LIMIT :limit

-- name: uid
SELECT uid FROM mnemosyne.entries WHERE scope = $1::bigint >> 38 AND id = $1
UNION ALL SELECT uid FROM mnemosyne.turns WHERE scope = $1::bigint >> 38 AND id = $1

-- name: stale
SELECT row FROM mnemosyne.stale_contexts ORDER BY row LIMIT $1

-- name: delete_stale
DELETE FROM mnemosyne.stale_contexts WHERE row = $1

-- name: recount
UPDATE mnemosyne.scopes AS s SET
    memory_rows = (SELECT count(*) FROM mnemosyne.entries AS e WHERE e.scope = s.id AND e.target = 'memory'),
    user_rows = (SELECT count(*) FROM mnemosyne.entries AS e WHERE e.scope = s.id AND e.target = 'user'),
    turn_rows = (SELECT count(*) FROM mnemosyne.turns AS t WHERE t.scope = s.id)

-- name: wrong_counters
SELECT count(*) FROM mnemosyne.scopes AS s WHERE
    memory_rows <> (SELECT count(*) FROM mnemosyne.entries AS e WHERE e.scope = s.id AND e.target = 'memory')
    OR user_rows <> (SELECT count(*) FROM mnemosyne.entries AS e WHERE e.scope = s.id AND e.target = 'user')
    OR turn_rows <> (SELECT count(*) FROM mnemosyne.turns AS t WHERE t.scope = s.id)

-- name: rows_without_tokens
SELECT (SELECT count(*) FROM mnemosyne.entries AS e
        WHERE NOT EXISTS (SELECT 1 FROM mnemosyne.tokens AS k WHERE k.scope = e.scope AND k.row = e.id))
    + (SELECT count(*) FROM mnemosyne.turns AS t
        WHERE NOT EXISTS (SELECT 1 FROM mnemosyne.tokens AS k WHERE k.scope = t.scope AND k.row = t.id))

-- name: tokens_without_rows
SELECT count(*) FROM mnemosyne.tokens AS k
WHERE NOT EXISTS (SELECT 1 FROM mnemosyne.entries AS e WHERE e.scope = k.scope AND e.id = k.row)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.turns AS t WHERE t.scope = k.scope AND t.id = k.row)

-- name: vectors_without_rows
SELECT count(*) FROM (
    SELECT row FROM mnemosyne.vectors UNION SELECT row FROM mnemosyne.missing_vectors UNION SELECT row FROM mnemosyne.vector_exclusions
) AS v
WHERE NOT EXISTS (SELECT 1 FROM mnemosyne.entries AS e WHERE e.scope = v.row >> 38 AND e.id = v.row)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.turns AS t WHERE t.scope = v.row >> 38 AND t.id = v.row)

-- name: rows_never_embedded
SELECT count(*) FROM mnemosyne.vector_models AS m CROSS JOIN (
    SELECT scope, id FROM mnemosyne.entries UNION ALL SELECT scope, id FROM mnemosyne.turns
) AS r
WHERE NOT m.gone
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.vectors AS v WHERE v.scope = r.scope AND v.model = m.id AND v.row = r.id)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.missing_vectors AS k WHERE k.model = m.id AND k.row = r.id)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.vector_exclusions AS x WHERE x.row = r.id)

-- name: strays
SELECT (SELECT count(*) FROM mnemosyne.mirrored AS m
        WHERE NOT EXISTS (SELECT 1 FROM mnemosyne.entries AS e WHERE e.scope = m.entry >> 38 AND e.id = m.entry))
    + (SELECT count(*) FROM mnemosyne.turns AS t WHERE NOT EXISTS (SELECT 1 FROM mnemosyne.sessions AS n WHERE n.id = t.session))

-- name: drop_stray_vectors
DELETE FROM mnemosyne.vectors AS v
WHERE NOT EXISTS (SELECT 1 FROM mnemosyne.entries AS e WHERE e.scope = v.scope AND e.id = v.row)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.turns AS t WHERE t.scope = v.scope AND t.id = v.row)

-- name: drop_stray_missing
DELETE FROM mnemosyne.missing_vectors AS v
WHERE NOT EXISTS (SELECT 1 FROM mnemosyne.entries AS e WHERE e.scope = v.row >> 38 AND e.id = v.row)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.turns AS t WHERE t.scope = v.row >> 38 AND t.id = v.row)

-- name: drop_stray_exclusions
DELETE FROM mnemosyne.vector_exclusions AS v
WHERE NOT EXISTS (SELECT 1 FROM mnemosyne.entries AS e WHERE e.scope = v.row >> 38 AND e.id = v.row)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.turns AS t WHERE t.scope = v.row >> 38 AND t.id = v.row)

-- name: look_for_missing_vectors
INSERT INTO mnemosyne.missing_vectors (model, row)
SELECT m.id, r.id FROM mnemosyne.vector_models AS m CROSS JOIN (
    SELECT scope, id FROM mnemosyne.entries UNION ALL SELECT scope, id FROM mnemosyne.turns
) AS r
WHERE NOT m.gone
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.vectors AS v WHERE v.scope = r.scope AND v.model = m.id AND v.row = r.id)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.vector_exclusions AS x WHERE x.row = r.id)
ON CONFLICT DO NOTHING

-- name: prune_ops
DELETE FROM mnemosyne.applied_ops WHERE at < $1

-- name: prune_injected
DELETE FROM mnemosyne.injected WHERE at < $1
