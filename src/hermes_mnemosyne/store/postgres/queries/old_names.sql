-- name: waiting
SELECT EXISTS (SELECT FROM mnemosyne.forwarded WHERE problem IS NULL AND NOT held)

-- name: forwarded
SELECT id, at, relation, action, legacy_id, before, after FROM mnemosyne.forwarded
WHERE problem IS NULL AND held = $1::boolean ORDER BY id LIMIT $2

-- name: still_forwarded
SELECT id FROM mnemosyne.forwarded WHERE id = ANY($1::bigint[]) AND problem IS NULL FOR UPDATE

-- name: applied
DELETE FROM mnemosyne.forwarded WHERE id = ANY($1::bigint[])

-- name: not_applied
UPDATE mnemosyne.forwarded SET problem = $2 WHERE id = $1

-- name: hold
UPDATE mnemosyne.forwarded SET held = true WHERE id = ANY($1::bigint[]) AND NOT held

-- name: earlier_held
SELECT 1 FROM mnemosyne.forwarded WHERE relation = $1 AND legacy_id = $2 AND held AND problem IS NULL AND id < $3 LIMIT 1

-- name: by_our_code
SELECT set_config('mnemosyne.forwarding', 'on', true)

-- name: row_of
SELECT uid FROM mnemosyne.legacy_rows WHERE relation = $1 AND legacy_id = $2

-- name: entry_of
SELECT uid FROM mnemosyne.entries WHERE scope = $1::bigint >> 38 AND id = $1

-- name: turn_of
SELECT uid FROM mnemosyne.turns WHERE scope = $1::bigint >> 38 AND id = $1

-- name: map_row
INSERT INTO mnemosyne.legacy_rows VALUES ($1, $2, $3) ON CONFLICT (relation, legacy_id) DO UPDATE SET uid = excluded.uid

-- name: unmap_row
DELETE FROM mnemosyne.legacy_rows WHERE relation = $1 AND legacy_id = $2

-- name: also_of
SELECT 1 FROM mnemosyne.legacy_rows AS l
WHERE l.relation = $1 AND l.legacy_id <> $2 AND l.uid IN (SELECT $3 UNION ALL SELECT uid FROM mnemosyne.aliases WHERE survivor = $3)
LIMIT 1

-- name: follow_aliases
UPDATE mnemosyne.legacy_rows SET uid = $1 WHERE uid IN (SELECT uid FROM mnemosyne.aliases WHERE survivor = $1)

-- name: copies_of_turn
SELECT count(*) FROM mnemosyne.turns AS t JOIN mnemosyne.legacy_rows AS l ON l.uid = t.uid AND l.relation = 'conversations'
WHERE t.scope = $1 AND t.session = $2 AND t.role = $3 AND t.content_hash = $4

-- name: drop_old_row
SELECT mnemosyne.drop_old_row($1, $2)

-- name: change_old_row
SELECT mnemosyne.change_old_row($1, $2, $3::text::timestamptz)

-- name: problems
SELECT count(*) FILTER (WHERE held), count(*) FILTER (WHERE problem IS NOT NULL), count(*) FROM mnemosyne.forwarded

-- name: save_cursor
INSERT INTO mnemosyne.meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: cursor
SELECT value FROM mnemosyne.meta WHERE key = $1

-- name: job
SELECT state FROM mnemosyne.migrations WHERE number = $1

-- name: set_job
SELECT mnemosyne.note_job($1::integer, $2, $3, $4)

-- name: to_be_copied
SELECT count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE starts_with(state, 'held'))
FROM mnemosyne.migrations AS m JOIN unnest($1::integer[], $2::text[]) AS j (number, relation) ON j.number = m.number
WHERE has_table_privilege(mnemosyne.old_table(j.relation), 'SELECT')

-- name: columns
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped AND attname <> 'embedding' ORDER BY attnum

-- name: legacy_schema
SELECT value FROM mnemosyne.meta WHERE key = 'legacy_schema'

-- name: hash_of
SELECT content_hash FROM mnemosyne.entries WHERE uid IN (SELECT $1 UNION ALL SELECT survivor FROM mnemosyne.aliases WHERE uid = $1)
UNION ALL
SELECT content_hash FROM mnemosyne.turns WHERE uid IN (SELECT $1 UNION ALL SELECT survivor FROM mnemosyne.aliases WHERE uid = $1)

-- name: number_new_rows
SELECT setval('mnemosyne.legacy_ids', greatest((SELECT coalesce(max(legacy_id), 0) + 1 FROM mnemosyne.legacy_rows WHERE legacy_id < $1),
    nextval('mnemosyne.legacy_ids')), false)

-- name: newer_entries
SELECT e.id, e.uid, s.theme, e.target, e.content, e.created_at, e.updated_at, e.metadata, l.legacy_id
FROM mnemosyne.entries AS e JOIN mnemosyne.scopes AS s ON s.id = e.scope
LEFT JOIN mnemosyne.legacy_rows AS l ON l.uid = e.uid AND l.relation = 'memory_entries'
WHERE s.subject = '' AND e.id > $1 ORDER BY e.id LIMIT $2

-- name: newer_turns
SELECT t.id, t.uid, s.theme, t.role, t.content, t.created_at, n.session_id, t.metadata, l.legacy_id, t.parent_session_id
FROM mnemosyne.turns AS t JOIN mnemosyne.scopes AS s ON s.id = t.scope JOIN mnemosyne.sessions AS n ON n.id = t.session
LEFT JOIN mnemosyne.legacy_rows AS l ON l.uid = t.uid AND l.relation = 'conversations'
WHERE s.subject = '' AND t.id > $1 ORDER BY t.id LIMIT $2

-- name: of_contacts
SELECT coalesce(sum(memory_rows + user_rows + turn_rows), 0)::bigint FROM mnemosyne.scopes WHERE subject <> ''

-- name: vector_of
SELECT coalesce(v.embedding, v.half::vector)::text FROM mnemosyne.vectors AS v JOIN mnemosyne.vector_models AS m ON m.id = v.model
WHERE v.scope = $1::bigint >> 38 AND v.row = $1 AND m.active AND m.dimension = $2

-- name: map_rows
INSERT INTO mnemosyne.legacy_rows SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[])
ON CONFLICT (relation, legacy_id) DO UPDATE SET uid = excluded.uid

-- name: known_texts
SELECT e.scope, e.target, e.content_hash
FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS w (scope, target, digest)
JOIN mnemosyne.entries AS e ON e.scope = w.scope AND e.target = w.target AND e.content_hash = w.digest

-- name: last_turns
SELECT w.session, t.id, t.position
FROM unnest($1::bigint[]) AS w (session)
CROSS JOIN LATERAL (
    SELECT t.id, t.position FROM mnemosyne.turns AS t WHERE t.session = w.session ORDER BY t.position DESC, t.uid DESC LIMIT 1
) AS t

-- name: known_turns
SELECT t.session, t.role, t.content_hash, count(DISTINCT t.id)
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[]) AS w (scope, session, role, digest)
JOIN mnemosyne.turns AS t ON t.scope = w.scope AND t.session = w.session AND t.role = w.role AND t.content_hash = w.digest
GROUP BY t.session, t.role, t.content_hash
