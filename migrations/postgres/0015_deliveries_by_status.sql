-- Deliveries of a tenant by what became of them.
CREATE INDEX deliveries_by_status ON deliveries (tenant, target_kind, status, ord);
