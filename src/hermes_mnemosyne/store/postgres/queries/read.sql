-- name: sequence
SELECT seq, clock FROM mnemosyne.sequence

-- name: alias
SELECT survivor FROM mnemosyne.aliases WHERE uid = $1

-- name: entry_by_uid
SELECT e.id, e.uid, s.theme, s.subject, e.target, e.content, e.tags, e.importance, e.pinned, e.valid_until, e.occurred_at,
    e.occurred_offset, e.superseded_by, e.visibility, e.session_id, e.origins, e.metadata, e.created_at, e.updated_at, e.seq, e.clock
FROM mnemosyne.entries AS e JOIN mnemosyne.scopes AS s ON s.id = e.scope
WHERE e.uid = ANY($1::text[]) ORDER BY e.uid <> ($1::text[])[1] LIMIT 1

-- name: turn_by_uid
SELECT t.id, t.uid, s.theme, s.subject, n.session_id, t.position, t.role, t.speaker, t.content, t.occurrence, t.occurred_at,
    t.occurred_offset, t.parent_session_id, t.visibility, t.metadata, t.created_at, t.seq, t.clock
FROM mnemosyne.turns AS t JOIN mnemosyne.scopes AS s ON s.id = t.scope JOIN mnemosyne.sessions AS n ON n.id = t.session
WHERE t.uid = ANY($1::text[]) ORDER BY t.uid <> ($1::text[])[1] LIMIT 1

-- name: entries_by_id
SELECT e.id, e.uid, s.theme, s.subject, e.target, e.content, e.tags, e.importance, e.pinned, e.valid_until, e.occurred_at,
    e.occurred_offset, e.superseded_by, e.visibility, e.session_id, e.origins, e.metadata, e.created_at, e.updated_at, e.seq, e.clock
FROM unnest($1::bigint[]) AS j (id) JOIN mnemosyne.entries AS e ON e.scope = j.id >> 38 AND e.id = j.id
JOIN mnemosyne.scopes AS s ON s.id = e.scope

-- name: turns_by_id
SELECT t.id, t.uid, s.theme, s.subject, n.session_id, t.position, t.role, t.speaker, t.content, t.occurrence, t.occurred_at,
    t.occurred_offset, t.parent_session_id, t.visibility, t.metadata, t.created_at, t.seq, t.clock
FROM unnest($1::bigint[]) AS j (id) JOIN mnemosyne.turns AS t ON t.scope = j.id >> 38 AND t.id = j.id
JOIN mnemosyne.scopes AS s ON s.id = t.scope JOIN mnemosyne.sessions AS n ON n.id = t.session

-- name: ids_by_uid
WITH wanted (uid) AS (
    SELECT unnest($1::text[]) UNION SELECT survivor FROM mnemosyne.aliases WHERE uid = ANY($1::text[])
)
SELECT e.id FROM wanted AS w JOIN mnemosyne.entries AS e ON e.uid = w.uid
UNION ALL SELECT t.id FROM wanted AS w JOIN mnemosyne.turns AS t ON t.uid = w.uid

-- name: list_newest
SELECT id FROM (
    SELECT v.id, v.at, v.uid FROM unnest(:scopes::bigint[]) AS p (scope) CROSS JOIN LATERAL (
        SELECT e.id, e.created_at AS at, e.uid FROM mnemosyne.entries AS e
        WHERE :entries::boolean AND e.scope = p.scope AND (:target::text IS NULL OR e.target = :target::text)
            AND e.id <> ALL(:exclude::bigint[]) AND @entry_passes
        ORDER BY e.created_at DESC, e.uid DESC LIMIT :most::bigint
    ) AS v
    UNION ALL
    SELECT v.id, v.at, v.uid FROM unnest(:scopes::bigint[]) AS p (scope) CROSS JOIN LATERAL (
        SELECT t.id, t.created_at AS at, t.uid FROM mnemosyne.turns AS t JOIN mnemosyne.sessions AS n ON n.id = t.session
        WHERE :turns::boolean AND t.scope = p.scope AND t.id <> ALL(:exclude::bigint[]) AND @turn_passes
        ORDER BY t.created_at DESC, t.uid DESC LIMIT :most::bigint
    ) AS v
) AS r ORDER BY at DESC, uid DESC LIMIT :limit::bigint OFFSET :offset::bigint

-- name: list_oldest
SELECT id FROM (
    SELECT v.id, v.at, v.uid FROM unnest(:scopes::bigint[]) AS p (scope) CROSS JOIN LATERAL (
        SELECT e.id, e.created_at AS at, e.uid FROM mnemosyne.entries AS e
        WHERE :entries::boolean AND e.scope = p.scope AND (:target::text IS NULL OR e.target = :target::text)
            AND e.id <> ALL(:exclude::bigint[]) AND @entry_passes
        ORDER BY e.created_at, e.uid LIMIT :most::bigint
    ) AS v
    UNION ALL
    SELECT v.id, v.at, v.uid FROM unnest(:scopes::bigint[]) AS p (scope) CROSS JOIN LATERAL (
        SELECT t.id, t.created_at AS at, t.uid FROM mnemosyne.turns AS t JOIN mnemosyne.sessions AS n ON n.id = t.session
        WHERE :turns::boolean AND t.scope = p.scope AND t.id <> ALL(:exclude::bigint[]) AND @turn_passes
        ORDER BY t.created_at, t.uid LIMIT :most::bigint
    ) AS v
) AS r ORDER BY at, uid LIMIT :limit::bigint OFFSET :offset::bigint

-- name: history
SELECT uid, action, at, clock, snapshot FROM mnemosyne.history
WHERE snapshot <> '{}' AND uid IN (SELECT $1 UNION ALL SELECT uid FROM mnemosyne.aliases WHERE survivor = $1) ORDER BY clock, action COLLATE "C", uid

-- name: grave
SELECT s.theme, s.subject, t.state FROM mnemosyne.tombstones AS t JOIN mnemosyne.scopes AS s ON s.id = t.scope WHERE t.uid = $1

-- name: injected
SELECT i.uid FROM mnemosyne.injected AS i JOIN mnemosyne.scopes AS s ON s.id = i.scope
WHERE md5(s.theme) = md5($1) AND md5(s.subject) = md5($2) AND s.theme = $1 AND s.subject = $2
    AND md5(i.session_id) = md5($3) AND i.session_id = $3

-- name: stamp
SELECT p.stamp FROM mnemosyne.stamps AS p JOIN mnemosyne.scopes AS s ON s.id = p.scope
WHERE md5(s.theme) = md5($1) AND md5(s.subject) = md5('') AND s.theme = $1 AND s.subject = ''
    AND md5(p.place) = md5($2) AND p.place = $2

-- name: meta
SELECT value FROM mnemosyne.meta WHERE key = $1

-- name: metas
SELECT key, value FROM mnemosyne.meta WHERE key = ANY($1::text[])

-- name: figures
SELECT (SELECT count(*) FROM mnemosyne.history WHERE scope = ANY(:scopes::bigint[])),
    (SELECT count(*) FROM mnemosyne.tombstones WHERE state = 'retired' AND scope = ANY(:scopes::bigint[])),
    (SELECT count(*) FROM mnemosyne.tombstones WHERE state = 'forgotten' AND scope = ANY(:scopes::bigint[])),
    (SELECT count(*) FROM mnemosyne.aliases WHERE scope = ANY(:scopes::bigint[])),
    (SELECT count(*) FROM mnemosyne.entries WHERE superseded_by IS NOT NULL AND scope = ANY(:scopes::bigint[])),
    (SELECT count(*) FROM mnemosyne.entries WHERE valid_until <= :now::text AND scope = ANY(:scopes::bigint[])),
    coalesce(sum(memory_rows), 0)::bigint, coalesce(sum(user_rows), 0)::bigint, coalesce(sum(turn_rows), 0)::bigint,
    count(DISTINCT folded)
FROM mnemosyne.scopes WHERE id = ANY(:scopes::bigint[])

-- name: vector_figures
SELECT m.key, m.dimension, (SELECT count(*) FROM mnemosyne.vectors AS v WHERE v.model = m.id) FROM mnemosyne.vector_models AS m
ORDER BY m.key

-- name: applied
SELECT name FROM mnemosyne.migrations ORDER BY number

-- name: bytes
SELECT coalesce(sum(pg_relation_size(c.oid)), 0)::bigint FROM pg_catalog.pg_class AS c
WHERE c.relnamespace = 'mnemosyne'::regnamespace AND c.relkind IN ('r', 'i', 't')

-- name: server
SELECT current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector')

-- name: export_entries
SELECT e.id FROM mnemosyne.entries AS e JOIN mnemosyne.scopes AS s ON s.id = e.scope
ORDER BY s.theme, s.subject, e.created_at, e.uid

-- name: export_turns
SELECT t.id FROM mnemosyne.turns AS t JOIN mnemosyne.scopes AS s ON s.id = t.scope
JOIN mnemosyne.sessions AS n ON n.id = t.session ORDER BY s.theme, s.subject, n.session_id, t.position, t.uid

-- name: export_aliases
SELECT a.uid, a.survivor, a.clock, s.theme, s.subject FROM mnemosyne.aliases AS a JOIN mnemosyne.scopes AS s ON s.id = a.scope
ORDER BY a.uid

-- name: export_history
SELECT h.uid, h.action, h.at, h.clock, h.snapshot, s.theme, s.subject
FROM mnemosyne.history AS h JOIN mnemosyne.scopes AS s ON s.id = h.scope WHERE h.snapshot <> '{}' ORDER BY h.uid, h.clock, h.action

-- name: export_tombstones
SELECT t.uid, s.theme, s.subject, t.kind, t.state, t.visibility, t.at, t.clock, n.session_id, t.role, encode(t.content_hash, 'hex'),
    t.occurrence
FROM mnemosyne.tombstones AS t JOIN mnemosyne.scopes AS s ON s.id = t.scope
LEFT JOIN mnemosyne.sessions AS n ON n.id = t.session ORDER BY t.uid

-- name: export_forgotten
SELECT mac, clock, occurrence FROM mnemosyne.forgotten WHERE uid = $1 ORDER BY mac
