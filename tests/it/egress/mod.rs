//! Which addresses may be called: hostile URLs, DNS rebinding, redirects, and what the operator allows.

mod denied;
mod fetch;
mod hostile;
mod names;
mod redirects;
mod services;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pes::domain::ids::TenantPk;
use pes::egress::{Allow, Bounds, Destination, DnsLookup, Egress, EgressRules, OutgoingRequest};
use tokio::net::TcpListener;

const TENANT: TenantPk = TenantPk(1);

/// Listens on a forbidden address, and counts connections.
struct Canary {
    port: u16,
    calls: Arc<AtomicUsize>,
}

impl Canary {
    async fn listen() -> Self {
        let v4 = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = v4.local_addr().unwrap().port();
        let calls = Arc::new(AtomicUsize::new(0));
        // A machine may have no IPv6, or the port may be taken there.
        let v6 = TcpListener::bind(("::1", port)).await.ok();
        for listener in [Some(v4), v6].into_iter().flatten() {
            let calls = calls.clone();
            tokio::spawn(async move {
                while listener.accept().await.is_ok() {
                    calls.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Self { port, calls }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// A scripted resolver: the nth look-up of any name gets the nth answer, in a cycle.
struct Fickle {
    answers: Vec<&'static str>,
    asked: AtomicUsize,
}

#[async_trait]
impl DnsLookup for Fickle {
    async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst) % self.answers.len();
        Ok(self.answers[turn].split(' ').map(|address| address.parse().unwrap()).collect())
    }
}

fn fickle(answers: &[&'static str]) -> Arc<Fickle> {
    Arc::new(Fickle { answers: answers.to_vec(), asked: AtomicUsize::new(0) })
}

/// A client whose names all resolve to loopback unless the test says otherwise.
fn egress(allow: &[&str], names: Arc<Fickle>) -> Arc<Egress> {
    let allow = Allow::parse(allow).unwrap();
    let rules = EgressRules { allow, tenants: HashMap::new(), deny: false, plain_http: true, dns: names };
    Arc::new(Egress::with_rules(Duration::from_secs(2), rules))
}

fn untrusted(url: &str) -> Option<Destination> {
    Some(Destination::Untrusted { url: url.parse().ok()?, tenant: TENANT })
}

fn get(to: Destination) -> OutgoingRequest {
    let patience = Duration::from_secs(10);
    let bounds = Bounds { headers: patience, stall: patience, total: patience, bytes: 1 << 20 };
    OutgoingRequest {
        method: http::Method::GET,
        to,
        headers: http::HeaderMap::new(),
        body: bytes::Bytes::new(),
        bounds,
    }
}
