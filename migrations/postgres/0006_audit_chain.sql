-- The chain of each tenant's audit lines: the number and the hash of a line that was chained; NULL until then.
ALTER TABLE audit ADD COLUMN n bigint;
ALTER TABLE audit ADD COLUMN hash text;
CREATE UNIQUE INDEX audit_chain ON audit (tenant, n) WHERE n IS NOT NULL;
CREATE INDEX audit_unchained ON audit (tenant, id) WHERE n IS NULL;

-- How long each chain was, and what its last hash was.
CREATE TABLE audit_checkpoints (
    tenant bigint NOT NULL,
    n bigint NOT NULL,
    at bigint NOT NULL,
    hash text NOT NULL,
    -- The same, signed: a compact JWS; NULL: there was no key.
    jws text,
    PRIMARY KEY (tenant, n)
);
