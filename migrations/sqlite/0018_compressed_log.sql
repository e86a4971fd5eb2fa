-- The compressed text of an entry. Its `body` has only its time then, and what was added to it later.
ALTER TABLE observations ADD COLUMN compressed BLOB;
