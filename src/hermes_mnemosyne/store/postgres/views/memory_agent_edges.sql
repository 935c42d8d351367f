CREATE VIEW @schema.memory_agent_edges AS
SELECT id, parent_theme AS parent_identity, child_theme AS child_identity, parent_session_id, child_session_id, kind, ts, attrs
FROM mnemosyne.agent_edges;
