-- oldest-writer: 1
-- What connects this store with the tables of hermes-memory-pgvector: changes made under the old names wait in `forwarded` until our
-- own code applies them by its rules, and changes made here reach the old tables where these exist.

-- A change under an old name: the row before and after it, without its vector. `held` ones wait for a host that has the subject key,
-- those with a `problem` could not be applied.
CREATE TABLE mnemosyne.forwarded (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    relation text COLLATE "C" NOT NULL,
    action text NOT NULL CHECK (action IN ('INSERT', 'UPDATE', 'DELETE')),
    legacy_id bigint NOT NULL,
    before jsonb,
    after jsonb,
    held boolean NOT NULL DEFAULT false,
    problem text
);
CREATE INDEX forwarded_by_row ON mnemosyne.forwarded (relation, legacy_id, id);
-- A search asks whether any waits, beside however many are held.
CREATE INDEX forwarded_waiting ON mnemosyne.forwarded (held, id) WHERE problem IS NULL;

CREATE INDEX forwarded_by_text ON mnemosyne.forwarded (md5(after ->> 'content'))
    WHERE relation = 'memory_entries' AND action <> 'DELETE' AND problem IS NULL;

-- Which row of ours an old id stands for; none (an empty uid) for rows without text.
CREATE TABLE mnemosyne.legacy_rows (
    relation text COLLATE "C" NOT NULL,
    legacy_id bigint NOT NULL,
    uid text COLLATE "C" NOT NULL,
    PRIMARY KEY (relation, legacy_id)
);
CREATE INDEX legacy_rows_by_uid ON mnemosyne.legacy_rows (uid);

-- Ids of rows that are added under the old names. Those of the old tables are smaller, row numbers are greater.
CREATE SEQUENCE mnemosyne.legacy_ids;

-- AFTER each row of an old table. SECURITY DEFINER: whoever may write there has no rights here.
CREATE FUNCTION mnemosyne.forward() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before jsonb;
    after jsonb;
BEGIN
    IF current_setting('mnemosyne.mirroring', true) = 'on' THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        before := to_jsonb(OLD) - 'embedding';
    END IF;
    IF TG_OP <> 'DELETE' THEN
        after := to_jsonb(NEW) - 'embedding';
    END IF;
    IF before IS DISTINCT FROM after THEN
        INSERT INTO mnemosyne.forwarded (relation, action, legacy_id, before, after)
        VALUES (TG_TABLE_NAME, TG_OP, (coalesce(before, after) ->> 'id')::bigint, before, after);
    END IF;
    RETURN NULL;
END
$$;

-- INSTEAD OF each row of the view memory_entries.
CREATE FUNCTION mnemosyne.forward_entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO mnemosyne.forwarded (relation, action, legacy_id, before)
        VALUES ('memory_entries', TG_OP, OLD.id, to_jsonb(OLD) - 'embedding');
        RETURN OLD;
    END IF;
    IF TG_OP = 'INSERT' THEN
        NEW.id := coalesce(NEW.id, nextval('mnemosyne.legacy_ids'));
        NEW.agent_identity := coalesce(NEW.agent_identity, 'default');
        NEW.created_at := coalesce(NEW.created_at, now());
        NEW.updated_at := coalesce(NEW.updated_at, now());
        NEW.metadata := coalesce(NEW.metadata, '{}');
    END IF;
    IF NEW.content IS NULL OR NEW.target IS NULL OR NEW.agent_identity IS NULL OR NEW.metadata IS NULL THEN
        RAISE not_null_violation USING MESSAGE = 'agent_identity, target, content and metadata of memory_entries must not be null';
    END IF;
    IF NEW.target NOT IN ('memory', 'user') THEN
        RAISE check_violation USING MESSAGE = 'target of memory_entries must be memory or user';
    END IF;
    IF TG_OP = 'UPDATE' THEN
        IF NEW.id <> OLD.id THEN
            RAISE feature_not_supported USING MESSAGE = 'the id of a row of memory_entries cannot change';
        END IF;
        IF to_jsonb(NEW) - 'embedding' IS DISTINCT FROM to_jsonb(OLD) - 'embedding' THEN
            INSERT INTO mnemosyne.forwarded (relation, action, legacy_id, before, after)
            VALUES ('memory_entries', TG_OP, OLD.id, to_jsonb(OLD) - 'embedding', to_jsonb(NEW) - 'embedding');
        END IF;
        RETURN NEW;
    END IF;
    -- As with ON CONFLICT DO NOTHING: to add what exists changes nothing.
    IF EXISTS (
        SELECT FROM mnemosyne.entries AS e JOIN mnemosyne.scopes AS s ON s.id = e.scope
        WHERE md5(s.theme) = md5(NEW.agent_identity) AND s.theme = NEW.agent_identity AND s.subject = '' AND e.target = NEW.target
            AND e.content_hash = sha256(convert_to(NEW.content, 'UTF8')) AND NOT EXISTS (
                -- What waits to be done to that row decides, as it does for whoever reads the view.
                SELECT FROM mnemosyne.forwarded AS f
                WHERE f.relation = 'memory_entries' AND f.problem IS NULL AND f.legacy_id = ANY (array_append(
                    array(SELECT l.legacy_id FROM mnemosyne.legacy_rows AS l WHERE l.uid = e.uid AND l.relation = 'memory_entries'), e.id))
            )
    ) OR EXISTS (
        SELECT FROM mnemosyne.forwarded AS f
        WHERE f.relation = 'memory_entries' AND f.action <> 'DELETE' AND f.problem IS NULL
            AND md5(f.after ->> 'content') = md5(NEW.content) AND f.after ->> 'target' = NEW.target
            AND f.after ->> 'agent_identity' = NEW.agent_identity AND f.after ->> 'content' = NEW.content
            AND f.id = (SELECT max(l.id) FROM mnemosyne.forwarded AS l WHERE l.relation = f.relation AND l.legacy_id = f.legacy_id)
    ) THEN
        RETURN NULL;
    END IF;
    INSERT INTO mnemosyne.forwarded (relation, action, legacy_id, after)
    VALUES ('memory_entries', TG_OP, NEW.id, to_jsonb(NEW) - 'embedding');
    RETURN NEW;
END
$$;

-- INSTEAD OF each row of the view conversations.
CREATE FUNCTION mnemosyne.forward_turn() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO mnemosyne.forwarded (relation, action, legacy_id, before)
        VALUES ('conversations', TG_OP, OLD.id, to_jsonb(OLD) - 'embedding');
        RETURN OLD;
    END IF;
    IF TG_OP = 'INSERT' THEN
        NEW.id := coalesce(NEW.id, nextval('mnemosyne.legacy_ids'));
        NEW.agent_identity := coalesce(NEW.agent_identity, 'default');
        NEW.ts := coalesce(NEW.ts, now());
        NEW.metadata := coalesce(NEW.metadata, '{}');
    END IF;
    IF NEW.content IS NULL OR NEW.role IS NULL OR NEW.session_id IS NULL OR NEW.agent_identity IS NULL OR NEW.metadata IS NULL THEN
        RAISE not_null_violation
            USING MESSAGE = 'session_id, agent_identity, role, content and metadata of conversations must not be null';
    END IF;
    IF NEW.role NOT IN ('user', 'assistant', 'system', 'tool') THEN
        RAISE check_violation USING MESSAGE = 'role of conversations must be user, assistant, system or tool';
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO mnemosyne.forwarded (relation, action, legacy_id, after)
        VALUES ('conversations', TG_OP, NEW.id, to_jsonb(NEW) - 'embedding');
        RETURN NEW;
    END IF;
    IF NEW.id <> OLD.id THEN
        RAISE feature_not_supported USING MESSAGE = 'the id of a row of conversations cannot change';
    END IF;
    IF to_jsonb(NEW) - 'embedding' IS DISTINCT FROM to_jsonb(OLD) - 'embedding' THEN
        INSERT INTO mnemosyne.forwarded (relation, action, legacy_id, before, after)
        VALUES ('conversations', TG_OP, OLD.id, to_jsonb(OLD) - 'embedding', to_jsonb(NEW) - 'embedding');
    END IF;
    RETURN NEW;
END
$$;

-- Where the old table of this name lies, nothing where there is none.
CREATE FUNCTION mnemosyne.old_table(relation text) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid::regclass::text FROM mnemosyne.meta AS m JOIN pg_namespace AS n ON n.nspname = m.value
        JOIN pg_class AS c ON c.relnamespace = n.oid
    WHERE m.key = 'legacy_schema' AND c.relname = relation AND c.relkind IN ('r', 'p')
        AND relation IN ('memory_entries', 'conversations')
$$;

-- Takes a row out of an old table.
CREATE FUNCTION mnemosyne.drop_old_row(relation text, old_id bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place text := mnemosyne.old_table(relation);
BEGIN
    IF place IS NOT NULL THEN
        PERFORM set_config('mnemosyne.mirroring', 'on', true);
        EXECUTE format('DELETE FROM %s WHERE id = $1', place) USING old_id;
        PERFORM set_config('mnemosyne.mirroring', '', true);
    END IF;
END
$$;

-- Changes the text of an old entry. An old table that cannot hold the new one (equal to another row's, or too long for its indexes)
-- loses the row, so that it does not keep the old text.
CREATE FUNCTION mnemosyne.change_old_row(old_id bigint, text text, at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place text := mnemosyne.old_table('memory_entries');
BEGIN
    IF place IS NOT NULL THEN
        PERFORM set_config('mnemosyne.mirroring', 'on', true);
        BEGIN
            EXECUTE format('UPDATE %s SET content = $2, embedding = NULL, updated_at = $3 WHERE id = $1', place)
                USING old_id, text, at;
        EXCEPTION WHEN unique_violation OR program_limit_exceeded THEN
            EXECUTE format('DELETE FROM %s WHERE id = $1', place) USING old_id;
        END;
        PERFORM set_config('mnemosyne.mirroring', '', true);
    END IF;
END
$$;

-- AFTER each row of entries and turns, where old tables exist: what is changed, retired or forgotten here changes or goes there. The
-- argument is the old table's name.
CREATE FUNCTION mnemosyne.mirror() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_id bigint;
BEGIN
    IF current_setting('mnemosyne.forwarding', true) IS DISTINCT FROM 'on' THEN
        FOR old_id IN SELECT legacy_id FROM mnemosyne.legacy_rows WHERE uid = OLD.uid AND relation = TG_ARGV[0] LOOP
            IF TG_OP = 'DELETE' THEN
                PERFORM mnemosyne.drop_old_row(TG_ARGV[0], old_id);
                DELETE FROM mnemosyne.forwarded WHERE relation = TG_ARGV[0] AND legacy_id = old_id AND problem IS NOT NULL;
            ELSIF NEW.content <> OLD.content THEN
                PERFORM mnemosyne.change_old_row(old_id, NEW.content, (to_jsonb(NEW) ->> 'updated_at')::timestamptz);
            END IF;
        END LOOP;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.uid <> OLD.uid THEN
        UPDATE mnemosyne.legacy_rows SET uid = NEW.uid WHERE uid = OLD.uid AND relation = TG_ARGV[0];
    END IF;
    RETURN NULL;
END
$$;

-- Notes how far the copy of an old table has come: whoever copies may not write the ledger otherwise.
CREATE FUNCTION mnemosyne.note_job(job integer, new_state text, at text, by_release text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE mnemosyne.migrations SET state = new_state, applied_at = at, release = by_release WHERE number = job AND number > 9000
$$;

-- AFTER each row of the old tables of attribution and maintenance: these are copied as they are.
CREATE FUNCTION mnemosyne.forward_agent() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM mnemosyne.agents WHERE md5(theme) = md5(OLD.agent_identity) AND theme = OLD.agent_identity;
    ELSE
        INSERT INTO mnemosyne.agents AS a (id, theme, kind, first_seen, last_seen, attrs)
        VALUES (NEW.id, NEW.agent_identity, NEW.kind, NEW.first_seen, NEW.last_seen, NEW.attrs)
        ON CONFLICT (md5(theme)) DO UPDATE SET kind = excluded.kind, first_seen = least(a.first_seen, excluded.first_seen),
            last_seen = greatest(a.last_seen, excluded.last_seen), attrs = a.attrs || excluded.attrs;
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION mnemosyne.forward_edge() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM mnemosyne.agent_edges WHERE id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO mnemosyne.agent_edges (id, parent_theme, child_theme, parent_session_id, child_session_id, kind, ts, attrs)
        VALUES (NEW.id, NEW.parent_identity, NEW.child_identity, NEW.parent_session_id, NEW.child_session_id, NEW.kind, NEW.ts, NEW.attrs)
        ON CONFLICT (id) DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION mnemosyne.forward_log() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM mnemosyne.maintenance_log WHERE id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO mnemosyne.maintenance_log (id, ts, operation, target_table, theme_pattern, affected_count, dropped_dupes, dry_run, details)
        VALUES (NEW.id, NEW.ts, NEW.operation, NEW.target_table, NEW.identity_pattern, NEW.affected_count, NEW.dropped_dupes,
            NEW.dry_run, NEW.details)
        ON CONFLICT (id) DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;

-- The old tables number their rows from 1; ours beside them begin where those will not come to.
ALTER TABLE mnemosyne.agents ALTER COLUMN id RESTART WITH 1099511627776;
ALTER TABLE mnemosyne.agent_edges ALTER COLUMN id RESTART WITH 1099511627776;
ALTER TABLE mnemosyne.maintenance_log ALTER COLUMN id RESTART WITH 1099511627776;
