//! Live streams: bounded fan-out to sockets.
