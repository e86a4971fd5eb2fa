-- Of indexes that look alike to the planner while nothing is known of a table, it takes the youngest: made before
-- threads_by_activity, this one lost to it, and all of a tenant's threads were read to find one.
CREATE UNIQUE INDEX threads_by_id ON threads (tenant, thread_id);
ALTER TABLE threads DROP CONSTRAINT threads_tenant_thread_id_key;
