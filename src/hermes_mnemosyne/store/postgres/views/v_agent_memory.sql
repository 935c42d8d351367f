CREATE VIEW @schema.v_agent_memory AS
SELECT coalesce(a.theme, s.theme) AS agent_identity, a.kind, coalesce(s.memory_rows, 0) AS memory_rows,
    coalesce(s.conversation_rows, 0) AS conversation_rows, a.first_seen, a.last_seen
FROM mnemosyne.agents AS a
FULL JOIN (
    SELECT theme, sum(memory_rows + user_rows)::bigint AS memory_rows, sum(turn_rows)::bigint AS conversation_rows
    FROM mnemosyne.scopes GROUP BY theme HAVING sum(memory_rows + user_rows + turn_rows) > 0
) AS s ON s.theme = a.theme
ORDER BY 1;
