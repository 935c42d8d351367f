-- A row passes a filter. `@row` is the row number; parameters that are NULL do not filter.
EXISTS (
        SELECT 1 FROM entries AS e WHERE e.id = @row
            AND (:since IS NULL OR coalesce(e.occurred_at, e.created_at) >= :since)
            AND (:until IS NULL OR coalesce(e.occurred_at, e.created_at) < :until)
            AND (:written_since IS NULL OR e.created_at >= :written_since)
            AND (:written_until IS NULL OR e.created_at < :written_until)
            AND (:now IS NULL OR e.valid_until IS NULL OR e.valid_until > :now)
            AND (:superseded OR e.superseded_by IS NULL)
            AND (:session IS NULL OR e.session_id = :session)
            AND (:contains IS NULL OR instr(e.content, :contains) > 0)
            AND (:tags IS NULL OR (SELECT count(*) FROM json_each(:tags) AS w
                WHERE w.value IN (SELECT value FROM json_each(e.tags))) = json_array_length(:tags))
    ) OR EXISTS (
        SELECT 1 FROM turns AS t JOIN sessions AS n ON n.id = t.session WHERE t.id = @row AND :tags IS NULL
            AND (:since IS NULL OR coalesce(t.occurred_at, t.created_at) >= :since)
            AND (:until IS NULL OR coalesce(t.occurred_at, t.created_at) < :until)
            AND (:written_since IS NULL OR t.created_at >= :written_since)
            AND (:written_until IS NULL OR t.created_at < :written_until)
            AND (:session IS NULL OR n.session_id = :session)
            AND (:except_session IS NULL OR n.session_id <> :except_session)
            AND (:contains IS NULL OR instr(t.content, :contains) > 0)
    )
