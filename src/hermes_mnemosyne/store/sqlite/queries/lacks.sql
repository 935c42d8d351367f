-- A row (`@row`) waits for its first vector of `:model` and is not noted as missing yet.
NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.model = :model AND v.row = @row)
    AND NOT EXISTS (SELECT 1 FROM missing_vectors AS k WHERE k.model = :model AND k.row = @row)
    AND NOT EXISTS (SELECT 1 FROM vector_exclusions AS x WHERE x.row = @row)
