//! Deliveries that wait for a missing secret are kept, and rows that a running server holds in memory are sealed under
//! the current key.

use std::sync::Arc;

use pes::a2a::types::PushConfig;
use pes::config::Config;
use pes::store::Store;
use pes::store::sealed::SealedKind;
use serde_json::{Value, json};

use super::{NEW, OLD};
use crate::support::app::App;
use crate::support::http::soon;
use crate::support::store::fresh_store;
use crate::support::wire::{Wire, answer};

async fn app(store: &Arc<dyn Store>, wire: &Wire, keys: &[&str]) -> App {
    let (address, store) = (wire.address.to_string(), store.clone());
    App::of(store, |config: &mut Config| {
        config.egress.allow.push(address);
        config.outbox.backoff_ms = vec![1; 3];
        config.auth.sealing_key = Some(keys[0].to_owned().into());
        let old = keys[1..].iter().map(|key| pes::config::Key((*key).to_owned().into()));
        config.auth.sealing_keys_old = old.collect();
    })
    .await
}

#[tokio::test]
async fn a_delivery_waits_for_its_secret_as_long_as_for_its_receiver_and_can_be_replayed() {
    let mut wire = Wire::serve(vec![answer("200 OK", "", "")]).await;
    let store = fresh_store().await;
    let spec = json!({ "url": format!("http://{}/", wire.address), "events": ["run.finished"], "secrets": ["s"] });
    let first = app(&store, &wire, &[OLD]).await;
    let id = first.post("/webhooks", spec.clone()).await.expect(201)["webhookId"].as_str().unwrap().to_owned();
    first.stopped().await;

    let second = app(&store, &wire, &[NEW]).await;
    second.finish("t", "hello").await;
    let path = format!("/webhooks/{id}/deliveries");
    let dead = soon(async {
        loop {
            let found = second.get(&path).await.expect(200)["items"][0].clone();
            if found["status"] == "dead" {
                return found;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(dead["attempts"], 4, "as often as one whose receiver does not answer");
    assert!(dead["said"].as_str().unwrap().starts_with("secret_unreadable: nothing was sent: "), "{dead:#}");
    assert_eq!(wire.connections(), 0);

    let put = second.ask("PUT", &format!("/webhooks/{id}")).json(&spec).send().await.expect(200);
    assert_eq!(put["secretError"], Value::Null, "new secrets repair it");
    let delivery = dead["deliveryId"].as_str().unwrap();
    assert_eq!(second.ask("POST", &format!("/webhooks/deliveries/{delivery}/replay")).send().await.status, 202);
    let told = soon(wire.request()).await;
    assert_eq!(told.header("webhook-id"), Some(delivery));
    assert!(told.header("webhook-signature").is_some(), "{told:?}");
}

#[tokio::test]
async fn a_receiver_whose_task_ends_is_written_under_the_key_that_seals() {
    use crate::a2a::binding::{NEW as A2A, about, says};
    let wire = Wire::serve((0..9).map(|_| answer("200 OK", "", "")).collect()).await;
    let store = fresh_store().await;
    let push = PushConfig {
        id: Some("here".into()),
        url: format!("http://{}/", wire.address),
        token: Some("push-secret".into()),
        ..PushConfig::default()
    };
    let first = app(&store, &wire, &[OLD]).await;
    let mut ask = says("m", "ask");
    ask.configuration.push = Some(push);
    let task = A2A.send(&first, &ask).await.unwrap();
    first.stopped().await;
    let sealed = async || store.sealed_rows(SealedKind::Receiver, None, 9).await.unwrap().remove(0).body;
    let before = sealed().await;

    let second = app(&store, &wire, &[NEW, OLD]).await;
    A2A.send(&second, &about(&task, says("r", "blue"))).await.unwrap();
    let key = |body: &str| {
        let body: Value = serde_json::from_str(body).unwrap();
        body["token"].as_str().unwrap().split('.').nth(1).unwrap().to_owned()
    };
    assert_ne!(key(&sealed().await), key(&before), "what was read before all was sealed again is not written back");
}
