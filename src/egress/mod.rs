//! The one place that calls out: a guarded HTTP client.
