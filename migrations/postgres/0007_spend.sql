-- What the model calls of a tenant, and of each of its keys, took in a day or a month (UTC), while a cap was set.
CREATE TABLE spend (
    tenant bigint NOT NULL,
    -- Billionths of a US dollar, of calls that were answered.
    used bigint NOT NULL,
    -- What calls under way may take at most.
    held bigint NOT NULL,
    -- How many percent of the cap webhooks were told of.
    told bigint NOT NULL,
    -- The name of a key; empty: all of the tenant.
    key text COLLATE "C" NOT NULL,
    -- As 2026-11-24, or 2026-11.
    period text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, key, period)
) WITH (fillfactor = 50);
