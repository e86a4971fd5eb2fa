-- Deliveries of a tenant by what became of them; those of one status are in the order of their `ord`.
CREATE INDEX deliveries_by_status ON deliveries (tenant, target_kind, status);
-- Runs of a tenant by where they stand, the last to change last.
CREATE INDEX rows_by_standing ON thread_rows (tenant, body, ord, id) WHERE kind = 12;
