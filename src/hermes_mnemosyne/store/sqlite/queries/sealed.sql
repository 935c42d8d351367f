-- Records that this store cannot read.

-- name: next
SELECT seq, theme, length(box) FROM sealed WHERE seq > ? ORDER BY seq LIMIT ?

-- name: numbered
SELECT uid, slot, theme, key, clock, gone, box, seq FROM sealed WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq

-- name: about
SELECT uid, slot, theme, key, clock, gone, box, seq FROM sealed WHERE uid IN (SELECT value FROM json_each(?)) ORDER BY seq

-- name: rows
SELECT theme, uid, gone, clock FROM sealed WHERE slot = '' AND gone <> 'slot'

-- name: rows_of
SELECT theme, uid, gone, clock FROM sealed WHERE slot = '' AND gone <> 'slot' AND theme = ?
