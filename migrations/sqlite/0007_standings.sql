-- Since when runs stand as they do: rows of the kind 12, whose `ord` is the time.
CREATE INDEX rows_standing ON thread_rows (tenant, ord, id) WHERE kind = 12;
