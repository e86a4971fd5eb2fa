//! Webhook deliveries of different tenants are sent in turns.

use std::sync::Arc;

use pes::config::{ConfiguredKey, Webhook};
use pes::domain::webhook::WebhookEvent;
use serde_json::json;
use tokio::sync::Notify;

use crate::support::app::App;
use crate::support::http::soon;
use crate::support::wire::{Step, Wire, answer};

const ONE: &str = "key-a-0123456789abcdef";
const TWO: &str = "key-b-0123456789abcdef";

fn ok() -> Vec<Step> {
    answer("204 No Content", "", "")
}

/// A server with this many webhooks of these tenants at these receivers; each is sent an event of every run.
async fn app(told: &[(&str, &Wire, usize)]) -> App {
    App::with(|config| {
        let key = |text: String| text.parse::<ConfiguredKey>().unwrap();
        config.auth.keys = vec![key(format!("one:admin:{ONE}")), key(format!("two:admin:{TWO}"))];
        config.outbox.attempt_timeout_ms = 600_000;
        for (tenant, wire, count) in told {
            config.webhooks.extend((0..*count).map(|nth| Webhook {
                id: format!("{tenant}-{}-{nth}", wire.address.port()),
                url: format!("http://{}/", wire.address),
                events: vec![WebhookEvent::RunFinished],
                secrets: Vec::new(),
                tenant: Some((*tenant).to_owned()),
            }));
        }
    })
    .await
}

async fn finish(app: &App, key: &str) {
    let ask = app.ask("POST", "/threads/t/process").key(key).header("prefer", "wait=30");
    ask.json(&json!({ "query": "hello" })).send().await.expect(200);
}

/// A receiver that responds to a request when the test has seen it.
struct Slow {
    wire: Wire,
    gates: Vec<Arc<Notify>>,
}

impl Slow {
    async fn serve(requests: usize) -> Self {
        let gates: Vec<Arc<Notify>> = (0..requests).map(|_| Arc::default()).collect();
        let exchange = |gate: &Arc<Notify>| [vec![Step::Until(gate.clone())], ok()].concat();
        Self { wire: Wire::serve(gates.iter().map(exchange).collect()).await, gates }
    }

    /// Leaves 32 requests unanswered: no permit is free.
    async fn takes_all_places(&mut self) {
        for _ in 0..32 {
            soon(self.wire.request()).await;
        }
    }

    /// Answers those and later ones until the other receiver gets a request; returns how many there were by then.
    async fn answers_until_asked(&mut self, other: &mut Wire) -> usize {
        self.gates[..32].iter().for_each(|gate| gate.notify_one());
        let mut seen = 32;
        loop {
            tokio::select! {
                biased;
                _ = other.request() => return seen,
                _ = soon(self.wire.request()) => {
                    self.gates[seen].notify_one();
                    seen += 1;
                }
            }
        }
    }
}

/// Its receiver responds so soon that no attempt loses its permit.
#[tokio::test]
async fn the_backlog_of_one_tenant_keeps_no_other_waiting() {
    let (mut slow, mut other) = (Slow::serve(200).await, Wire::serve(vec![ok()]).await);
    let app = app(&[("one", &slow.wire, 200), ("two", &other, 1)]).await;
    finish(&app, ONE).await;
    slow.takes_all_places().await;
    finish(&app, TWO).await;
    let sent = slow.answers_until_asked(&mut other).await;
    assert!(sent <= 96, "{sent} of one tenant went out before the one of the other");
}

#[tokio::test]
async fn a_tenant_whose_receivers_hang_still_has_its_turn() {
    let hangs = Wire::serve(vec![vec![Step::Stall(Arc::default())]; 32]).await;
    let (mut slow, mut other) = (Slow::serve(200).await, Wire::serve(vec![ok(), ok()]).await);
    let app = app(&[("two", &other, 1), ("two", &hangs, 32), ("one", &slow.wire, 200)]).await;
    finish(&app, TWO).await;
    soon(other.request()).await;
    finish(&app, ONE).await;
    // The hanging ones have released their permits.
    slow.takes_all_places().await;
    finish(&app, TWO).await;
    let sent = slow.answers_until_asked(&mut other).await;
    assert!(sent <= 96, "{sent} of one tenant went out before the one of the other");
}
