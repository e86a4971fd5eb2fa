-- What model calls took: rows of the kind 11, whose `ord` is the time.
CREATE INDEX rows_used ON thread_rows (tenant, ord) WHERE kind = 11;
