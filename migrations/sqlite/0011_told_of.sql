-- The cap of which `told` percent were told; 0: an earlier release told them, of the cap that stands.
ALTER TABLE spend ADD COLUMN told_of INTEGER NOT NULL DEFAULT 0;
