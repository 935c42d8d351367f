-- A row passes a filter. `@row` is the row number.
EXISTS (SELECT 1 FROM mnemosyne.entries AS e WHERE e.scope = @row >> 38 AND e.id = @row AND @entry_passes)
    OR EXISTS (SELECT 1 FROM mnemosyne.turns AS t JOIN mnemosyne.sessions AS n ON n.id = t.session
        WHERE t.scope = @row >> 38 AND t.id = @row AND @turn_passes)
