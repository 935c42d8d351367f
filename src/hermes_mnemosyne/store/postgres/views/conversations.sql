CREATE VIEW @schema.conversations AS
SELECT coalesce(l.legacy_id, t.id) AS id, n.session_id, s.theme AS agent_identity, t.role, t.content, t.created_at::timestamptz AS ts,
    (SELECT coalesce(v.embedding, v.half::@extension.vector) FROM mnemosyne.vectors AS v JOIN mnemosyne.vector_models AS m ON m.id = v.model
        WHERE v.scope = t.scope AND v.row = t.id AND m.active) AS embedding,
    t.metadata::jsonb AS metadata, nullif(t.parent_session_id, '') AS parent_session_id
FROM mnemosyne.turns AS t
JOIN mnemosyne.scopes AS s ON s.id = t.scope
JOIN mnemosyne.sessions AS n ON n.id = t.session
LEFT JOIN mnemosyne.legacy_rows AS l ON l.uid = t.uid AND l.relation = 'conversations'
WHERE NOT EXISTS (
    SELECT FROM mnemosyne.forwarded AS f
    WHERE f.relation = 'conversations' AND f.problem IS NULL AND f.legacy_id = coalesce(l.legacy_id, t.id)
)
UNION ALL
SELECT f.legacy_id, f.after ->> 'session_id', f.after ->> 'agent_identity', f.after ->> 'role', f.after ->> 'content',
    (f.after ->> 'ts')::timestamptz, NULL, f.after -> 'metadata', f.after ->> 'parent_session_id'
FROM (
    SELECT DISTINCT ON (legacy_id) legacy_id, after FROM mnemosyne.forwarded
    WHERE relation = 'conversations' AND problem IS NULL ORDER BY legacy_id, id DESC
) AS f
WHERE f.after IS NOT NULL;
CREATE TRIGGER mnemosyne_forward INSTEAD OF INSERT OR UPDATE OR DELETE ON @schema.conversations
    FOR EACH ROW EXECUTE FUNCTION mnemosyne.forward_turn();
