-- Deliveries that go out by themselves, of each tenant by itself. Those with the same time are in the order of their `ord`.
CREATE INDEX deliveries_of_tenants ON deliveries (tenant, due_at)
WHERE due_at IS NOT NULL AND target_kind <> 'collector';
