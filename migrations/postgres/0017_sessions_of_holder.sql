-- Sessions of people that began before `key_hash` named the person: nothing would find them to end them.
DELETE FROM sessions WHERE key_hash = '';
-- Sessions of a key or a person, to end them or the first of them.
CREATE INDEX sessions_of_holder ON sessions (key_hash, expires_at);
