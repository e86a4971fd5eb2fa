-- What a tenant configures over REST. A deleted document keeps its row, without a body, so that whoever follows the
-- changes hears of it.
CREATE TABLE documents (
    tenant INTEGER NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    -- The revision that wrote it: never the same twice.
    version INTEGER NOT NULL UNIQUE,
    updated_at INTEGER NOT NULL,
    body TEXT,
    UNIQUE (tenant, kind, id)
) STRICT;

-- One row: how many writes there have been.
CREATE TABLE document_revision (
    id INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO document_revision (id, revision) VALUES (1, 0);

-- Lines that belong to no thread: who configured what.
CREATE INDEX audit_of_tenant ON audit (tenant) WHERE pk = 0;
