//! `pes verify` as an operator runs it.

use std::sync::Arc;

use pes::config::Synchronous;
use pes::service::audit::chain;
use pes::store::Commit;
use pes::store::sqlite::Sqlite;
use serde_json::{Value, json};
use sqlx::{Connection, Executor, SqliteConnection};

use crate::store::bed::Bed;
use crate::support::process::Place;

/// Its exit code and both outputs.
fn verify(place: &Place, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = place.run(&[&["verify"], arguments].concat());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn an_operator_learns_whether_the_audit_is_what_it_was() {
    let place = Place::sqlite("");
    let (code, _, said) = verify(&place, &[]);
    assert!(code == Some(9) && said.contains("has no database; name it with PES_DATA_DIR"), "{said}");
    let folder = place.folder().join("data");
    // Locked as by a server.
    let store = Arc::new(Sqlite::open(&folder, Synchronous::Normal).await.unwrap());
    let bed = Bed::on(store, Arc::new(())).await;
    let pk = bed.thread("t").await;
    for actor in ["ann", "bob", "eve"] {
        bed.done(Commit { audit: vec![bed.audit_line(pk, actor)], ..bed.next(pk).await }).await;
        if actor != "eve" {
            chain(&*bed.store, None, 1).await.unwrap();
        }
    }
    let well = "ok   default  2 lines, 2 checkpoints, signatures not looked at; 1 line not chained yet\n\
                signatures were not looked at: PES_AUDIT_KEY is not set\n";
    assert_eq!(verify(&place, &[]), (Some(0), well.to_owned(), String::new()));
    let told = json!({
        "tenant": "default", "ok": true, "lines": 2, "checkpoints": 2, "unchained": 1, "forgotten": 0, "isShorter": false
    });
    let (code, document, _) = verify(&place, &["--json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((code, document), (Some(0), json!({ "ok": true, "tenants": [told] })));
    assert_eq!(verify(&place, &["--since", "2"]).0, Some(0), "its last line");
    let (code, _, said) = verify(&place, &["--since", "999"]);
    assert!(code == Some(7) && said.contains("no tenant has the line that --since names"), "{code:?} {said}");
    let mut other = SqliteConnection::connect(&format!("sqlite:{}", folder.join("pes.db").display())).await.unwrap();
    other.execute("UPDATE audit SET actor = 'mallory' WHERE n = 2").await.unwrap();
    let (code, told, said) = verify(&place, &[]);
    assert_eq!(code, Some(1), "{told}{said}");
    assert!(told.starts_with("FAIL default  line 2 was changed"), "{told}");
    let (code, document, _) = verify(&place, &["--json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    let broken = document["tenants"][0]["broken"].as_str().unwrap_or_default();
    assert!(code == Some(1) && document["ok"] == false && told.contains(broken) && !broken.is_empty(), "{document}");
    assert!(told.contains("it says `resume` by `mallory` at 30"), "{told}");
    assert!(said.contains("the audit of 1 of 1 tenants is not what it was"), "{said}");
}
