-- What the model calls of a tenant, and of each of its keys, took in a day or a month (UTC), while a cap was set.
CREATE TABLE spend (
    tenant INTEGER NOT NULL,
    -- The name of a key; empty: all of the tenant.
    key TEXT NOT NULL,
    -- As 2026-11-24, or 2026-11.
    period TEXT NOT NULL,
    -- Billionths of a US dollar, of calls that were answered.
    used INTEGER NOT NULL,
    -- What calls under way may take at most.
    held INTEGER NOT NULL,
    -- How many percent of the cap webhooks were told of.
    told INTEGER NOT NULL,
    UNIQUE (tenant, key, period)
) STRICT;
