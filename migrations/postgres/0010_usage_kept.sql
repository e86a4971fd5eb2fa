-- What the model calls of deleted threads took: as the rows of the kind 11 were, without run and item.
CREATE TABLE usage_kept (
    tenant bigint NOT NULL,
    ord bigint NOT NULL,
    body text NOT NULL
);
CREATE INDEX usage_kept_used ON usage_kept (tenant, ord);
