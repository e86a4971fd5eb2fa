//! `pes tenants`: what the operator sees and removes; and `pes keys` of a tenant at a server.

use std::process::Output;

use serde_json::Value;

use super::run;
use super::serving::{serve, text};

const OPS: &str = "pes_operator_0123456789abcdef0123456789";
const ANN: &str = "pes_ann_0123456789abcdef0123456789";

#[test]
fn a_tenant_is_removed_only_if_that_is_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let keys = format!("ops/ops:operator:{OPS},one/ann:admin:{ANN}");
    let served = serve(folder.path(), &[("PES_API_KEYS", keys.as_str())]);
    let pes = |key: &str, arguments: &[&str]| -> Output {
        run(folder.path(), arguments, &[("PES_URL", served.url.as_str()), ("PES_TOKEN", key)])
    };
    let said = |arguments: &[&str]| {
        let output = pes(OPS, arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(said(&["tenants"]), "default  active\none  active\nops  active\n");
    let refused = pes(OPS, &["tenants", "rm", "one"]);
    let why = text(&refused.stderr);
    assert_eq!((refused.status.code(), why.contains("add --yes")), (Some(2), true), "{why}");
    let asked = pes(ANN, &["threads"]);
    assert_eq!(asked.status.code(), Some(0), "{}", text(&asked.stderr));

    assert_eq!(said(&["tenants", "rm", "one", "--yes"]), "one is removed\n");
    assert_eq!(said(&["tenants"]), "default  active\none  removed by ops\nops  active\n");
    let listed: Value = serde_json::from_str(&said(&["tenants", "--json"])).unwrap();
    assert_eq!(listed["items"][1]["removed"]["by"], "ops", "{listed:#}");
    let refused = pes(ANN, &["threads"]);
    let why = text(&refused.stderr);
    assert!(!refused.status.success() && why.contains("The tenant `one` was removed"), "{why}");

    assert_eq!(said(&["tenants", "reopen", "one"]), "one is open\n");
    let asked = pes(ANN, &["threads"]);
    assert_eq!(asked.status.code(), Some(0), "{}", text(&asked.stderr));
}

#[test]
fn keys_at_a_server_are_listed_on_however_many_pages_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let keys = format!("one/ann:admin:{ANN}");
    let served = serve(folder.path(), &[("PES_API_KEYS", keys.as_str()), ("PES_LIMITS_PAGE", "2")]);
    let pes = |arguments: &[&str]| {
        let output = run(folder.path(), arguments, &[("PES_URL", served.url.as_str()), ("PES_TOKEN", ANN)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    for name in ["a", "b", "c", "d", "e"] {
        pes(&["keys", "new", "--name", name, "--scopes", "read"]);
    }
    let listed: Value = serde_json::from_str(&pes(&["keys", "ls", "--json"])).unwrap();
    let names: Vec<&Value> = listed["items"].as_array().unwrap().iter().map(|key| &key["name"]).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
}
