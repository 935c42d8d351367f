-- name: scopes_all
SELECT q.seq, (SELECT relkind = 'p' FROM pg_class WHERE oid = 'mnemosyne.tokens'::regclass), s.id, s.theme, s.subject, s.memory_rows, s.user_rows, s.turn_rows
FROM mnemosyne.sequence AS q LEFT JOIN mnemosyne.scopes AS s ON $1::text IS NULL OR s.subject = $1::text
ORDER BY s.id

-- name: scopes_of
SELECT q.seq, (SELECT relkind = 'p' FROM pg_class WHERE oid = 'mnemosyne.tokens'::regclass), s.id, s.theme, s.subject, s.memory_rows, s.user_rows, s.turn_rows
FROM mnemosyne.sequence AS q LEFT JOIN mnemosyne.scopes AS s
    ON md5(s.folded) IN (SELECT md5(f) FROM unnest($2::text[]) AS f) AND s.folded = ANY($2::text[])
    AND ($1::text IS NULL OR s.subject = $1::text)
ORDER BY s.id

-- name: sequence
SELECT seq FROM mnemosyne.sequence

-- name: facets
-- Sessions by name, and whether rows with an expiry or superseded ones exist at all.
SELECT ARRAY(SELECT n.id FROM mnemosyne.sessions AS n
        WHERE n.scope = ANY(:scopes::bigint[]) AND md5(n.session_id) = md5(:session::text) AND n.session_id = :session::text ORDER BY n.id),
    ARRAY(SELECT n.id FROM mnemosyne.sessions AS n
        WHERE n.scope = ANY(:scopes::bigint[]) AND md5(n.session_id) = md5(:except_session::text)
            AND n.session_id = :except_session::text ORDER BY n.id),
    EXISTS (SELECT 1 FROM mnemosyne.entries WHERE valid_until IS NOT NULL),
    EXISTS (SELECT 1 FROM mnemosyne.entries WHERE superseded_by IS NOT NULL)

-- name: ages
-- The least and the greatest row number of each place.
SELECT p.place,
    (SELECT k.row FROM mnemosyne.tokens AS k WHERE k.scope = p.place >> 2 AND k.row BETWEEN p.place << 36 AND (p.place + 1 << 36) - 1
        ORDER BY k.row LIMIT 1),
    (SELECT k.row FROM mnemosyne.tokens AS k WHERE k.scope = p.place >> 2 AND k.row BETWEEN p.place << 36 AND (p.place + 1 << 36) - 1
        ORDER BY k.row DESC LIMIT 1)
FROM unnest($1::bigint[]) AS p (place)

-- name: session_turns
SELECT count(*) FROM mnemosyne.sessions AS n JOIN mnemosyne.turns AS t ON t.scope = n.scope AND t.session = n.id
WHERE n.scope = ANY($2::bigint[]) AND md5(n.session_id) = md5($1::text) AND n.session_id = $1::text

-- name: best
-- Of the `newest` rows that match (all where it is NULL) the best; no row matches two of `matches`. `ts_rank` of one word grows with
-- its places in a row towards 1; what it counts for grows less the more it is, and less in a long row. Words beyond the eighth count
-- in two groups, by their mean weight. OFFSET 0: scores are sorted, not the vectors that they are of. Scopes are asked for by row
-- number, which no index knows: to look up each row of a scope in another index takes longer. `pruned` chooses partitions.
WITH newest AS MATERIALIZED (
    SELECT row, score FROM (
        SELECT k.row,
            coalesce(:weight_1::float8 * (1 - n.norm / (ts_rank(:labels::float4[], k.tsv, :word_1::tsquery) + n.norm)), 0)
            + coalesce(:weight_2::float8 * (1 - n.norm / (ts_rank(:labels::float4[], k.tsv, :word_2::tsquery) + n.norm)), 0)
            + coalesce(:weight_3::float8 * (1 - n.norm / (ts_rank(:labels::float4[], k.tsv, :word_3::tsquery) + n.norm)), 0)
            + coalesce(:weight_4::float8 * (1 - n.norm / (ts_rank(:labels::float4[], k.tsv, :word_4::tsquery) + n.norm)), 0)
            + coalesce(:weight_5::float8 * (1 - n.norm / (ts_rank(:labels::float4[], k.tsv, :word_5::tsquery) + n.norm)), 0)
            + coalesce(:weight_6::float8 * (1 - n.norm / (ts_rank(:labels::float4[], k.tsv, :word_6::tsquery) + n.norm)), 0)
            + coalesce(:weight_7::float8 * (1 - n.norm / (ts_rank(:labels::float4[], k.tsv, :word_7::tsquery) + n.norm)), 0)
            + coalesce(:weight_8::float8 * (1 - n.norm / (ts_rank(:labels::float4[], k.tsv, :word_8::tsquery) + n.norm)), 0)
            + coalesce(:weight_9::float8 * ts_rank(:labels::float4[], k.tsv, :word_9::tsquery) / (:once::float8 + n.norm), 0)
            + coalesce(:weight_10::float8 * ts_rank(:labels::float4[], k.tsv, :word_10::tsquery) / (:once::float8 + n.norm), 0)
            AS score
        FROM unnest(:matches::text[]) AS m (match)
        JOIN mnemosyne.tokens AS k ON k.tsv @@ m.match::tsquery
        CROSS JOIN LATERAL (SELECT :least::float8 + :slope::float8 * k.words AS norm) AS n
        WHERE (:scopes::bigint[] IS NULL OR k.row >> 38 = ANY(:scopes::bigint[]))
            AND (:pruned::bigint[] IS NULL OR k.scope = ANY(:pruned::bigint[]))
            AND k.row <> ALL(:skip::bigint[])
            AND (NOT :expiring::boolean OR NOT k.tsv @@ '''/ve'''::tsquery OR EXISTS (
                SELECT 1 FROM mnemosyne.entries AS x WHERE x.scope = k.scope AND x.id = k.row AND x.valid_until > :now::text))
            AND (NOT :look::boolean OR @passes(k.row))
        OFFSET 0
    ) AS matched ORDER BY CASE WHEN :newest::bigint IS NULL THEN NULL ELSE row & 68719476735 END DESC LIMIT :newest::bigint
)
SELECT row, score, (SELECT count(*) FROM newest) FROM newest ORDER BY score DESC, row LIMIT :limit::bigint

-- name: count
-- In how many rows each word stands, counted up to the ceiling.
SELECT w.term, (
    SELECT count(*) FROM (
        SELECT 1 FROM mnemosyne.tokens AS k
        WHERE k.tsv @@ w.match::tsquery
            AND (:scopes::bigint[] IS NULL OR k.row >> 38 = ANY(:scopes::bigint[]))
            AND (:pruned::bigint[] IS NULL OR k.scope = ANY(:pruned::bigint[]))
        LIMIT :ceiling::bigint
    ) AS c)
FROM unnest(:terms::text[], :matches::text[]) AS w (term, match)

-- name: listed
-- Rows and words of places when their words were counted (without a term), and the words that stood often there.
SELECT NULL, coalesce(sum(p.rows), 0)::bigint, coalesce(sum(p.words), 0)::bigint FROM mnemosyne.places AS p WHERE p.place = ANY($1::bigint[])
UNION ALL
SELECT c.term, sum(c.rows)::bigint, 0 FROM mnemosyne.term_counts AS c
WHERE c.place = ANY($1::bigint[]) AND c.term = ANY($2::text[]) GROUP BY c.term

-- name: average
SELECT avg(words)::float8 FROM (
    SELECT k.words FROM mnemosyne.tokens AS k
    WHERE k.scope = ANY($1::bigint[]) AND k.row >> 36 = ANY($2::bigint[]) ORDER BY k.scope, k.row LIMIT $3
) AS w

-- name: words_held
SELECT k.row, ARRAY(SELECT w.term FROM unnest($2::text[], $3::text[]) AS w (term, match) WHERE k.tsv @@ w.match::tsquery)
FROM unnest($1::bigint[]) AS j (row) JOIN mnemosyne.tokens AS k ON k.scope = j.row >> 38 AND k.row = j.row

-- name: speakers
SELECT speaker FROM mnemosyne.speakers WHERE scope = ANY($1::bigint[]) GROUP BY speaker ORDER BY sum(turns) DESC, speaker LIMIT 256

-- name: beside
SELECT t.id,
    (SELECT p.id FROM mnemosyne.turns AS p WHERE p.scope = t.scope AND p.session = t.session AND (p.position, p.uid) < (t.position, t.uid)
        ORDER BY p.position DESC, p.uid DESC LIMIT 1),
    (SELECT n.id FROM mnemosyne.turns AS n WHERE n.scope = t.scope AND n.session = t.session AND (n.position, n.uid) > (t.position, t.uid)
        ORDER BY n.position, n.uid LIMIT 1)
FROM unnest($1::bigint[]) AS j (id) JOIN mnemosyne.turns AS t ON t.scope = j.id >> 38 AND t.id = j.id
