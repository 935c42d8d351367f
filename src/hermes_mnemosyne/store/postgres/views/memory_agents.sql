CREATE VIEW @schema.memory_agents AS
SELECT id, theme AS agent_identity, kind, first_seen, last_seen, attrs FROM mnemosyne.agents;
