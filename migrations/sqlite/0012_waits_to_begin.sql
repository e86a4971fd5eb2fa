-- Threads whose next run waits until it may begin: rows of the kind 17, whose `ord` is the time since when.
CREATE INDEX rows_to_begin ON thread_rows (tenant, ord, pk) WHERE kind = 17 AND ord > 0;
