-- The chain of each tenant's audit lines: the number and the hash of a line that was chained; NULL until then.
ALTER TABLE audit ADD COLUMN n INTEGER;
ALTER TABLE audit ADD COLUMN hash TEXT;
CREATE UNIQUE INDEX audit_chain ON audit (tenant, n) WHERE n IS NOT NULL;
CREATE INDEX audit_unchained ON audit (tenant) WHERE n IS NULL;

-- How long each chain was, and what its last hash was.
CREATE TABLE audit_checkpoints (
    tenant INTEGER NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    hash TEXT NOT NULL,
    -- The same, signed: a compact JWS; NULL: there was no key.
    jws TEXT,
    PRIMARY KEY (tenant, n)
) STRICT, WITHOUT ROWID;
