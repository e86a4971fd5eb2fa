-- What one commit told is one entry, under the number of its last observation: `body` holds them all, `types` the types among
-- them. What is there becomes entries of one observation each.
ALTER TABLE observations ADD COLUMN types TEXT NOT NULL DEFAULT '';
UPDATE observations SET
    types = type,
    body = '{"runId":' || json_quote(run) || ',"traceId":"","timestamp":0,"told":[{"type":"' || type || '",'
        || substr(body, 2) || ']}';
ALTER TABLE observations DROP COLUMN type;
ALTER TABLE observations DROP COLUMN run;
