-- What one commit told is one entry, under the number of its last observation: `body` holds them all, `types` the types among
-- them. What is there becomes entries of one observation each.
ALTER TABLE observations ADD COLUMN types text COLLATE "C" NOT NULL DEFAULT '';
UPDATE observations SET
    types = type,
    body = '{"runId":' || to_json(run)::text || ',"traceId":"","timestamp":0,"told":[{"type":"' || type || '",'
        || substr(body, 2) || ']}';
ALTER TABLE observations DROP COLUMN type;
ALTER TABLE observations DROP COLUMN run;
-- Compressed in its row: what goes out of line is written, and indexed, a second time.
ALTER TABLE observations ALTER COLUMN body SET STORAGE MAIN;
