//! Inbound keys, tenants and scopes.
