-- name: sequence
SELECT seq, clock, (SELECT max(oldest_writer) FROM mnemosyne.migrations) FROM mnemosyne.sequence

-- name: save_sequence
UPDATE mnemosyne.sequence SET seq = $1, clock = $2 WHERE id = 1

-- name: scope
SELECT id FROM mnemosyne.scopes WHERE md5(theme) = md5($1) AND md5(subject) = md5($2) AND theme = $1 AND subject = $2

-- name: insert_scope
INSERT INTO mnemosyne.scopes (theme, folded, subject) VALUES ($1, $2, $3) RETURNING id

-- name: count_rows
UPDATE mnemosyne.scopes SET memory_rows = memory_rows + $1, user_rows = user_rows + $2, turn_rows = turn_rows + $3 WHERE id = $4

-- name: seen_ops
SELECT op_id FROM mnemosyne.applied_ops WHERE op_id = ANY($1::text[])

-- name: record_ops
INSERT INTO mnemosyne.applied_ops SELECT unnest($1::text[]), $2 ON CONFLICT DO NOTHING

-- name: entry_by_uid
SELECT e.id, e.uid, s.theme, s.subject, e.target, e.content, e.tags, e.importance, e.pinned, e.valid_until, e.occurred_at,
    e.occurred_offset, e.superseded_by, e.visibility, e.session_id, e.origins, e.metadata, e.created_at, e.updated_at, e.seq, e.clock,
    e.content_hash
FROM mnemosyne.entries AS e JOIN mnemosyne.scopes AS s ON s.id = e.scope WHERE e.uid = $1

-- name: before_adding
SELECT (SELECT uid FROM mnemosyne.entries WHERE scope = $1 AND target = $2 AND content_hash = $3),
    EXISTS (SELECT 1 FROM mnemosyne.tombstones WHERE scope = $1 AND state = 'forgotten'),
    EXISTS (SELECT 1 FROM mnemosyne.tombstones WHERE uid = $4)

-- name: entry_by_hash
SELECT uid FROM mnemosyne.entries WHERE scope = $1 AND target = $2 AND content_hash = $3

-- name: turn_by_uid
SELECT t.id, t.uid, s.theme, s.subject, n.session_id, t.position, t.role, t.speaker, t.content, t.occurrence, t.occurred_at,
    t.occurred_offset, t.parent_session_id, t.visibility, t.metadata, t.created_at, t.seq, t.clock, t.session, t.content_hash
FROM mnemosyne.turns AS t JOIN mnemosyne.scopes AS s ON s.id = t.scope JOIN mnemosyne.sessions AS n ON n.id = t.session
WHERE t.uid = $1

-- name: turn_by_capture
SELECT uid FROM mnemosyne.turns WHERE scope = (SELECT scope FROM mnemosyne.sessions WHERE id = $1)
    AND session = $1 AND role = $2 AND content_hash = $3 AND occurrence = $4

-- name: alias
SELECT survivor FROM mnemosyne.aliases WHERE uid = $1

-- name: alias_with_clock
SELECT survivor, clock FROM mnemosyne.aliases WHERE uid = $1

-- name: aliases_of
SELECT uid FROM mnemosyne.aliases WHERE survivor = $1 ORDER BY uid

-- name: insert_alias
INSERT INTO mnemosyne.aliases VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (uid) DO UPDATE SET survivor = excluded.survivor, clock = excluded.clock, seq = excluded.seq

-- name: repoint_alias
UPDATE mnemosyne.aliases SET survivor = $1, seq = $2 WHERE uid = $3

-- name: delete_alias
DELETE FROM mnemosyne.aliases WHERE uid = $1

-- name: insert_entry
INSERT INTO mnemosyne.entries (id, uid, scope, target, content, content_hash, tags, importance, pinned, valid_until, occurred_at,
    occurred_offset, superseded_by, visibility, session_id, origins, metadata, created_at, updated_at, seq, clock)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)

-- name: update_entry
UPDATE mnemosyne.entries SET uid = $1, content = $2, content_hash = $3, tags = $4, importance = $5, pinned = $6, valid_until = $7,
    occurred_at = $8, occurred_offset = $9, superseded_by = $10, visibility = $11, session_id = $12, origins = $13, metadata = $14,
    created_at = $15, updated_at = $16, seq = $17, clock = $18
WHERE scope = $19::bigint >> 38 AND id = $19

-- A change under an old name that waits for a row, by its number, must still find what became of it; one that failed holds its texts.
-- name: delete_entry
WITH gone AS (DELETE FROM mnemosyne.mirrored WHERE entry = $1), numbers AS (
    SELECT $1::bigint AS number, t.uid FROM mnemosyne.entries AS t WHERE t.scope = $1::bigint >> 38 AND t.id = $1
    UNION ALL SELECT l.legacy_id, l.uid FROM mnemosyne.entries AS t JOIN mnemosyne.legacy_rows AS l ON l.uid = t.uid
    WHERE t.scope = $1::bigint >> 38 AND t.id = $1 AND l.relation = 'memory_entries'
), failed AS (
    DELETE FROM mnemosyne.forwarded AS f USING numbers AS n
    WHERE f.relation = 'memory_entries' AND f.legacy_id = n.number AND f.problem IS NOT NULL
), known AS (
    INSERT INTO mnemosyne.legacy_rows SELECT 'memory_entries', n.number, n.uid FROM numbers AS n
    WHERE EXISTS (SELECT FROM mnemosyne.forwarded AS f WHERE f.relation = 'memory_entries' AND f.legacy_id = n.number AND f.problem IS NULL)
    ON CONFLICT DO NOTHING
)
DELETE FROM mnemosyne.entries WHERE scope = $1::bigint >> 38 AND id = $1

-- name: superseded_by
SELECT uid FROM mnemosyne.entries WHERE superseded_by = $1 ORDER BY id

-- name: released_from
SELECT uid, clock FROM mnemosyne.history WHERE action = 'released' AND snapshot::jsonb ->> 'superseded_by' = $1

-- name: insert_mirrored
INSERT INTO mnemosyne.mirrored (place, entry) VALUES ($1, $2)

-- name: delete_mirrored
DELETE FROM mnemosyne.mirrored WHERE entry = $1 AND place = $2

-- name: mirrored
SELECT e.uid, e.content_hash FROM mnemosyne.mirrored AS m JOIN mnemosyne.entries AS e ON e.scope = $2 AND e.id = m.entry
WHERE md5(m.place) = md5($1) AND m.place = $1 AND e.target = $3

-- name: mirrored_exactly
SELECT e.uid FROM mnemosyne.mirrored AS m JOIN mnemosyne.entries AS e ON e.scope = $2 AND e.id = m.entry
WHERE md5(m.place) = md5($1) AND m.place = $1 AND e.target = $3 AND e.content_hash = $4

-- name: mirrored_containing
SELECT e.uid FROM mnemosyne.mirrored AS m JOIN mnemosyne.entries AS e ON e.scope = $2 AND e.id = m.entry
WHERE md5(m.place) = md5($1) AND m.place = $1 AND e.target = $3 AND strpos(e.content, $4) > 0
ORDER BY e.created_at, e.id LIMIT 1

-- name: other_origins
SELECT count(*) FROM mnemosyne.entries AS e, jsonb_array_elements(e.origins::jsonb) AS o
WHERE e.uid = $1 AND NOT (o ->> 0 = $2 AND o ->> 1 = $3)

-- name: save_stamp
INSERT INTO mnemosyne.stamps VALUES ($1, $2, $3) ON CONFLICT (scope, md5(place)) DO UPDATE SET stamp = excluded.stamp

-- name: session
SELECT id FROM mnemosyne.sessions WHERE scope = $1 AND md5(session_id) = md5($2) AND session_id = $2

-- name: insert_session
INSERT INTO mnemosyne.sessions (scope, session_id) VALUES ($1, $2) RETURNING id

-- name: last_turn
SELECT id, position FROM mnemosyne.turns WHERE session = $1 ORDER BY position DESC, uid DESC LIMIT 1

-- name: insert_turn
INSERT INTO mnemosyne.turns (id, uid, scope, session, position, role, speaker, content, content_hash, occurrence, occurred_at,
    occurred_offset, parent_session_id, visibility, metadata, created_at, seq, clock)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)

-- name: replace_turn_uid
UPDATE mnemosyne.turns SET uid = $1, seq = $2 WHERE scope = $3::bigint >> 38 AND id = $3

-- name: delete_turn
WITH numbers AS (
    SELECT $1::bigint AS number, t.uid FROM mnemosyne.turns AS t WHERE t.scope = $1::bigint >> 38 AND t.id = $1
    UNION ALL SELECT l.legacy_id, l.uid FROM mnemosyne.turns AS t JOIN mnemosyne.legacy_rows AS l ON l.uid = t.uid
    WHERE t.scope = $1::bigint >> 38 AND t.id = $1 AND l.relation = 'conversations'
), failed AS (
    DELETE FROM mnemosyne.forwarded AS f USING numbers AS n
    WHERE f.relation = 'conversations' AND f.legacy_id = n.number AND f.problem IS NOT NULL
), known AS (
    INSERT INTO mnemosyne.legacy_rows SELECT 'conversations', n.number, n.uid FROM numbers AS n
    WHERE EXISTS (SELECT FROM mnemosyne.forwarded AS f WHERE f.relation = 'conversations' AND f.legacy_id = n.number AND f.problem IS NULL)
    ON CONFLICT DO NOTHING
)
DELETE FROM mnemosyne.turns WHERE scope = $1::bigint >> 38 AND id = $1

-- name: live_occurrences
SELECT count(*), coalesce(max(occurrence), 0),
    EXISTS (SELECT 1 FROM mnemosyne.tombstones WHERE scope = $4 AND state = 'retired'),
    EXISTS (SELECT 1 FROM mnemosyne.tombstones WHERE scope = $4 AND state = 'forgotten')
FROM mnemosyne.turns WHERE scope = $4 AND session = $1 AND role = $2 AND content_hash = $3

-- name: retired_occurrences
SELECT count(*), coalesce(max(occurrence), 0) FROM mnemosyne.tombstones WHERE session = $1 AND role = $2 AND content_hash = $3

-- name: forgotten_occurrences
SELECT count(DISTINCT occurrence), coalesce(max(occurrence), 0) FROM mnemosyne.forgotten WHERE mac = $1 AND occurrence > 0

-- name: count_speaker
INSERT INTO mnemosyne.speakers AS k VALUES ($1, $2, $3)
ON CONFLICT (scope, md5(speaker)) DO UPDATE SET turns = k.turns + excluded.turns

-- name: forget_silent_speakers
DELETE FROM mnemosyne.speakers WHERE scope = $1 AND turns <= 0

-- name: insert_history
INSERT INTO mnemosyne.history (uid, scope, action, at, clock, content_hash, snapshot, seq) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING

-- name: has_version
SELECT 1 FROM mnemosyne.history WHERE uid = $1 AND snapshot::jsonb ->> 'clock' = $2 LIMIT 1

-- name: last_change
SELECT 0, action, snapshot, clock FROM mnemosyne.history
WHERE action <> 'lost' AND snapshot <> '{}' AND uid IN (SELECT $1 UNION ALL SELECT uid FROM mnemosyne.aliases WHERE survivor = $1)
ORDER BY clock DESC, action DESC LIMIT 1

-- name: merged_rows
SELECT uid, snapshot FROM mnemosyne.history
WHERE snapshot <> '{}' AND clock = $2 AND action IN ('edited', 'merged')
    AND uid IN (SELECT $1 UNION ALL SELECT uid FROM mnemosyne.aliases WHERE survivor = $1)

-- name: delete_empty_session
DELETE FROM mnemosyne.sessions AS n WHERE n.id = $1
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.turns WHERE session = $1)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.tombstones WHERE session = $1)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.entries AS e
        WHERE e.scope = n.scope AND md5(e.session_id) = md5(n.session_id) AND e.session_id = n.session_id AND e.session_id <> '')

-- name: hashes_in_history
SELECT DISTINCT content_hash FROM mnemosyne.history WHERE uid = $1 AND snapshot <> '{}'

-- name: delete_history
DELETE FROM mnemosyne.history WHERE uid = $1

-- name: retired_with_text
SELECT h.uid FROM mnemosyne.history AS h JOIN mnemosyne.tombstones AS t ON t.uid = h.uid
WHERE h.scope = $1 AND h.content_hash = $2 AND h.action = 'retired' AND t.kind = 'entry' AND t.state = 'retired'
    AND h.clock = (SELECT max(l.clock) FROM mnemosyne.history AS l WHERE l.uid = h.uid AND l.action = 'retired')

-- name: versions_with_text
SELECT uid, action, at, clock FROM mnemosyne.history WHERE scope = $1 AND content_hash = $2 AND snapshot::jsonb -> 'role' IS NULL

-- name: erase_version
-- What is left of it tells other replicas to erase theirs.
INSERT INTO mnemosyne.history AS h (uid, scope, action, at, clock, content_hash, snapshot, seq) VALUES ($1, $2, $3, $4, $5, '', '{}', $6)
ON CONFLICT (scope, uid, clock, action) DO UPDATE SET content_hash = '', snapshot = '{}', seq = excluded.seq WHERE h.snapshot <> '{}'

-- name: tombstone
SELECT t.uid, s.theme, s.subject, t.kind, t.state, t.visibility, t.at, t.clock, t.session, t.role, t.content_hash, t.occurrence,
    t.scope
FROM mnemosyne.tombstones AS t JOIN mnemosyne.scopes AS s ON s.id = t.scope WHERE t.uid = $1

-- name: save_tombstone
INSERT INTO mnemosyne.tombstones VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (uid) DO UPDATE SET state = excluded.state, visibility = excluded.visibility, at = excluded.at, clock = excluded.clock,
    seq = excluded.seq, session = excluded.session, role = excluded.role, content_hash = excluded.content_hash,
    occurrence = excluded.occurrence

-- name: delete_tombstone
DELETE FROM mnemosyne.tombstones WHERE uid = $1

-- name: any_gone
SELECT 1 FROM mnemosyne.tombstones WHERE scope = $1 AND state = $2 LIMIT 1

-- name: former_names
SELECT value FROM mnemosyne.meta WHERE key = 'former_names:' || $1::bigint

-- name: forgotten_text
SELECT max(clock) FROM mnemosyne.forgotten WHERE mac = $1

-- name: insert_forgotten
INSERT INTO mnemosyne.forgotten AS f VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (mac, uid) DO UPDATE SET clock = greatest(f.clock, excluded.clock)

-- name: withdrawn
SELECT 1 FROM mnemosyne.withdrawn WHERE uid = $1

-- name: insert_withdrawn
INSERT INTO mnemosyne.withdrawn VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (uid) DO UPDATE SET at = excluded.at, clock = excluded.clock, seq = excluded.seq

-- name: republish_aliases
UPDATE mnemosyne.aliases SET seq = $1 WHERE survivor = $2

-- name: republish_history
UPDATE mnemosyne.history SET uid = $1, seq = $2 WHERE uid = $3

-- name: known_uids
-- Those of some uids that stand in any table.
SELECT j.uid FROM unnest($1::text[]) AS j (uid)
WHERE EXISTS (SELECT 1 FROM mnemosyne.entries AS e WHERE e.uid = j.uid) OR EXISTS (SELECT 1 FROM mnemosyne.turns AS t WHERE t.uid = j.uid)
    OR EXISTS (SELECT 1 FROM mnemosyne.tombstones AS g WHERE g.uid = j.uid) OR EXISTS (SELECT 1 FROM mnemosyne.aliases AS a WHERE a.uid = j.uid)
    OR EXISTS (SELECT 1 FROM mnemosyne.withdrawn AS w WHERE w.uid = j.uid)

-- name: kept
SELECT value FROM mnemosyne.meta WHERE key = $1

-- name: drop_kept
DELETE FROM mnemosyne.meta WHERE key = $1

-- name: drop_kept_like
DELETE FROM mnemosyne.meta WHERE left(key, length($1)) = $1

-- name: greatest_clock
SELECT max(clock) FROM (SELECT max(clock) AS clock FROM mnemosyne.entries UNION ALL SELECT max(clock) FROM mnemosyne.turns
    UNION ALL SELECT max(clock) FROM mnemosyne.tombstones) AS c

-- name: delete_injected
DELETE FROM mnemosyne.injected WHERE uid = $1

-- name: mark_injected
INSERT INTO mnemosyne.injected VALUES ($1, $2, $3, $4)
ON CONFLICT (scope, md5(session_id), uid) DO UPDATE SET at = excluded.at

-- name: reset_injected
DELETE FROM mnemosyne.injected WHERE scope = $1 AND md5(session_id) = md5($2) AND session_id = $2

-- name: save_meta
INSERT INTO mnemosyne.meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: count_meta
INSERT INTO mnemosyne.meta AS m VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET value = (m.value::bigint + excluded.value::bigint)::text

-- name: tokens
SELECT lead, words, version FROM mnemosyne.tokens WHERE scope = $1::bigint >> 38 AND row = $1

-- name: insert_tokens
INSERT INTO mnemosyne.tokens (scope, row, words, version, lead, tsv) VALUES ($1, $2, $3, $4, $5, $6)

-- name: lengthen_tokens
-- A word of the context counts once, also where both neighbours lend it: so it stands in a context that is written whole.
UPDATE mnemosyne.tokens SET tsv = tsv || ts_delete($2::tsvector, tsvector_to_array(ts_filter(tsv, '{d}')))
WHERE scope = $1::bigint >> 38 AND row = $1

-- name: replace_context
UPDATE mnemosyne.tokens AS k SET tsv = ts_filter(k.tsv, '{a}') || $2::tsvector || ('/n' || t.session)::tsvector
FROM mnemosyne.turns AS t WHERE t.scope = $1::bigint >> 38 AND t.id = $1 AND k.scope = $1::bigint >> 38 AND k.row = $1

-- name: delete_tokens
DELETE FROM mnemosyne.tokens WHERE row = ANY($1::bigint[]) AND scope IN (SELECT r >> 38 FROM unnest($1::bigint[]) AS r)

-- name: delete_vectors
DELETE FROM mnemosyne.vectors WHERE scope = $1::bigint >> 38 AND row = $1

-- name: delete_missing
DELETE FROM mnemosyne.missing_vectors WHERE row = $1 AND model IN (SELECT id FROM mnemosyne.vector_models)

-- name: delete_exclusion
DELETE FROM mnemosyne.vector_exclusions WHERE row = $1

-- name: note_missing
INSERT INTO mnemosyne.missing_vectors (model, row)
SELECT m.id, r.row FROM mnemosyne.vector_models AS m CROSS JOIN unnest($1::bigint[]) AS r (row)
WHERE NOT m.gone
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.vectors AS v WHERE v.scope = r.row >> 38 AND v.model = m.id AND v.row = r.row)
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.vector_exclusions AS x WHERE x.row = r.row)
ON CONFLICT DO NOTHING

-- name: insert_stale
INSERT INTO mnemosyne.stale_contexts VALUES ($1) ON CONFLICT DO NOTHING

-- name: beside
SELECT
    (SELECT p.id FROM mnemosyne.turns AS p WHERE p.scope = t.scope AND p.session = t.session
        AND (p.position, p.uid) < (t.position, t.uid) ORDER BY p.position DESC, p.uid DESC LIMIT 1),
    (SELECT n.id FROM mnemosyne.turns AS n WHERE n.scope = t.scope AND n.session = t.session
        AND (n.position, n.uid) > (t.position, t.uid) ORDER BY n.position, n.uid LIMIT 1)
FROM mnemosyne.turns AS t WHERE t.scope = $1::bigint >> 38 AND t.id = $1

-- name: session_name
SELECT session_id FROM mnemosyne.sessions WHERE id = $1

-- name: forgotten_occurrence
SELECT 1 FROM mnemosyne.forgotten WHERE mac = $1 AND occurrence = $2

-- name: foresee_adding
SELECT a.number, (SELECT e.uid FROM mnemosyne.entries AS e WHERE e.scope = a.scope AND e.target = a.target AND e.content_hash = a.hash),
    EXISTS (SELECT 1 FROM mnemosyne.tombstones AS t WHERE t.scope = a.scope AND t.state = 'forgotten'),
    EXISTS (SELECT 1 FROM mnemosyne.tombstones AS t WHERE t.uid = a.uid)
FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::text[]) WITH ORDINALITY AS a (scope, target, hash, uid, number)

-- name: foresee_turns
SELECT a.number, (SELECT count(*) FROM mnemosyne.turns AS t WHERE t.scope = a.scope AND t.session = a.session AND t.role = a.role
        AND t.content_hash = a.hash),
    (SELECT coalesce(max(t.occurrence), 0) FROM mnemosyne.turns AS t WHERE t.scope = a.scope AND t.session = a.session
        AND t.role = a.role AND t.content_hash = a.hash),
    EXISTS (SELECT 1 FROM mnemosyne.tombstones AS g WHERE g.scope = a.scope AND g.state = 'retired'),
    EXISTS (SELECT 1 FROM mnemosyne.tombstones AS g WHERE g.scope = a.scope AND g.state = 'forgotten')
FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bigint[]) WITH ORDINALITY AS a (session, role, hash, scope, number)

-- name: foresee_last_turns
SELECT a.number, t.id, t.position FROM unnest($1::bigint[]) WITH ORDINALITY AS a (session, number) CROSS JOIN LATERAL (
    SELECT t.id, t.position FROM mnemosyne.turns AS t WHERE t.session = a.session ORDER BY t.position DESC, t.uid DESC LIMIT 1
) AS t

-- name: foresee_sessions
SELECT a.number, n.id FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS a (scope, session_id, number)
JOIN mnemosyne.sessions AS n ON n.scope = a.scope AND md5(n.session_id) = md5(a.session_id) AND n.session_id = a.session_id

-- name: seen_agent
INSERT INTO mnemosyne.agents AS a (theme, kind, first_seen, last_seen) VALUES ($1, $2, $3::timestamptz, $3::timestamptz)
ON CONFLICT (md5(theme)) DO UPDATE SET kind = excluded.kind, first_seen = least(a.first_seen, excluded.first_seen),
    last_seen = greatest(a.last_seen, excluded.last_seen)

-- name: insert_edge
INSERT INTO mnemosyne.agent_edges (parent_theme, child_theme, parent_session_id, child_session_id, kind, ts, attrs)
VALUES ($1, nullif($2, ''), nullif($3, ''), nullif($4, ''), 'delegated', $5::timestamptz, $6::jsonb)

-- name: forget_task
UPDATE mnemosyne.agent_edges SET attrs = attrs || '{"task": ""}' WHERE attrs ->> 'turn' = $1::text

-- name: sealed_about
SELECT uid, slot, theme, clock, gone, key, encode(substr(box, 1, 16), 'hex'), seq FROM mnemosyne.sealed WHERE uid = ANY($1::text[])

-- name: insert_sealed
INSERT INTO mnemosyne.sealed (uid, slot, theme, key, clock, gone, box, seq) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)

-- name: delete_sealed
DELETE FROM mnemosyne.sealed WHERE uid = $1 AND slot = $2
