-- Deliveries of a tenant by what became of them.
CREATE INDEX deliveries_by_status ON deliveries (tenant, target_kind, status, ord);
-- Runs of a tenant by where they stand, the last to change last.
CREATE INDEX rows_by_standing ON thread_rows (tenant, body, ord, id) WHERE kind = 12;
