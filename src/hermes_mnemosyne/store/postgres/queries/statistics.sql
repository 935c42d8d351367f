-- name: due
-- Places that have grown or shrunk by a fifth since their words were counted, with their rows now, the largest first. Negative ones
-- stand for a shelf of all scopes: -1 - shelf. Small places are counted when they are asked for.
WITH shelves AS (
    SELECT s.id << 2 | v.shelf AS place, v.shelf, v.rows FROM mnemosyne.scopes AS s
    CROSS JOIN LATERAL (VALUES (0, s.memory_rows), (1, s.user_rows), (2, s.turn_rows)) AS v (shelf, rows)
), large AS (
    SELECT place, rows FROM shelves WHERE rows >= :least::bigint
    UNION ALL SELECT -1 - shelf, sum(rows)::bigint FROM shelves GROUP BY shelf HAVING sum(rows) >= :least::bigint
)
SELECT coalesce(n.place, p.place), coalesce(n.rows, 0) FROM large AS n FULL JOIN mnemosyne.places AS p ON p.place = n.place
WHERE p.place IS NULL OR n.place IS NULL OR abs(n.rows - p.rows) * 5 > p.rows
ORDER BY coalesce(n.rows, 0) DESC, 1 LIMIT :limit

-- name: words_of_place
-- Of a place the words of the texts themselves in one of `every` rows; hashed, so that no habit of writing decides which.
SELECT word, ndoc FROM ts_stat(format(
    'SELECT tsv FROM mnemosyne.tokens WHERE scope = %s AND row BETWEEN %s AND %s AND hashint8(row) & %s = 0',
    :place::bigint >> 2, :place::bigint << 36, (:place::bigint + 1 << 36) - 1, :every::bigint - 1), 'a')
WHERE ndoc >= :least::bigint

-- name: size_of_place
SELECT coalesce(sum(words), 0)::bigint FROM mnemosyne.tokens
WHERE scope = :place::bigint >> 2 AND row BETWEEN :place::bigint << 36 AND (:place::bigint + 1 << 36) - 1
    AND hashint8(row) & :every::bigint - 1 = 0

-- name: words_of_shelf
SELECT word, ndoc FROM ts_stat(format(
    'SELECT tsv FROM mnemosyne.tokens WHERE row >> 36 & 3 = %s AND hashint8(row) & %s = 0', -1 - :place::bigint, :every::bigint - 1), 'a')
WHERE ndoc >= :least::bigint

-- name: size_of_shelf
SELECT coalesce(sum(words), 0)::bigint FROM mnemosyne.tokens
WHERE row >> 36 & 3 = -1 - :place::bigint AND hashint8(row) & :every::bigint - 1 = 0

-- name: known
SELECT term, rows FROM mnemosyne.term_counts WHERE place = $1

-- name: save_terms
INSERT INTO mnemosyne.term_counts (place, term, rows) SELECT $1, * FROM unnest($2::text[], $3::bigint[])
ON CONFLICT (place, term) DO UPDATE SET rows = excluded.rows

-- name: drop_terms
DELETE FROM mnemosyne.term_counts WHERE place = $1 AND term = ANY($2::text[])

-- name: save_place
INSERT INTO mnemosyne.places (place, rows, words) VALUES ($1, $2, $3)
ON CONFLICT (place) DO UPDATE SET rows = excluded.rows, words = excluded.words

-- name: drop_place
DELETE FROM mnemosyne.places WHERE place = $1
