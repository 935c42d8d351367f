-- name: any_expiring
SELECT 1 FROM entries WHERE valid_until IS NOT NULL LIMIT 1

-- name: any_superseded
SELECT 1 FROM entries WHERE superseded_by IS NOT NULL LIMIT 1

-- name: session
SELECT n.id FROM sessions AS n WHERE n.session_id = ? AND n.scope IN (SELECT value FROM json_each(?))

-- name: session_turns
SELECT count(*) FROM sessions AS n JOIN turns AS t ON t.session = n.id
WHERE n.session_id = ? AND n.scope IN (SELECT value FROM json_each(?))

-- name: best_in_range
SELECT rowid, -bm25(tokens, 1.0, 0.3, 0.0, 0.0) AS score FROM tokens
WHERE tokens MATCH :match AND rowid BETWEEN :low AND :high ORDER BY score DESC, rowid LIMIT :limit

-- name: best_anywhere
SELECT rowid, -bm25(tokens, 1.0, 0.3, 0.0, 0.0) AS score FROM tokens
WHERE tokens MATCH :match AND (:places IS NULL OR rowid >> 36 IN (SELECT value FROM json_each(:places)))
ORDER BY score DESC, rowid LIMIT :limit

-- name: newest_in_range
SELECT rowid FROM tokens WHERE tokens MATCH :match AND rowid BETWEEN :low AND :high ORDER BY rowid DESC LIMIT :limit

-- name: filtered_in_range
SELECT rowid, -bm25(tokens, 1.0, 0.3, 0.0, 0.0) AS score FROM tokens
WHERE tokens MATCH :match AND rowid BETWEEN :low AND :high
    AND (@passes(tokens.rowid))
ORDER BY score DESC, rowid LIMIT :limit

-- name: newest_filtered
SELECT rowid FROM tokens WHERE tokens MATCH :match AND rowid BETWEEN :low AND :high
    AND (@passes(tokens.rowid))
ORDER BY rowid DESC LIMIT :limit

-- name: count_in_range
SELECT count(*) FROM (SELECT 1 FROM tokens WHERE tokens MATCH ? AND rowid BETWEEN ? AND ? LIMIT ?)

-- name: count_anywhere
SELECT count(*) FROM (SELECT 1 FROM tokens
    WHERE tokens MATCH ?1 AND (?2 IS NULL OR rowid >> 36 IN (SELECT value FROM json_each(?2))) LIMIT ?3)

-- name: bodies
SELECT t.rowid, t.body FROM json_each(?) AS j JOIN tokens AS t ON t.rowid = j.value

-- name: bodies_with_recent
SELECT t.rowid, t.body FROM json_each(?1) AS j JOIN tokens AS t ON t.rowid = j.value
UNION ALL SELECT r.row, r.body FROM json_each(?1) AS j JOIN recent_tokens AS r ON r.row = j.value

-- name: speakers
SELECT speaker FROM speakers WHERE scope IN (SELECT value FROM json_each(?)) GROUP BY speaker ORDER BY sum(turns) DESC LIMIT 256

-- name: beside
SELECT t.id,
    (SELECT p.id FROM turns AS p WHERE p.session = t.session AND (p.position, p.uid) < (t.position, t.uid)
        ORDER BY p.position DESC, p.uid DESC LIMIT 1),
    (SELECT n.id FROM turns AS n WHERE n.session = t.session AND (n.position, n.uid) > (t.position, t.uid)
        ORDER BY n.position, n.uid LIMIT 1)
FROM json_each(?) AS j JOIN turns AS t ON t.id = j.value
