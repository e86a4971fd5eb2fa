//! Lists longer than a page, and threads whose log was shortened.

use std::sync::Arc;

use pes::AgentProps;
use pes::config::{Config, Synchronous};
use pes::domain::retention::Kept;
use pes::store::Store;
use pes::store::sqlite::Sqlite;
use serde_json::Value;
use tempfile::TempDir;

use super::client::{DINNER, MAIL, Stage};
use super::run;
use super::serving::text;
use crate::support::app::App;
use crate::support::clocked::Clocked;

fn count(json: &str) -> usize {
    serde_json::from_str::<Value>(json).unwrap()["items"].as_array().unwrap().len()
}

#[test]
fn a_server_with_short_pages_is_asked_for_all_of_them() {
    let stage = Stage::with(&[("PES_LIMITS_PAGE", "2")]);
    for thread in ["a", "b", "c"] {
        stage.refused(&["run", MAIL, "--thread", thread, "--no-input"], 4, "waits for a person: demo_send_email (sus_");
    }
    assert_eq!(stage.said(&["questions"]).lines().count(), 3);
    assert_eq!(count(&stage.said(&["questions", "--json"])), 3);
    for status in [&["threads"][..], &["threads", "--status", "suspended"]] {
        assert_eq!(stage.said(status).lines().count(), 3, "{status:?}");
        assert_eq!(count(&stage.said(&[status, &["--json"]].concat())), 3, "{status:?}");
    }
    let open = stage.said(&["questions"]);
    let of_a = open.lines().find(|line| line.contains("  a ")).unwrap();
    stage.said(&["approve", of_a.split_whitespace().next().unwrap()]);
    assert!(stage.said(&["watch", "a"]).starts_with("The invitation to the team dinner was written, approved"));
    assert!(stage.said(&["plan", "a"]).contains("2/2"));
    let rows = stage.said(&["usage", "--by", "item"]).lines().count();
    assert!(rows > 3, "{rows}");
    assert_eq!(count(&stage.said(&["usage", "--by", "item", "--json"])), rows);
    assert_eq!(count(&stage.said(&["usage", "--json"])), stage.said(&["usage"]).lines().count());
}

async fn open(folder: &TempDir) -> Arc<dyn Store> {
    Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap())
}

/// A server with two threads whose plan was made before their log begins; no row of `over`'s plan remains.
async fn shortened(folder: &TempDir) -> App {
    let clocked =
        Clocked::on(open(folder).await, |config: &mut Config| config.retention.log_days = Kept::Days(90)).await;
    for thread in ["dinner", "over"] {
        clocked.instance.process(AgentProps::new(thread, DINNER)).await.unwrap();
    }
    clocked.days_pass(100).await;
    clocked.finish("dinner").await;
    let Clocked { instance, store, .. } = clocked;
    instance.close().await;
    drop(store);
    App::of(open(folder).await, |_| {}).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_of_a_thread_whose_log_was_shortened_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let app = shortened(&folder).await;
    let (url, place) = (format!("http://{}", app.address), tempfile::tempdir().unwrap());
    let pes = |arguments: &[&str]| {
        let output = tokio::task::block_in_place(|| run(place.path(), arguments, &[("PES_URL", &url)]));
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let begins = app.get("/threads/dinner/state").await.expect(200)["minSeq"].as_i64().unwrap();
    assert!(begins > 1);
    let begun = format!("The log begins at observation {begins}; what was before it was deleted.\n");

    for thread in ["dinner", "over"] {
        let (code, tree, _) = pes(&["plan", thread]);
        assert_eq!(code, 0);
        assert!(tree.contains("4/4") && tree.contains("Compute the bill"), "{tree}");
    }

    let (code, diff, told) = pes(&["plan", "dinner", "diff"]);
    assert_eq!((code, told.as_str()), (0, begun.as_str()));
    let before = begins - 1;
    assert!(diff.starts_with(&format!("{before}  version 1, as it stood then\n  + bill  Compute the bill")), "{diff}");

    let (code, replayed, told) = pes(&["replay", "dinner"]);
    assert_eq!((code, told.as_str()), (0, begun.as_str()));
    assert!(replayed.starts_with(&format!("{before} plan version=1 items=bill,tip,date,share\n")), "{replayed}");
    assert!(replayed.contains(&format!("\n{before} share completed\n{begins} ")), "{replayed}");
    let (code, then, _) = pes(&["replay", "dinner", "--at", &before.to_string()]);
    assert_eq!((code, then.lines().all(|line| line.starts_with(&format!("{before} ")))), (0, true), "{then}");
    let (code, _, told) = pes(&["replay", "dinner", "--at", "1"]);
    assert!(code == 7 && told.contains("history_compacted"), "{told}");
}
