-- Runs of a tenant by where they stand, the last to change last.
CREATE INDEX rows_by_standing ON thread_rows (tenant, body, ord, id) WHERE kind = 12;
