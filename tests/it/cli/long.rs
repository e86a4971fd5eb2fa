//! Lists that are longer than a page.

use serde_json::Value;

use super::client::{MAIL, Stage};

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
