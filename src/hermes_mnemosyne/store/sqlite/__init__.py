"""The SQLite store: one file, WAL, FTS5 over encoded tokens, vectors as BLOBs."""
