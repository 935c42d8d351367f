-- A turn `t` of a session `n` passes a filter. Parameters that are NULL do not filter. ASCII needs no `holds`.
:tags IS NULL
    AND (:since IS NULL OR coalesce(t.occurred_at, t.created_at) >= :since)
    AND (:until IS NULL OR coalesce(t.occurred_at, t.created_at) < :until)
    AND (:written_since IS NULL OR t.created_at >= :written_since)
    AND (:written_until IS NULL OR t.created_at < :written_until)
    AND (:session IS NULL OR n.session_id = :session)
    AND (:except_session IS NULL OR n.session_id <> :except_session)
    AND (:contains IS NULL OR CASE WHEN length(t.content) = length(CAST(t.content AS BLOB))
        THEN instr(t.content, :contains) > 0 ELSE holds(t.content, :contains) END)
