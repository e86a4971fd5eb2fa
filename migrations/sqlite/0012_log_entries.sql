-- What one commit told is one entry, under the number of its last observation: `body` holds them all, `about` their types
-- and runs. What is there becomes entries of one observation each.
ALTER TABLE observations ADD COLUMN about TEXT NOT NULL DEFAULT '';
UPDATE observations SET
    about = type || ' ' || run,
    body = '{"runId":' || json_quote(run) || ',"traceId":"","timestamp":0,"told":[{"type":"' || type || '",'
        || substr(body, 2) || ']}';
ALTER TABLE observations DROP COLUMN type;
ALTER TABLE observations DROP COLUMN run;
