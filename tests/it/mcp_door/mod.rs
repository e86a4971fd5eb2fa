//! The server as tools of any MCP host: every version through real sockets.

mod endpoint;
mod hanging_up;
mod host;
mod replicas;
mod tools;
mod versions;
