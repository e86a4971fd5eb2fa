-- Threads that were deleted and of which rows may still be there: they are removed a few at a time.
CREATE TABLE erased_threads (
    pk bigint PRIMARY KEY,
    erased_at bigint NOT NULL,
    is_empty boolean NOT NULL
);

-- What is deleted is vacuumed soon, however large the tables are.
ALTER TABLE thread_rows SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE observations SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
