-- The statements of the spool, one per name. Every index costs each append a page in the log, so there are few: the queue of all
-- themes is read by id past the few rows in quarantine. The body stands last, so that those are passed without reading it.

-- name: schema_application
PRAGMA application_id = 1299075952;

-- name: schema_version
PRAGMA user_version = 1;

-- name: schema_operation
CREATE TABLE operation (
    id INTEGER PRIMARY KEY,
    op_id TEXT NOT NULL UNIQUE,
    theme TEXT NOT NULL,
    queued_at TEXT NOT NULL,
    quarantined_at TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT NOT NULL DEFAULT '',
    bytes INTEGER NOT NULL,
    body TEXT NOT NULL
);

-- name: schema_queue
CREATE INDEX operation_queue ON operation (theme, id) WHERE quarantined_at IS NULL;

-- name: schema_totals
CREATE TABLE totals (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    bytes INTEGER NOT NULL DEFAULT 0,
    refused INTEGER NOT NULL DEFAULT 0,
    erased INTEGER NOT NULL DEFAULT 0,
    scrubbed INTEGER NOT NULL DEFAULT 0
);

-- name: schema_totals_row
INSERT INTO totals (one) VALUES (1);

-- name: schema_added
CREATE TRIGGER operation_added AFTER INSERT ON operation BEGIN
    UPDATE totals SET bytes = bytes + NEW.bytes;
END;

-- name: schema_removed
CREATE TRIGGER operation_removed AFTER DELETE ON operation BEGIN
    UPDATE totals SET bytes = bytes - OLD.bytes, erased = erased + 1;
END;

-- name: schema_rewritten
CREATE TRIGGER operation_rewritten AFTER UPDATE OF body ON operation BEGIN
    UPDATE totals SET bytes = bytes - OLD.bytes + NEW.bytes, erased = erased + 1;
END;

-- name: application_id
PRAGMA application_id;

-- name: user_version
PRAGMA user_version;

-- name: objects
SELECT count(*) FROM sqlite_master;

-- name: journal_mode
PRAGMA journal_mode;

-- name: use_log
PRAGMA journal_mode = WAL;

-- name: connection_synchronous_full
PRAGMA synchronous = FULL

-- name: connection_synchronous
PRAGMA synchronous = NORMAL;

-- name: connection_secure_delete
PRAGMA secure_delete = ON;

-- name: connection_temp_store
PRAGMA temp_store = MEMORY;

-- name: integrity
PRAGMA integrity_check(1);

-- name: vacuum
VACUUM;

-- name: checkpoint
PRAGMA wal_checkpoint(TRUNCATE);

-- name: totals
SELECT bytes, refused, erased, scrubbed FROM totals;

-- name: count_refusal
UPDATE totals SET refused = refused + ?;

-- name: mark_scrubbed
UPDATE totals SET scrubbed = max(scrubbed, ?);

-- name: changes
SELECT changes();

-- name: add
INSERT INTO operation (op_id, theme, queued_at, bytes, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT (op_id) DO NOTHING;

-- name: add_within
INSERT INTO operation (op_id, theme, queued_at, bytes, body)
SELECT ?1, ?2, ?3, ?4, ?5 WHERE (SELECT bytes FROM totals) + ?4 <= ?6
ON CONFLICT (op_id) DO NOTHING RETURNING 1;

-- name: take_over
INSERT INTO operation (op_id, theme, queued_at, quarantined_at, attempts, error, bytes, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (op_id) DO NOTHING;

-- name: everything
SELECT op_id, theme, queued_at, quarantined_at, attempts, error, bytes, body FROM operation ORDER BY id;

-- name: any_queued
SELECT 1 FROM operation WHERE quarantined_at IS NULL LIMIT 1;

-- name: any_queued_of_theme
SELECT 1 FROM operation WHERE quarantined_at IS NULL AND theme = ? LIMIT 1;

-- name: queued
SELECT op_id, body FROM operation WHERE quarantined_at IS NULL ORDER BY id LIMIT ?;

-- name: queued_of_theme
SELECT op_id, body FROM operation WHERE quarantined_at IS NULL AND theme = ? ORDER BY id LIMIT ?;

-- name: batch
SELECT op_id, body FROM (
    SELECT id, op_id, body, bytes, sum(bytes) OVER (ORDER BY id) AS total
    FROM (SELECT id, op_id, body, bytes FROM operation WHERE quarantined_at IS NULL ORDER BY id LIMIT ?1)
) WHERE total <= max(?2, bytes) ORDER BY id;

-- name: batch_of_theme
SELECT op_id, body FROM (
    SELECT id, op_id, body, bytes, sum(bytes) OVER (ORDER BY id) AS total
    FROM (SELECT id, op_id, body, bytes FROM operation WHERE quarantined_at IS NULL AND theme = ?1 ORDER BY id LIMIT ?2)
) WHERE total <= max(?3, bytes) ORDER BY id;

-- name: count
SELECT count(*) FROM operation WHERE quarantined_at IS NULL;

-- name: count_of_theme
SELECT count(*) FROM operation WHERE quarantined_at IS NULL AND theme = ?;

-- name: oldest
SELECT queued_at FROM operation WHERE quarantined_at IS NULL ORDER BY id LIMIT 1;

-- name: count_quarantined
SELECT count(*) FROM operation WHERE quarantined_at IS NOT NULL;

-- name: quarantined
SELECT op_id, theme, queued_at, quarantined_at, attempts, error, bytes, body
FROM operation WHERE quarantined_at IS NOT NULL ORDER BY id;

-- name: quarantine
UPDATE operation SET quarantined_at = ?, attempts = attempts + 1, error = ? WHERE op_id = ?;

-- name: requeue
UPDATE operation SET quarantined_at = NULL, error = '' WHERE quarantined_at IS NOT NULL AND op_id = ?;

-- name: requeue_all
UPDATE operation SET quarantined_at = NULL, error = '' WHERE quarantined_at IS NOT NULL;

-- name: drop_quarantined
DELETE FROM operation WHERE quarantined_at IS NOT NULL AND op_id = ?;

-- name: remove
DELETE FROM operation WHERE op_id = ?;

-- name: remove_all
DELETE FROM operation WHERE op_id IN (SELECT value FROM json_each(?));

-- name: bodies
SELECT op_id, body FROM operation ORDER BY id;

-- name: rewrite
UPDATE operation SET bytes = ?, body = ?, error = '' WHERE op_id = ?;
