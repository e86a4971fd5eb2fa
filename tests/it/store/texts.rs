//! Every text comes back byte for byte.

use pes::domain::observation::ObservationType;
use pes::domain::thread::ThreadProfile;
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::Commit;
use serde_json::{Value, json};

use super::bed::{Bed, record, row, state_update};

super::on_every_store!(odd_texts_come_back_as_they_were, long_ones_too);

const ODD: [&str; 6] = [
    "a\u{0}b",
    "🦀 é \u{202e}",
    "quote \" back \\ slash",
    "line\nbreak\ttab",
    "'; DROP TABLE threads; --",
    "{\"$payload\":\"x\"}",
];

async fn odd_texts_come_back_as_they_were(bed: Bed) {
    let pk = bed.thread("t1").await;
    for (n, text) in ODD.into_iter().enumerate() {
        let mut observed = record(&format!("o{n}"), ObservationType::Intent, "r");
        observed.title = text.into();
        observed.fact = state_update(json!({ text: [text] }));
        let commit = Commit {
            head: Some(json!({ "text": text }).to_string()),
            profile: Some(Box::new(ThreadProfile { title: Some(text.into()), ..ThreadProfile::default() })),
            rows: vec![Row { body: json!(text).to_string(), ..row(RowKind::Item, text, n as i64, Keep::Always) }],
            records: vec![observed.clone()],
            audit: vec![bed.audit_line(pk, text)],
            ..bed.next(pk).await
        };
        bed.done(commit).await;
        let thread = bed.read(pk).await;
        assert_eq!(thread.profile.title.as_deref(), Some(text));
        assert_eq!(thread.head, json!({ "text": text }).to_string());
        let stored = bed.store.row(pk, RowKind::Item, text).await.unwrap().expect("found by its odd id");
        assert_eq!((stored.id.as_str(), stored.body), (text, json!(text).to_string()));
        let last = bed.observations(pk).await.pop().unwrap();
        assert_eq!((last.title, last.content), (observed.title, observed.fact.content()));
        assert_eq!(bed.audit(pk).await.pop().unwrap().actor, text);
    }
}

async fn long_ones_too(bed: Bed) {
    let pk = bed.thread("t1").await;
    let long = "0123456789abcdef".repeat(1 << 16);
    let body = Value::from(long.as_str()).to_string();
    let mut observed = record("o", ObservationType::StateUpdate, "r");
    observed.fact = state_update(json!({ "output": long }));
    let rows = vec![Row { body: body.clone(), ..row(RowKind::Payload, "p", 0, Keep::Never) }];
    let commit = Commit { head: Some(body.clone()), rows, records: vec![observed], ..bed.next(pk).await };
    bed.done(commit).await;
    assert_eq!(bed.read(pk).await.head, body);
    assert_eq!(bed.store.row(pk, RowKind::Payload, "p").await.unwrap().unwrap().body, body);
    assert_eq!(bed.observations(pk).await[0].content["data"], json!({ "output": long }));
}
