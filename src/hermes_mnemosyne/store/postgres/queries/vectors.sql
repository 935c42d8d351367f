-- name: models
SELECT key, name, dimension, probes, floor, active FROM mnemosyne.vector_models WHERE NOT gone ORDER BY active DESC, id

-- name: model
SELECT id, dimension, gone FROM mnemosyne.vector_models WHERE key = $1

-- name: save_model
INSERT INTO mnemosyne.vector_models AS m (key, name, dimension, probes, floor, active)
VALUES (:key, :name, :dimension::integer, :probes::bytea, :floor::double precision,
    :active::boolean AND NOT EXISTS (SELECT 1 FROM mnemosyne.vector_models WHERE active))
ON CONFLICT (key) DO UPDATE SET name = excluded.name, probes = excluded.probes, floor = excluded.floor,
    active = m.active OR excluded.active, gone = false
RETURNING id

-- name: insert_model
INSERT INTO mnemosyne.vector_models (key, name, dimension) VALUES ($1, $1, $2) ON CONFLICT (key) DO NOTHING RETURNING id

-- name: retire_others
UPDATE mnemosyne.vector_models SET active = false, gone = true WHERE id <> $1

-- name: activate
UPDATE mnemosyne.vector_models SET active = true, gone = false WHERE id = $1

-- name: note_all_missing
INSERT INTO mnemosyne.missing_vectors (model, row)
SELECT :model::integer, r.id
FROM (SELECT scope, id FROM mnemosyne.entries UNION ALL SELECT scope, id FROM mnemosyne.turns) AS r
WHERE NOT EXISTS (SELECT 1 FROM mnemosyne.vectors AS v WHERE v.scope = r.scope AND v.model = :model::integer AND v.row = r.id)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.vector_exclusions AS x WHERE x.row = r.id)
ON CONFLICT DO NOTHING

-- name: texts
SELECT e.id, 'entry', left(e.content, $2::integer), length(e.content), '', '', NULL::text, e.visibility = 'local'
FROM unnest($1::bigint[]) AS r (row) JOIN mnemosyne.entries AS e ON e.scope = r.row >> 38 AND e.id = r.row
UNION ALL
SELECT t.id, 'turn', left(t.content, $2::integer), length(t.content), t.role, t.speaker, t.occurred_at, t.visibility = 'local'
FROM unnest($1::bigint[]) AS r (row) JOIN mnemosyne.turns AS t ON t.scope = r.row >> 38 AND t.id = r.row

-- name: keep_model
SELECT id FROM mnemosyne.vector_models WHERE id = $1 FOR KEY SHARE

-- name: take_model
SELECT id FROM mnemosyne.vector_models WHERE id = $1 FOR UPDATE

-- name: hold_entries
SELECT e.id FROM mnemosyne.entries AS e
WHERE e.id = ANY($1::bigint[]) AND e.scope IN (SELECT r.row >> 38 FROM unnest($1::bigint[]) AS r (row)) FOR SHARE OF e SKIP LOCKED

-- name: hold_turns
SELECT t.id FROM mnemosyne.turns AS t
WHERE t.id = ANY($1::bigint[]) AND t.scope IN (SELECT r.row >> 38 FROM unnest($1::bigint[]) AS r (row)) FOR SHARE OF t SKIP LOCKED

-- name: live
SELECT e.id FROM unnest($1::bigint[]) AS r (row) JOIN mnemosyne.entries AS e ON e.scope = r.row >> 38 AND e.id = r.row
UNION ALL
SELECT t.id FROM unnest($1::bigint[]) AS r (row) JOIN mnemosyne.turns AS t ON t.scope = r.row >> 38 AND t.id = r.row

-- Rows that had been left out are from now on missing in other models.
-- name: attach
WITH stored AS (
    INSERT INTO mnemosyne.vectors (scope, row, model, cut, {column})
    SELECT g.row >> 38, g.row, $1, g.cut, g.vector FROM unnest($2::bigint[], $3::boolean[], $4::{type}[]) AS g (row, cut, vector)
    ON CONFLICT (scope, model, row) DO UPDATE SET cut = excluded.cut, {column} = excluded.{column}
), found AS (
    DELETE FROM mnemosyne.missing_vectors WHERE model = $1 AND row = ANY($2::bigint[])
), taken_in AS (
    DELETE FROM mnemosyne.vector_exclusions WHERE row = ANY($2::bigint[]) RETURNING row
)
INSERT INTO mnemosyne.missing_vectors (model, row)
SELECT m.id, x.row FROM taken_in AS x CROSS JOIN mnemosyne.vector_models AS m
WHERE m.id <> $1 AND NOT m.gone
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.vectors AS v WHERE v.scope = x.row >> 38 AND v.model = m.id AND v.row = x.row)
ON CONFLICT DO NOTHING

-- name: missing
SELECT row FROM mnemosyne.missing_vectors WHERE model = :model::integer AND row > :after::bigint
    AND (reason IS NULL OR (retry_at IS NOT NULL AND (:now::text IS NULL OR retry_at <= :now::text)))
ORDER BY row LIMIT :limit::bigint

-- name: missing_in_unknown
SELECT id FROM (
    (SELECT e.id FROM mnemosyne.entries AS e WHERE (e.scope, e.id) > (:after::bigint >> 38, :after::bigint)
        AND NOT EXISTS (SELECT 1 FROM mnemosyne.vector_exclusions AS x WHERE x.row = e.id)
        ORDER BY e.scope, e.id LIMIT :limit::bigint)
    UNION ALL
    (SELECT t.id FROM mnemosyne.turns AS t WHERE (t.scope, t.id) > (:after::bigint >> 38, :after::bigint)
        AND NOT EXISTS (SELECT 1 FROM mnemosyne.vector_exclusions AS x WHERE x.row = t.id)
        ORDER BY t.scope, t.id LIMIT :limit::bigint)
) AS r ORDER BY id LIMIT :limit::bigint

-- name: note_failures
INSERT INTO mnemosyne.missing_vectors (model, row, reason, retry_at)
SELECT $1, f.row, f.reason, f.retry_at FROM unnest($2::bigint[], $3::text[], $4::text[]) AS f (row, reason, retry_at)
WHERE (EXISTS (SELECT 1 FROM mnemosyne.entries AS e WHERE e.scope = f.row >> 38 AND e.id = f.row)
        OR EXISTS (SELECT 1 FROM mnemosyne.turns AS t WHERE t.scope = f.row >> 38 AND t.id = f.row))
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.vectors AS v WHERE v.scope = f.row >> 38 AND v.model = $1 AND v.row = f.row)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.vector_exclusions AS x WHERE x.row = f.row)
ON CONFLICT (model, row) DO UPDATE SET reason = excluded.reason, retry_at = excluded.retry_at

-- What somebody else has given a vector to meanwhile did not fail.
-- name: drop_settled
DELETE FROM mnemosyne.missing_vectors AS k WHERE k.model = $1 AND k.row = ANY($2::bigint[])
    AND EXISTS (SELECT 1 FROM mnemosyne.vectors AS v WHERE v.scope = k.row >> 38 AND v.model = k.model AND v.row = k.row)

-- name: clear_failures
UPDATE mnemosyne.missing_vectors SET reason = NULL, retry_at = NULL WHERE model = $1 AND reason IS NOT NULL

-- name: exclude
WITH left_out AS (
    INSERT INTO mnemosyne.vector_exclusions
    SELECT r.row FROM unnest($1::bigint[]) AS r (row)
    WHERE (EXISTS (SELECT 1 FROM mnemosyne.entries AS e WHERE e.scope = r.row >> 38 AND e.id = r.row)
            OR EXISTS (SELECT 1 FROM mnemosyne.turns AS t WHERE t.scope = r.row >> 38 AND t.id = r.row))
        AND (NOT EXISTS (SELECT 1 FROM mnemosyne.vector_models WHERE NOT gone) OR EXISTS (
            SELECT 1 FROM mnemosyne.vector_models AS m WHERE NOT m.gone AND NOT EXISTS (
                SELECT 1 FROM mnemosyne.vectors AS v WHERE v.scope = r.row >> 38 AND v.model = m.id AND v.row = r.row)))
    ON CONFLICT DO NOTHING RETURNING row
), settled AS (
    DELETE FROM mnemosyne.missing_vectors AS k USING left_out AS l CROSS JOIN mnemosyne.vector_models AS m
    WHERE k.model = m.id AND k.row = l.row
)
SELECT count(*) FROM left_out

-- name: include
WITH taken_in AS (
    DELETE FROM mnemosyne.vector_exclusions
    WHERE row IN (SELECT row FROM mnemosyne.vector_exclusions ORDER BY row LIMIT $1) RETURNING row
), noted AS (
    INSERT INTO mnemosyne.missing_vectors (model, row)
    SELECT m.id, x.row FROM taken_in AS x CROSS JOIN mnemosyne.vector_models AS m
    WHERE NOT m.gone
        AND NOT EXISTS (SELECT 1 FROM mnemosyne.vectors AS v WHERE v.scope = x.row >> 38 AND v.model = m.id AND v.row = x.row)
    ON CONFLICT DO NOTHING
)
SELECT count(*) FROM taken_in

-- name: counts
SELECT
    (SELECT coalesce(sum(memory_rows + user_rows + turn_rows), 0)::bigint FROM mnemosyne.scopes),
    (SELECT count(*) FROM mnemosyne.vectors WHERE model = $1),
    (SELECT count(*) FROM mnemosyne.vectors WHERE model = $1 AND cut),
    (SELECT count(*) FROM mnemosyne.vector_exclusions AS x WHERE NOT EXISTS (
        SELECT 1 FROM mnemosyne.vectors AS v WHERE v.scope = x.row >> 38 AND v.model = $1 AND v.row = x.row)),
    (SELECT count(*) FROM mnemosyne.missing_vectors WHERE model = $1 AND reason IS NOT NULL AND retry_at IS NULL),
    (SELECT count(*) FROM mnemosyne.missing_vectors WHERE model = $1 AND reason IS NOT NULL AND retry_at IS NOT NULL)

-- name: total
SELECT coalesce(sum(memory_rows + user_rows + turn_rows), 0)::bigint FROM mnemosyne.scopes

-- name: gone
SELECT id FROM mnemosyne.vector_models WHERE gone ORDER BY id LIMIT 1

-- Plans must not depend on statistics here: they know nothing of a model yet that was filled a minute ago. Hence ranges, not joins.
-- name: first_vector
SELECT v.row FROM mnemosyne.scopes AS s CROSS JOIN LATERAL (
    SELECT row FROM mnemosyne.vectors WHERE scope = s.id AND model = :model::integer AND row > :after::bigint ORDER BY row LIMIT 1
) AS v WHERE s.id >= :after::bigint >> 38 ORDER BY s.id LIMIT 1

-- name: delete_some_vectors
DELETE FROM mnemosyne.vectors WHERE scope = :first::bigint >> 38 AND model = :model::integer AND row >= :first::bigint AND row <= (
    SELECT max(row) FROM (
        SELECT row FROM mnemosyne.vectors WHERE scope = :first::bigint >> 38 AND model = :model::integer AND row >= :first::bigint
        ORDER BY row LIMIT :limit::bigint) AS r)
RETURNING row

-- name: delete_some_missing
DELETE FROM mnemosyne.missing_vectors WHERE model = :model::integer AND row > :after::bigint AND row <= (
    SELECT max(row) FROM (
        SELECT row FROM mnemosyne.missing_vectors WHERE model = :model::integer AND row > :after::bigint
        ORDER BY row LIMIT :limit::bigint) AS r)
RETURNING row

-- name: delete_model
DELETE FROM mnemosyne.vector_models WHERE id = $1 AND gone

-- name: cosines
SELECT v.row, v.cosine FROM unnest($3::bigint[]) AS r (row) CROSS JOIN LATERAL (
    SELECT v.row, 1 - (v.{column} <=> $2) AS cosine FROM mnemosyne.vectors AS v
    WHERE v.scope = r.row >> 38 AND v.model = $1 AND v.row = r.row OFFSET 0
) AS v

-- All rows within reach, the nearest first; conditions that need a look at the row are asked for as many as it takes.
-- name: nearest_of_all
SELECT v.row, v.distance FROM (
    SELECT v.scope, v.row, v.{column} <=> :vector AS distance FROM mnemosyne.vectors AS v
    WHERE v.model = :model::integer AND (:scopes::bigint[] IS NULL OR v.scope = ANY(:scopes::bigint[]))
        AND (v.row >> 36 & 3) = ANY(:shelves::bigint[]) AND v.row <> ALL(:excluded::bigint[]) ORDER BY distance, v.row OFFSET 0
) AS v
WHERE CASE WHEN v.row >> 36 & 3 = 2
    THEN :plain_turns::boolean OR (SELECT true FROM mnemosyne.turns AS t JOIN mnemosyne.sessions AS n ON n.id = t.session
        WHERE t.scope = v.scope AND t.id = v.row AND @turn_passes)
    ELSE :plain_entries::boolean OR (SELECT true FROM mnemosyne.entries AS e
        WHERE e.scope = v.scope AND e.id = v.row AND @entry_passes) END ORDER BY v.distance, v.row LIMIT :limit::bigint

-- The rows that pass, unless they are as many as `cap`; always with their number.
-- name: nearest_of_chosen
WITH chosen AS MATERIALIZED (
    SELECT e.scope, e.id FROM mnemosyne.entries AS e
    WHERE (:scopes::bigint[] IS NULL OR e.scope = ANY(:scopes::bigint[])) AND e.target = ANY(:targets::text[])
        AND e.id <> ALL(:excluded::bigint[]) AND @entry_passes
    UNION ALL
    SELECT t.scope, t.id FROM mnemosyne.turns AS t JOIN mnemosyne.sessions AS n ON n.id = t.session
    WHERE :turns::boolean AND (:scopes::bigint[] IS NULL OR t.scope = ANY(:scopes::bigint[]))
        AND t.id <> ALL(:excluded::bigint[]) AND @turn_passes
    LIMIT :cap::bigint
)
SELECT c.count, r.row, r.distance FROM (SELECT count(*) AS count FROM chosen) AS c
LEFT JOIN LATERAL (
    SELECT v.row, v.distance FROM chosen CROSS JOIN LATERAL (
        SELECT v.row, v.{column} <=> :vector AS distance FROM mnemosyne.vectors AS v
        WHERE v.scope = chosen.scope AND v.model = :model::integer AND v.row = chosen.id OFFSET 0
    ) AS v
    WHERE c.count < :cap::bigint ORDER BY v.distance, v.row LIMIT :limit::bigint
) AS r ON true

-- Model, scope and dimension are spelled out, as in the predicate of the index.
-- name: nearest_by_index
SELECT v.row, v.{column} <=> :vector AS distance FROM mnemosyne.vectors AS v
WHERE v.model = {model} AND {in_scope} AND (:scopes::bigint[] IS NULL OR v.scope = ANY(:scopes::bigint[]))
        AND (v.row >> 36 & 3) = ANY(:shelves::bigint[]) AND v.row <> ALL(:excluded::bigint[]) AND CASE WHEN v.row >> 36 & 3 = 2
    THEN :plain_turns::boolean OR (SELECT true FROM mnemosyne.turns AS t JOIN mnemosyne.sessions AS n ON n.id = t.session
        WHERE t.scope = v.scope AND t.id = v.row AND @turn_passes)
    ELSE :plain_entries::boolean OR (SELECT true FROM mnemosyne.entries AS e
        WHERE e.scope = v.scope AND e.id = v.row AND @entry_passes) END
ORDER BY v.{column}::halfvec({dimension}) <=> :vector::halfvec({dimension}) LIMIT :limit::bigint

-- name: begin_with_index
SELECT set_config('enable_sort', 'off', true), set_config('hnsw.ef_search', $1::text, true)

-- name: go_on_with_index
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.max_scan_tuples', $1::text, true),
    set_config('hnsw.scan_mem_multiplier', '4', true)

-- name: indexes
SELECT c.relname, i.indisvalid FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'mnemosyne' AND starts_with(c.relname, 'hnsw_')

-- name: leaves
SELECT c.relname, coalesce(substring(c.relname FROM '_p(\d+)$'), '') FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'mnemosyne' AND c.relkind = 'r' AND c.relname ~ '^vectors(_p\d+)?$' ORDER BY c.oid

-- name: extension
SELECT n.nspname, x.extversion FROM pg_catalog.pg_extension AS x JOIN pg_catalog.pg_namespace AS n ON n.oid = x.extnamespace
WHERE x.extname = 'vector'

-- name: sizes
SELECT m.id, m.key, m.dimension, v.scope, s.theme, v.count
FROM (SELECT model, scope, count(*) AS count FROM mnemosyne.vectors GROUP BY model, scope) AS v
JOIN mnemosyne.vector_models AS m ON m.id = v.model JOIN mnemosyne.scopes AS s ON s.id = v.scope
WHERE NOT m.gone ORDER BY m.id, v.count DESC, v.scope

-- name: leaf_of_scope
SELECT c.relname FROM pg_catalog.pg_class AS c WHERE c.oid = (
    SELECT v.tableoid FROM mnemosyne.vectors AS v WHERE v.model = {model} AND v.scope = {scope} LIMIT 1)

-- name: create_index
CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table}
USING hnsw (({column}::{extension}.halfvec({dimension})) {extension}.halfvec_cosine_ops) WITH (m = 16, ef_construction = 64)
WHERE model = {model} AND {in_scope}
