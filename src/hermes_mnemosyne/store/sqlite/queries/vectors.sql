-- name: insert_model
INSERT OR IGNORE INTO vector_models (name, dimension) VALUES (?, ?)

-- name: model
SELECT id, dimension FROM vector_models WHERE name = ?

-- name: attach
INSERT OR REPLACE INTO vectors (row, model, vector, sketch)
SELECT :row, :model, :vector, :sketch
WHERE EXISTS (SELECT 1 FROM entries WHERE id = :row) OR EXISTS (SELECT 1 FROM turns WHERE id = :row)

-- name: pending
SELECT id, kind, content FROM (
    SELECT e.id AS id, 'entry' AS kind, e.content AS content FROM entries AS e WHERE e.id > :after AND NOT EXISTS (
        SELECT 1 FROM vectors AS v JOIN vector_models AS m ON m.id = v.model WHERE m.name = :model AND v.row = e.id)
    UNION ALL
    SELECT t.id, 'turn', t.content FROM turns AS t WHERE t.id > :after AND NOT EXISTS (
        SELECT 1 FROM vectors AS v JOIN vector_models AS m ON m.id = v.model WHERE m.name = :model AND v.row = t.id)
)
ORDER BY id LIMIT :limit

-- name: vectors
SELECT v.row, v.vector FROM vectors AS v WHERE v.model = :model AND v.row BETWEEN :low AND :high
    AND (@passes(v.row))

-- name: sketches
SELECT v.row, v.sketch FROM vectors AS v WHERE v.model = :model AND v.row BETWEEN :low AND :high
    AND (@passes(v.row))

-- name: vectors_by_row
SELECT v.row, v.vector FROM vectors AS v WHERE v.model = ?1 AND v.row IN (SELECT value FROM json_each(?2))
