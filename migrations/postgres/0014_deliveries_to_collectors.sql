-- Deliveries that go out together.
CREATE INDEX deliveries_to_collectors ON deliveries (due_at, ord) WHERE due_at IS NOT NULL AND target_kind = 'collector';
