-- Old answers are forgotten every hour, by the connection that writes everything.
CREATE INDEX idempotency_by_age ON idempotency (created_at);
