-- A row passes a filter. `@row` is the row number.
EXISTS (SELECT 1 FROM entries AS e WHERE e.id = @row AND @entry_passes)
    OR EXISTS (SELECT 1 FROM turns AS t JOIN sessions AS n ON n.id = t.session WHERE t.id = @row AND @turn_passes)
