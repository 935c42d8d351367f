-- Records that this store cannot read.

-- name: next
SELECT seq, theme, length(box) FROM mnemosyne.sealed WHERE seq > $1::bigint ORDER BY seq LIMIT $2::bigint

-- name: numbered
SELECT uid, slot, theme, key, clock, gone, box, seq FROM mnemosyne.sealed WHERE seq = ANY($1::bigint[]) ORDER BY seq

-- name: about
SELECT uid, slot, theme, key, clock, gone, box, seq FROM mnemosyne.sealed WHERE uid = ANY($1::text[]) ORDER BY seq

-- name: rows
SELECT theme, uid, gone, clock FROM mnemosyne.sealed WHERE slot = '' AND gone <> 'slot'

-- name: rows_of
SELECT theme, uid, gone, clock FROM mnemosyne.sealed WHERE slot = '' AND gone <> 'slot' AND theme = $1
