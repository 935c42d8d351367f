-- Rows of one scope ($1) become rows of another ($2). The lower 38 bits of a row number, shelf and change number, stay: no other row
-- of the store has them. `$3` is the last change number given out before, `$4` and `$5` are sessions that both scopes have.

-- name: counts
SELECT (SELECT count(*) FROM mnemosyne.entries AS o WHERE o.scope = $1),
    (SELECT count(*) FROM mnemosyne.entries AS o JOIN mnemosyne.entries AS n
        ON n.scope = $2 AND n.target = o.target AND n.content_hash = o.content_hash WHERE o.scope = $1),
    (SELECT count(*) FROM mnemosyne.turns AS o WHERE o.scope = $1),
    (SELECT count(*) FROM mnemosyne.tombstones AS o WHERE o.scope = $1)

-- name: twins
SELECT o.uid, n.uid FROM mnemosyne.entries AS o JOIN mnemosyne.entries AS n
    ON n.scope = $2 AND n.target = o.target AND n.content_hash = o.content_hash
WHERE o.scope = $1 ORDER BY o.id

-- name: scope
SELECT id FROM mnemosyne.scopes WHERE md5(theme) = md5($1) AND md5(subject) = md5($2) AND theme = $1 AND subject = $2

-- name: copying
SELECT EXISTS (SELECT 1 FROM mnemosyne.migrations WHERE number IN (9001, 9002) AND state NOT IN ('done', 'finished'))

-- name: unmap_old_row
DELETE FROM mnemosyne.legacy_rows WHERE uid = $1

-- name: keep_numbers
INSERT INTO mnemosyne.legacy_rows
SELECT DISTINCT f.relation, f.legacy_id, coalesce(e.uid, t.uid) FROM mnemosyne.forwarded AS f
LEFT JOIN mnemosyne.entries AS e ON f.relation = 'memory_entries' AND e.scope = f.legacy_id >> 38 AND e.id = f.legacy_id
LEFT JOIN mnemosyne.turns AS t ON f.relation = 'conversations' AND t.scope = f.legacy_id >> 38 AND t.id = f.legacy_id
WHERE f.problem IS NULL AND f.legacy_id >> 38 = $1 AND coalesce(e.uid, t.uid) IS NOT NULL
ON CONFLICT DO NOTHING

-- name: same_sessions
SELECT o.id, n.id FROM mnemosyne.sessions AS o JOIN mnemosyne.sessions AS n
    ON n.scope = $2 AND md5(n.session_id) = md5(o.session_id) AND n.session_id = o.session_id
WHERE o.scope = $1 ORDER BY o.id

-- name: move_entries
UPDATE mnemosyne.entries AS e SET scope = $2, id = (e.id & (1::bigint << 38) - 1) | ($2::bigint << 38), seq = $3 + o.place
FROM (SELECT id, row_number() OVER (ORDER BY id) AS place FROM mnemosyne.entries WHERE scope = $1) AS o
WHERE e.scope = $1 AND e.id = o.id

-- name: move_mirrored
UPDATE mnemosyne.mirrored SET entry = (entry & (1::bigint << 38) - 1) | ($2::bigint << 38)
WHERE entry BETWEEN $1::bigint << 38 AND ($1::bigint + 1 << 38) - 1

-- name: move_turns
-- Of a session that both have, a turn that says the same again is a further occurrence of it.
UPDATE mnemosyne.turns AS t SET scope = $2, id = (t.id & (1::bigint << 38) - 1) | ($2::bigint << 38), seq = $3 + o.place,
    session = coalesce(o.session, t.session),
    occurrence = t.occurrence + CASE WHEN o.session IS NULL THEN 0 ELSE greatest(
        (SELECT coalesce(max(n.occurrence), 0) FROM mnemosyne.turns AS n WHERE n.scope = $2 AND n.session = o.session
            AND n.role = t.role AND n.content_hash = t.content_hash),
        (SELECT coalesce(max(g.occurrence), 0) FROM mnemosyne.tombstones AS g
            WHERE g.session = o.session AND g.role = t.role AND g.content_hash = t.content_hash)
    ) END
FROM (
    SELECT r.id, row_number() OVER (ORDER BY r.id) AS place, m.new AS session FROM mnemosyne.turns AS r
    LEFT JOIN unnest($4::bigint[], $5::bigint[]) AS m (old, new) ON m.old = r.session WHERE r.scope = $1
) AS o
WHERE t.scope = $1 AND t.id = o.id

-- name: place_turns
-- The turns of a session that both had stand in the order of their times, those of each in the order they had.
UPDATE mnemosyne.turns AS t SET position = o.place, seq = $3 + o.number FROM (
    SELECT p.id, p.place, row_number() OVER (ORDER BY p.id) AS number FROM (
        SELECT k.id, k.position, row_number() OVER (PARTITION BY k.session ORDER BY k.since, k.moved DESC, k.position, k.uid) AS place
        FROM (
            SELECT id, uid, session, position, seq > $1 AS moved,
                max(created_at) OVER (PARTITION BY session, seq > $1 ORDER BY position, uid) AS since
            FROM mnemosyne.turns WHERE scope = $2 AND session = ANY($4::bigint[])
        ) AS k
    ) AS p WHERE p.place <> p.position
) AS o
WHERE t.scope = $2 AND t.id = o.id

-- name: renew_contexts
INSERT INTO mnemosyne.stale_contexts SELECT id FROM mnemosyne.turns WHERE scope = $1 AND session = ANY($2::bigint[])
ON CONFLICT DO NOTHING

-- name: move_stale
UPDATE mnemosyne.stale_contexts SET row = (row & (1::bigint << 38) - 1) | ($2::bigint << 38)
WHERE row BETWEEN $1::bigint << 38 AND ($1::bigint + 1 << 38) - 1

-- name: move_graves
UPDATE mnemosyne.tombstones AS t SET scope = $2, seq = $3 + o.place, session = coalesce(o.session, t.session),
    occurrence = t.occurrence + CASE WHEN o.session IS NULL THEN 0 ELSE greatest(
        (SELECT coalesce(max(n.occurrence), 0) FROM mnemosyne.turns AS n WHERE n.scope = $2 AND n.session = o.session
            AND n.role = t.role AND n.content_hash = t.content_hash),
        (SELECT coalesce(max(g.occurrence), 0) FROM mnemosyne.tombstones AS g
            WHERE g.session = o.session AND g.role = t.role AND g.content_hash = t.content_hash)
    ) END
FROM (
    SELECT r.uid, row_number() OVER (ORDER BY r.uid) AS place, m.new AS session FROM mnemosyne.tombstones AS r
    LEFT JOIN unnest($4::bigint[], $5::bigint[]) AS m (old, new) ON m.old = r.session WHERE r.scope = $1
) AS o
WHERE t.uid = o.uid

-- name: move_aliases
UPDATE mnemosyne.aliases AS a SET scope = $2, seq = $3 + o.place
FROM (SELECT uid, row_number() OVER (ORDER BY uid) AS place FROM mnemosyne.aliases WHERE scope = $1) AS o
WHERE a.uid = o.uid

-- name: move_forgotten
UPDATE mnemosyne.forgotten SET scope = $2 WHERE scope = $1

-- name: move_history
UPDATE mnemosyne.history SET scope = $2,
    snapshot = (snapshot::jsonb || jsonb_build_object('theme', $3::text, 'subject', $4::text))::text
WHERE scope = $1

-- name: move_sessions
UPDATE mnemosyne.sessions SET scope = $2 WHERE scope = $1 AND id <> ALL($3::bigint[])

-- name: drop_sessions
DELETE FROM mnemosyne.sessions WHERE id = ANY($1::bigint[])

-- name: move_tokens
UPDATE mnemosyne.tokens SET scope = $2, row = (row & (1::bigint << 38) - 1) | ($2::bigint << 38),
    tsv = ts_delete(tsv, '/s' || $1::bigint) || ('/s' || $2::bigint)::tsvector
WHERE scope = $1

-- name: join_session_tokens
UPDATE mnemosyne.tokens AS k SET tsv = ts_delete(k.tsv, '/n' || m.old) || ('/n' || m.new)::tsvector
FROM unnest($2::bigint[], $3::bigint[]) AS m (old, new) JOIN mnemosyne.turns AS t ON t.scope = $1 AND t.session = m.new
WHERE k.scope = $1 AND k.row = t.id AND k.tsv @@ ('/n' || m.old)::tsquery

-- name: join_session_facets
UPDATE mnemosyne.tokens AS k SET tsv = ts_delete(k.tsv, '/m' || m.old) || ('/m' || m.new)::tsvector
FROM unnest($2::bigint[], $3::bigint[]) AS m (old, new) JOIN mnemosyne.sessions AS n ON n.id = m.new
JOIN mnemosyne.entries AS e ON e.scope = $1 AND e.session_id = n.session_id
WHERE k.scope = $1 AND k.row = e.id AND k.tsv @@ ('/m' || m.old)::tsquery

-- name: move_vectors
UPDATE mnemosyne.vectors SET scope = $2, row = (row & (1::bigint << 38) - 1) | ($2::bigint << 38) WHERE scope = $1

-- name: move_missing
UPDATE mnemosyne.missing_vectors SET row = (row & (1::bigint << 38) - 1) | ($2::bigint << 38)
WHERE row BETWEEN $1::bigint << 38 AND ($1::bigint + 1 << 38) - 1

-- name: move_exclusions
UPDATE mnemosyne.vector_exclusions SET row = (row & (1::bigint << 38) - 1) | ($2::bigint << 38)
WHERE row BETWEEN $1::bigint << 38 AND ($1::bigint + 1 << 38) - 1

-- name: move_injected
WITH gone AS (DELETE FROM mnemosyne.injected WHERE scope = $1 RETURNING session_id, uid, at)
INSERT INTO mnemosyne.injected AS i SELECT $2, session_id, uid, at FROM gone
ON CONFLICT (scope, md5(session_id), uid) DO UPDATE SET at = greatest(i.at, excluded.at)

-- name: drop_stamps
-- A mirrored file is compared anew: rows of it may have come, or its rows have gone.
DELETE FROM mnemosyne.stamps AS p WHERE p.scope = $1
    OR (p.scope = $2 AND EXISTS (SELECT 1 FROM mnemosyne.stamps AS o WHERE o.scope = $1 AND o.place = p.place))

-- name: move_speakers
WITH gone AS (DELETE FROM mnemosyne.speakers WHERE scope = $1 RETURNING speaker, turns)
INSERT INTO mnemosyne.speakers AS k SELECT $2, speaker, turns FROM gone
ON CONFLICT (scope, md5(speaker)) DO UPDATE SET turns = k.turns + excluded.turns

-- name: move_counters
UPDATE mnemosyne.scopes AS n SET memory_rows = n.memory_rows + o.memory_rows, user_rows = n.user_rows + o.user_rows,
    turn_rows = n.turn_rows + o.turn_rows
FROM mnemosyne.scopes AS o WHERE o.id = $1 AND n.id = $2

-- name: clear_counters
UPDATE mnemosyne.scopes SET memory_rows = 0, user_rows = 0, turn_rows = 0 WHERE id = $1

-- name: forget_statistics
WITH gone AS (DELETE FROM mnemosyne.term_counts WHERE place >> 2 = ANY($1::bigint[]))
DELETE FROM mnemosyne.places WHERE place >> 2 = ANY($1::bigint[])

-- name: by_the_rules
-- Triggers on our tables and on old ones pass changes on.
SELECT set_config('mnemosyne.forwarding', '', true), set_config('mnemosyne.mirroring', '', true)

-- name: lock_old_tables
SELECT pg_advisory_xact_lock(9999)

-- name: silence_old_tables
SELECT set_config('mnemosyne.mirroring', 'on', true)
