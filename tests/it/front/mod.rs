//! Through the front door: a real server on port 0, real sockets; one file per route.

mod process;
