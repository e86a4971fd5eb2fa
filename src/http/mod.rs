//! The front door: REST, WebSocket and SSE.
