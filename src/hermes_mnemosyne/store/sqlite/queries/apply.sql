-- name: oldest_writer
SELECT max(oldest_writer) FROM migrations
