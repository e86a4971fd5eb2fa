-- Deliveries that go out by themselves, of each tenant by itself.
CREATE INDEX deliveries_of_tenants ON deliveries (tenant, due_at, ord)
WHERE due_at IS NOT NULL AND target_kind <> 'collector';
