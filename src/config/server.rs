//! `[server]`

use super::section::{by_path, named};

section! {
    /// The server's addresses.
    Server {
        /// The address to bind. Any address but a loopback one needs API keys.
        host: String = "127.0.0.1".to_owned(), named("HOST");
        /// 0 = any free port.
        port: u16 = 7070, named("PORT");
        /// The base of all absolute URLs in responses. Unset = the bound address.
        public_url: Option<String> = None, named("PES_PUBLIC_URL").example("\"https://agents.example.com\"");
        /// The path under which a proxy serves this server, e.g. "/agents", if it does not remove it from requests.
        base_path: String = String::new(), by_path();
        /// Proxies whose X-Forwarded-* headers are trusted: addresses or CIDR ranges.
        trusted_proxies: Vec<String> = Vec::new(), by_path();
        /// Origins that browsers may call from, e.g. "https://app.example.com". None = only this server's own pages.
        cors_origins: Vec<String> = Vec::new(), by_path();
    }
}
