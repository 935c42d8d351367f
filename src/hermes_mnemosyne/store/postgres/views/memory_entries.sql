CREATE VIEW @schema.memory_entries AS
SELECT coalesce(l.legacy_id, e.id) AS id, s.theme AS agent_identity, e.target, e.content,
    (SELECT coalesce(v.embedding, v.half::@extension.vector) FROM mnemosyne.vectors AS v JOIN mnemosyne.vector_models AS m ON m.id = v.model
        WHERE v.scope = e.scope AND v.row = e.id AND m.active) AS embedding,
    e.created_at::timestamptz AS created_at, e.updated_at::timestamptz AS updated_at, e.metadata::jsonb AS metadata
FROM mnemosyne.entries AS e
JOIN mnemosyne.scopes AS s ON s.id = e.scope
LEFT JOIN mnemosyne.legacy_rows AS l ON l.uid = e.uid AND l.relation = 'memory_entries'
WHERE NOT EXISTS (
    SELECT FROM mnemosyne.forwarded AS f
    WHERE f.relation = 'memory_entries' AND f.problem IS NULL AND f.legacy_id = coalesce(l.legacy_id, e.id)
)
UNION ALL
SELECT f.legacy_id, f.after ->> 'agent_identity', f.after ->> 'target', f.after ->> 'content', NULL,
    (f.after ->> 'created_at')::timestamptz, (f.after ->> 'updated_at')::timestamptz, f.after -> 'metadata'
FROM (
    SELECT DISTINCT ON (legacy_id) legacy_id, after FROM mnemosyne.forwarded
    WHERE relation = 'memory_entries' AND problem IS NULL ORDER BY legacy_id, id DESC
) AS f
WHERE f.after IS NOT NULL;
CREATE TRIGGER mnemosyne_forward INSTEAD OF INSERT OR UPDATE OR DELETE ON @schema.memory_entries
    FOR EACH ROW EXECUTE FUNCTION mnemosyne.forward_entry();
