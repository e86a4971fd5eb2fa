-- Threads that were deleted and of which something may still be in the file: rows, until they are removed a few at a
-- time, and then copies of them in free room, until that is overwritten.
CREATE TABLE erased_threads (
    pk INTEGER PRIMARY KEY,
    erased_at INTEGER NOT NULL,
    is_empty INTEGER NOT NULL
) STRICT;
