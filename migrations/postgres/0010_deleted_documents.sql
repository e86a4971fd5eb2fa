-- Deleted documents are kept for a while only, so that every process hears of them: up to this version they are gone. Who has
-- read less than that reads all documents anew.
ALTER TABLE document_revision ADD COLUMN forgotten bigint NOT NULL DEFAULT 0;
CREATE INDEX documents_deleted ON documents (updated_at) WHERE body IS NULL;
