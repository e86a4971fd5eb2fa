-- Deliveries of a tenant by what became of them; those of one status are in the order of their `ord`.
CREATE INDEX deliveries_by_status ON deliveries (tenant, target_kind, status);
