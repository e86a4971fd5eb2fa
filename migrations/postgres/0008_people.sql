-- Whom a session stands for that began with the token of an issuer, as JSON; then `key_hash` is empty.
ALTER TABLE sessions ADD COLUMN person text;
