-- The compressed text of an entry. Its `body` has only its time then, and what was added to it later.
ALTER TABLE observations ADD COLUMN compressed bytea;
-- In its row, as the body.
ALTER TABLE observations ALTER COLUMN compressed SET STORAGE MAIN;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE observations ALTER COLUMN compressed SET COMPRESSION lz4;
    END IF;
END
$$;
