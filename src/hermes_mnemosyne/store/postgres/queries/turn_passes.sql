-- A turn `t` of a session `n` passes a filter. Parameters that are NULL do not filter; `contains` is composed (NFC), which ASCII always is.
:tags::text[] IS NULL
    AND (:since::text IS NULL OR coalesce(t.occurred_at, t.created_at) >= :since::text)
    AND (:until::text IS NULL OR coalesce(t.occurred_at, t.created_at) < :until::text)
    AND (:written_since::text IS NULL OR t.created_at >= :written_since::text)
    AND (:written_until::text IS NULL OR t.created_at < :written_until::text)
    AND (:session::text IS NULL OR n.session_id = :session::text)
    AND (:except_session::text IS NULL OR n.session_id <> :except_session::text)
    AND (:contains::text IS NULL OR CASE WHEN octet_length(t.content) = length(t.content)
        THEN strpos(t.content, :contains::text) > 0 ELSE strpos(normalize(t.content, NFC), :contains::text) > 0 END)
