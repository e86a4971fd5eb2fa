-- Deliveries that go out together. Those with the same time are in the order of their `ord`.
CREATE INDEX deliveries_to_collectors ON deliveries (due_at) WHERE due_at IS NOT NULL AND target_kind = 'collector';
