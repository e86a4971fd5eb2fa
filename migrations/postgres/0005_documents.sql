-- What a tenant configures over REST. A deleted document keeps its row, without a body, so that whoever follows the
-- changes hears of it.
CREATE TABLE documents (
    tenant bigint NOT NULL,
    -- The revision that wrote it: never the same twice.
    version bigint NOT NULL UNIQUE,
    updated_at bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    body text,
    PRIMARY KEY (tenant, kind, id)
);

-- One row: how many writes there have been. Locked until its write is committed, so versions are seen in their order.
CREATE TABLE document_revision (
    id integer PRIMARY KEY,
    revision bigint NOT NULL
);
INSERT INTO document_revision (id, revision) VALUES (1, 0);

-- Lines that belong to no thread: who configured what.
CREATE INDEX audit_of_tenant ON audit (tenant, id) WHERE pk = 0;
