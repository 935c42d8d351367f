CREATE VIEW @schema.memory_maintenance_log AS
SELECT id, ts, operation, target_table, theme_pattern AS identity_pattern, affected_count, dropped_dupes, dry_run, details
FROM mnemosyne.maintenance_log;
