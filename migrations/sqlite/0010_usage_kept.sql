-- What the model calls of deleted threads took: as the rows of the kind 11 were, without run and item.
CREATE TABLE usage_kept (
    tenant INTEGER NOT NULL,
    ord INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX usage_kept_used ON usage_kept (tenant, ord);
