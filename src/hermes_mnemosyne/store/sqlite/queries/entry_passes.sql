-- An entry `e` passes a filter. Parameters that are NULL do not filter. ASCII needs no `holds`.
(:since IS NULL OR coalesce(e.occurred_at, e.created_at) >= :since)
    AND (:until IS NULL OR coalesce(e.occurred_at, e.created_at) < :until)
    AND (:written_since IS NULL OR e.created_at >= :written_since)
    AND (:written_until IS NULL OR e.created_at < :written_until)
    AND (:now IS NULL OR e.valid_until IS NULL OR e.valid_until > :now)
    AND (:superseded OR e.superseded_by IS NULL)
    AND (:session IS NULL OR e.session_id = :session)
    AND (:contains IS NULL OR CASE WHEN length(e.content) = length(CAST(e.content AS BLOB))
        THEN instr(e.content, :contains) > 0 ELSE holds(e.content, :contains) END)
    AND (:tags IS NULL OR (SELECT count(*) FROM json_each(:tags) AS w
        WHERE w.value IN (SELECT value FROM json_each(e.tags))) = json_array_length(:tags))
