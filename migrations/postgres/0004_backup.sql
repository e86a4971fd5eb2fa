-- As of when this database was restored, until a start has held back what would go on by itself.
CREATE TABLE restored (as_of bigint NOT NULL);
