-- name: scopes
SELECT id, theme, subject FROM mnemosyne.scopes WHERE md5(folded) IN (SELECT md5(unnest($1::text[]))) AND folded = ANY($1::text[]) ORDER BY id

-- name: all_scopes
SELECT id, theme, subject FROM mnemosyne.scopes ORDER BY id

-- name: count_old_turns
SELECT (SELECT count(*) FROM mnemosyne.turns WHERE scope = ANY($1::bigint[]) AND created_at < $2),
    (SELECT count(DISTINCT t.uid) FROM mnemosyne.tombstones AS t JOIN mnemosyne.history AS h ON h.scope = t.scope AND h.uid = t.uid
        WHERE t.scope = ANY($1::bigint[]) AND t.state = 'retired' AND t.kind = 'turn' AND h.action = 'retired'
            AND h.snapshot::jsonb ->> 'created_at' < $2)

-- name: old_turns
SELECT created_at, uid FROM mnemosyne.turns
WHERE scope = $1 AND created_at < $2 AND (created_at, uid) > ($3, $4) ORDER BY created_at, uid LIMIT $5

-- name: old_retired_turns
SELECT '', t.uid FROM mnemosyne.tombstones AS t
WHERE t.scope = $1 AND t.state = 'retired' AND t.kind = 'turn' AND ('', t.uid) > ($3, $4) AND EXISTS (
    SELECT 1 FROM mnemosyne.history AS h WHERE h.scope = t.scope AND h.uid = t.uid AND h.action = 'retired'
        AND h.snapshot::jsonb ->> 'created_at' < $2)
ORDER BY t.uid LIMIT $5

-- name: count_rows
SELECT (SELECT count(*) FROM mnemosyne.entries WHERE scope = ANY($1::bigint[])),
    (SELECT count(*) FROM mnemosyne.turns WHERE scope = ANY($1::bigint[])),
    (SELECT count(*) FROM mnemosyne.tombstones WHERE scope = ANY($1::bigint[]) AND state = 'retired' AND kind = 'entry'),
    (SELECT count(*) FROM mnemosyne.tombstones WHERE scope = ANY($1::bigint[]) AND state = 'retired' AND kind = 'turn')

-- name: entries_of
SELECT uid FROM mnemosyne.entries WHERE scope = $1 AND uid > $2 ORDER BY uid LIMIT $3

-- name: turns_of
SELECT uid FROM mnemosyne.turns WHERE scope = $1 AND uid > $2 ORDER BY uid LIMIT $3

-- name: retired_entries_of
SELECT uid FROM mnemosyne.tombstones WHERE scope = $1 AND state = 'retired' AND kind = 'entry' AND uid > $2 ORDER BY uid LIMIT $3

-- name: retired_turns_of
SELECT uid FROM mnemosyne.tombstones WHERE scope = $1 AND state = 'retired' AND kind = 'turn' AND uid > $2 ORDER BY uid LIMIT $3

-- name: personal
SELECT (SELECT count(*) FROM mnemosyne.entries WHERE scope = ANY($1::bigint[]) AND content ~ '(^|[^0-9])[0-9]{10,11}([^0-9]|$)'),
    (SELECT count(*) FROM mnemosyne.turns WHERE scope = ANY($1::bigint[]) AND content ~ '(^|[^0-9])[0-9]{10,11}([^0-9]|$)')

-- name: vectors_by_table
SELECT m.row >> 36 & 3 = 2,
    count(*) FILTER (WHERE m.reason IS NULL OR m.retry_at IS NOT NULL), count(*) FILTER (WHERE m.reason IS NOT NULL AND m.retry_at IS NULL)
FROM mnemosyne.missing_vectors AS m JOIN mnemosyne.vector_models AS v ON v.id = m.model WHERE v.active GROUP BY 1

-- name: unmodelled_by_table
SELECT CASE WHEN EXISTS (SELECT 1 FROM mnemosyne.vector_models WHERE active) THEN 0 ELSE
        coalesce(sum(memory_rows + user_rows), 0) - (SELECT count(*) FROM mnemosyne.vector_exclusions WHERE row >> 36 & 3 <> 2) END::bigint,
    CASE WHEN EXISTS (SELECT 1 FROM mnemosyne.vector_models WHERE active) THEN 0 ELSE
        coalesce(sum(turn_rows), 0) - (SELECT count(*) FROM mnemosyne.vector_exclusions WHERE row >> 36 & 3 = 2) END::bigint
FROM mnemosyne.scopes

-- name: log
INSERT INTO mnemosyne.maintenance_log (operation, target_table, theme_pattern, affected_count, dropped_dupes, dry_run, details)
VALUES ($1, $2, $3, $4, $5, false, $6::text::jsonb)

-- name: agents
SELECT coalesce(a.kind, 'theme'), coalesce(a.theme, s.theme), coalesce(s.memory_rows, 0), coalesce(s.turn_rows, 0)
FROM mnemosyne.agents AS a FULL JOIN (
    SELECT theme, sum(memory_rows + user_rows)::bigint AS memory_rows, sum(turn_rows)::bigint AS turn_rows
    FROM mnemosyne.scopes GROUP BY theme HAVING sum(memory_rows + user_rows + turn_rows) > 0
) AS s ON s.theme = a.theme ORDER BY 2

-- name: forwarded
SELECT count(*) FILTER (WHERE problem IS NULL AND NOT held), count(*) FILTER (WHERE held AND problem IS NULL),
    count(*) FILTER (WHERE problem IS NOT NULL)
FROM mnemosyne.forwarded

-- name: set_dimension
UPDATE mnemosyne.meta AS k SET value = m.dimension::text FROM mnemosyne.vector_models AS m WHERE k.key = 'embed_dim' AND m.active
