-- name: sequence
SELECT seq, clock, (SELECT max(oldest_writer) FROM migrations) FROM sequence

-- name: save_sequence
UPDATE sequence SET seq = ?, clock = ? WHERE id = 1

-- name: scope
SELECT id FROM scopes WHERE theme = ? AND subject = ?

-- name: insert_scope
INSERT INTO scopes (theme, folded, subject) VALUES (?, ?, ?) RETURNING id

-- name: count_rows
UPDATE scopes SET memory_rows = memory_rows + ?, user_rows = user_rows + ?, turn_rows = turn_rows + ? WHERE id = ?

-- name: seen_ops
SELECT value FROM json_each(?) WHERE value IN (SELECT op_id FROM applied_ops)

-- name: record_ops
INSERT INTO applied_ops SELECT value, ?2 FROM json_each(?1)

-- name: entry_by_uid
SELECT e.id, e.uid, s.theme, s.subject, e.target, e.content, e.tags, e.importance, e.pinned, e.valid_until, e.occurred_at,
    e.occurred_offset, e.superseded_by, e.visibility, e.session_id, e.origins, e.metadata, e.created_at, e.updated_at, e.seq, e.clock,
    e.content_hash
FROM entries AS e JOIN scopes AS s ON s.id = e.scope WHERE e.uid = ?

-- name: before_adding
SELECT (SELECT uid FROM entries WHERE scope = ?1 AND target = ?2 AND content_hash = ?3),
    EXISTS (SELECT 1 FROM tombstones WHERE scope = ?1 AND state = 'forgotten'),
    EXISTS (SELECT 1 FROM tombstones WHERE uid = ?4)

-- name: entry_by_hash
SELECT uid FROM entries WHERE scope = ? AND target = ? AND content_hash = ?

-- name: turn_by_uid
SELECT t.id, t.uid, s.theme, s.subject, n.session_id, t.position, t.role, t.speaker, t.content, t.occurrence, t.occurred_at,
    t.occurred_offset, t.parent_session_id, t.visibility, t.metadata, t.created_at, t.seq, t.clock, t.session, t.content_hash
FROM turns AS t JOIN scopes AS s ON s.id = t.scope JOIN sessions AS n ON n.id = t.session WHERE t.uid = ?

-- name: turn_by_capture
SELECT uid FROM turns WHERE session = ? AND role = ? AND content_hash = ? AND occurrence = ?

-- name: alias
SELECT survivor FROM aliases WHERE uid = ?

-- name: alias_with_clock
SELECT survivor, clock FROM aliases WHERE uid = ?

-- name: aliases_of
SELECT uid FROM aliases WHERE survivor = ? ORDER BY uid

-- name: insert_alias
INSERT INTO aliases VALUES (?, ?, ?, ?, ?)
ON CONFLICT (uid) DO UPDATE SET survivor = excluded.survivor, clock = excluded.clock, seq = excluded.seq

-- name: repoint_alias
UPDATE aliases SET survivor = ?, seq = ? WHERE uid = ?

-- name: delete_alias
DELETE FROM aliases WHERE uid = ?

-- name: insert_entry
INSERT INTO entries (id, uid, scope, target, content, content_hash, tags, importance, pinned, valid_until, occurred_at,
    occurred_offset, superseded_by, visibility, session_id, origins, metadata, created_at, updated_at, seq, clock)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_entry
UPDATE entries SET uid = ?, content = ?, content_hash = ?, tags = ?, importance = ?, pinned = ?, valid_until = ?, occurred_at = ?,
    occurred_offset = ?, superseded_by = ?, visibility = ?, session_id = ?, origins = ?, metadata = ?, created_at = ?,
    updated_at = ?, seq = ?, clock = ?
WHERE id = ?

-- name: delete_entry
DELETE FROM entries WHERE id = ?

-- name: superseded_by
SELECT uid FROM entries WHERE superseded_by = ? ORDER BY id

-- name: released_from
SELECT uid, clock FROM history WHERE action = 'released' AND json_extract(snapshot, '$.superseded_by') = ?

-- name: insert_mirrored
INSERT OR IGNORE INTO mirrored VALUES (?, ?)

-- name: delete_mirrored
DELETE FROM mirrored WHERE entry = ? AND place = ?

-- name: mirrored
SELECT e.uid, e.content_hash FROM mirrored AS m JOIN entries AS e ON e.id = m.entry
WHERE m.place = ? AND e.scope = ? AND e.target = ?

-- name: mirrored_exactly
SELECT e.uid FROM mirrored AS m JOIN entries AS e ON e.id = m.entry
WHERE m.place = ? AND e.scope = ? AND e.target = ? AND e.content_hash = ?

-- name: mirrored_containing
SELECT e.uid FROM mirrored AS m JOIN entries AS e ON e.id = m.entry
WHERE m.place = ? AND e.scope = ? AND e.target = ? AND instr(e.content, ?) > 0
ORDER BY e.created_at, e.id LIMIT 1

-- name: other_origins
SELECT count(*) FROM entries AS e, json_each(e.origins) AS o
WHERE e.uid = ? AND NOT (json_extract(o.value, '$[0]') = ? AND json_extract(o.value, '$[1]') = ?)

-- name: save_stamp
INSERT INTO stamps VALUES (?, ?, ?) ON CONFLICT (scope, place) DO UPDATE SET stamp = excluded.stamp

-- name: session
SELECT id FROM sessions WHERE scope = ? AND session_id = ?

-- name: insert_session
INSERT INTO sessions (scope, session_id) VALUES (?, ?) RETURNING id

-- name: last_turn
SELECT id, position FROM turns WHERE session = ? ORDER BY position DESC, uid DESC LIMIT 1

-- name: insert_turn
INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: replace_turn_uid
UPDATE turns SET uid = ?, seq = ? WHERE id = ?

-- name: delete_turn
DELETE FROM turns WHERE id = ?

-- name: live_occurrences
SELECT count(*), coalesce(max(occurrence), 0), EXISTS (SELECT 1 FROM tombstones WHERE scope = ?4 AND state = 'retired'),
    EXISTS (SELECT 1 FROM tombstones WHERE scope = ?4 AND state = 'forgotten')
FROM turns WHERE session = ?1 AND role = ?2 AND content_hash = ?3

-- name: retired_occurrences
SELECT count(*), coalesce(max(occurrence), 0) FROM tombstones WHERE session = ? AND role = ? AND content_hash = ?

-- name: forgotten_occurrences
SELECT count(DISTINCT occurrence), coalesce(max(occurrence), 0) FROM forgotten WHERE mac = ? AND occurrence > 0

-- name: count_speaker
INSERT INTO speakers VALUES (?, ?, ?) ON CONFLICT (scope, speaker) DO UPDATE SET turns = turns + excluded.turns

-- name: forget_silent_speakers
DELETE FROM speakers WHERE scope = ? AND turns <= 0

-- name: insert_history
INSERT OR IGNORE INTO history (uid, scope, action, at, clock, content_hash, snapshot, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: has_version
SELECT 1 FROM history WHERE uid = ?1 AND json_extract(snapshot, '$.clock') = ?2 LIMIT 1

-- name: last_change
SELECT id, action, snapshot, clock FROM history
WHERE action <> 'lost' AND snapshot <> '{}' AND (uid = ?1 OR uid IN (SELECT uid FROM aliases WHERE survivor = ?1))
ORDER BY clock DESC, action DESC LIMIT 1

-- name: merged_rows
SELECT uid, snapshot FROM history
WHERE clock = ?2 AND snapshot <> '{}' AND action IN ('edited', 'merged') AND (uid = ?1 OR uid IN (SELECT uid FROM aliases WHERE survivor = ?1))

-- name: delete_empty_session
DELETE FROM sessions WHERE id = ?1
    AND NOT EXISTS (SELECT 1 FROM turns WHERE session = ?1)
    AND NOT EXISTS (SELECT 1 FROM tombstones WHERE session = ?1)
    AND NOT EXISTS (SELECT 1 FROM entries AS e WHERE e.scope = sessions.scope AND e.session_id = sessions.session_id)

-- name: hashes_in_history
SELECT DISTINCT content_hash FROM history WHERE uid = ? AND snapshot <> '{}'

-- name: delete_history
DELETE FROM history WHERE uid = ?

-- name: retired_with_text
SELECT h.uid FROM history AS h JOIN tombstones AS t ON t.uid = h.uid
WHERE h.scope = ? AND h.content_hash = ? AND h.action = 'retired' AND t.kind = 'entry' AND t.state = 'retired'
    AND h.clock = (SELECT max(clock) FROM history AS l WHERE l.uid = h.uid AND l.action = 'retired')

-- name: versions_with_text
SELECT uid, action, at, clock FROM history WHERE scope = ? AND content_hash = ? AND json_extract(snapshot, '$.role') IS NULL

-- name: erase_version
-- What is left of it tells other replicas to erase theirs.
INSERT INTO history (uid, scope, action, at, clock, content_hash, snapshot, seq) VALUES (?, ?, ?, ?, ?, x'', '{}', ?)
ON CONFLICT (uid, clock, action) DO UPDATE SET content_hash = x'', snapshot = '{}', seq = excluded.seq WHERE snapshot <> '{}'

-- name: tombstone
SELECT t.uid, s.theme, s.subject, t.kind, t.state, t.visibility, t.at, t.clock, t.session, t.role, t.content_hash, t.occurrence,
    t.scope
FROM tombstones AS t JOIN scopes AS s ON s.id = t.scope WHERE t.uid = ?

-- name: save_tombstone
INSERT INTO tombstones VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (uid) DO UPDATE SET state = excluded.state, visibility = excluded.visibility, at = excluded.at, clock = excluded.clock,
    seq = excluded.seq, session = excluded.session, role = excluded.role, content_hash = excluded.content_hash,
    occurrence = excluded.occurrence

-- name: delete_tombstone
DELETE FROM tombstones WHERE uid = ?

-- name: any_gone
SELECT 1 FROM tombstones WHERE scope = ? AND state = ? LIMIT 1

-- name: former_names
SELECT value FROM meta WHERE key = 'former_names:' || ?

-- name: forgotten_text
SELECT max(clock) FROM forgotten WHERE mac = ?

-- name: insert_forgotten
INSERT INTO forgotten VALUES (?, ?, ?, ?, ?)
ON CONFLICT (mac, uid) DO UPDATE SET clock = max(clock, excluded.clock)

-- name: withdrawn
SELECT 1 FROM withdrawn WHERE uid = ?

-- name: insert_withdrawn
INSERT INTO withdrawn VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (uid) DO UPDATE SET at = excluded.at, clock = excluded.clock, seq = excluded.seq

-- name: republish_aliases
UPDATE aliases SET seq = ? WHERE survivor = ?

-- name: republish_history
UPDATE OR REPLACE history SET uid = ?, seq = ? WHERE uid = ?

-- name: known_uids
-- Those of some uids that stand in any table.
SELECT value FROM json_each(?) WHERE value IN (SELECT uid FROM entries) OR value IN (SELECT uid FROM turns)
    OR value IN (SELECT uid FROM tombstones) OR value IN (SELECT uid FROM aliases) OR value IN (SELECT uid FROM withdrawn)

-- name: kept
SELECT value FROM meta WHERE key = ?

-- name: drop_kept
DELETE FROM meta WHERE key = ?

-- name: drop_kept_like
DELETE FROM meta WHERE substr(key, 1, length(?1)) = ?1

-- name: greatest_clock
SELECT max(clock) FROM (SELECT max(clock) AS clock FROM entries UNION ALL SELECT max(clock) FROM turns UNION ALL SELECT max(clock) FROM tombstones)

-- name: delete_injected
DELETE FROM injected WHERE uid = ?

-- name: mark_injected
INSERT OR REPLACE INTO injected VALUES (?, ?, ?, ?)

-- name: reset_injected
DELETE FROM injected WHERE scope = ? AND session_id = ?

-- name: save_meta
INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: count_meta
INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + CAST(excluded.value AS INTEGER)

-- name: insert_tokens
INSERT INTO tokens (rowid, body, context, facets, version) VALUES (?, ?, ?, ?, ?)

-- name: insert_recent
INSERT OR REPLACE INTO recent_tokens VALUES (?, ?, ?, ?, ?)

-- name: tokens
SELECT body, context, facets, version, 1 FROM recent_tokens WHERE row = ?1
UNION ALL SELECT body, context, facets, version, 0 FROM tokens WHERE rowid = ?1

-- name: delete_tokens
DELETE FROM tokens WHERE rowid = ?

-- name: delete_recent
DELETE FROM recent_tokens WHERE row = ?

-- name: delete_vectors
DELETE FROM vectors WHERE row = ? AND model IN (SELECT id FROM vector_models)

-- name: delete_missing
DELETE FROM missing_vectors WHERE row = ? AND model IN (SELECT id FROM vector_models)

-- name: delete_exclusion
DELETE FROM vector_exclusions WHERE row = ?

-- name: note_missing
INSERT OR IGNORE INTO missing_vectors (model, row)
SELECT m.id, j.value FROM vector_models AS m CROSS JOIN json_each(?) AS j WHERE NOT m.gone AND j.value <= m.swept
    AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.model = m.id AND v.row = j.value)
    AND NOT EXISTS (SELECT 1 FROM vector_exclusions AS x WHERE x.row = j.value)

-- name: insert_stale
INSERT OR IGNORE INTO stale_contexts VALUES (?)

-- name: beside
SELECT
    (SELECT p.id FROM turns AS p WHERE p.session = t.session AND (p.position, p.uid) < (t.position, t.uid)
        ORDER BY p.position DESC, p.uid DESC LIMIT 1),
    (SELECT n.id FROM turns AS n WHERE n.session = t.session AND (n.position, n.uid) > (t.position, t.uid)
        ORDER BY n.position, n.uid LIMIT 1)
FROM turns AS t WHERE t.id = ?

-- name: session_name
SELECT session_id FROM sessions WHERE id = ?

-- name: forgotten_occurrence
SELECT 1 FROM forgotten WHERE mac = ? AND occurrence = ?

-- name: sealed_about
SELECT uid, slot, theme, clock, gone, key, lower(hex(substr(box, 1, 16))), seq FROM sealed WHERE uid IN (SELECT value FROM json_each(?))

-- name: insert_sealed
INSERT INTO sealed (uid, slot, theme, key, clock, gone, box, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: delete_sealed
DELETE FROM sealed WHERE uid = ? AND slot = ?
