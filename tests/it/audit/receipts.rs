//! Receipts are verified by `examples/verify_receipt.py`, which was written from docs/AUDIT.md alone.

use std::path::Path;
use std::process::Command;

use pes::config::ConfiguredKey;
use pes::domain::digest;
use serde_json::{Value, json};

use super::signed::{self, KEY};
use crate::support::app::App;
use crate::support::http::Said;

pub const BOSS: &str = "boss-0123456789abcdef0123456789ab";

async fn office(is_signed: bool) -> App {
    App::with(|config| {
        config.auth.keys = vec![format!("one/boss:admin:{BOSS}").parse::<ConfiguredKey>().unwrap()];
        config.auth.audit_key = is_signed.then(|| KEY.repeat(4).into());
    })
    .await
    .key(BOSS)
}

/// A query for a mail that a person must approve, and that approval.
async fn mail(app: &App, thread: &str, edited: Option<Value>) -> Value {
    let asked = app.suspend(thread, "send").await;
    let mut answer = json!({ "suspensionId": asked["suspensionId"], "approved": true });
    if let Some(edited) = edited {
        answer["modifiedArgs"] = edited;
    }
    let path = format!("/threads/{thread}/resume");
    app.ask("POST", &path).header("prefer", "wait=20").json(&answer).send().await.expect(200);
    asked
}

pub async fn receipt(app: &App, thread: &str, call: &Value) -> Said {
    app.get(&format!("/threads/{thread}/tool-calls/{}/receipt", call.as_str().unwrap())).await
}

/// The script's output for it, which is the same where Python leaves assertions out.
pub fn verified(answer: &Value, keys: &Value) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/verify_receipt.py");
    let files = [("receipt.json", answer), ("keys.json", keys)].map(|(name, value)| {
        let path = folder.path().join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path
    });
    let run = |level: &str| {
        let mut command = Command::new("python3");
        let output = command.env("PYTHONOPTIMIZE", level).arg(&script).args(&files).output().expect("there is python3");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    };
    // An empty value is as none.
    let said = run("");
    assert_eq!(run("1"), said, "with assertions, and without");
    said
}

#[test]
fn a_receipt_without_a_signature_is_told_apart() {
    let said = verified(&json!({ "receipt": {} }), &json!({ "keys": [] })).unwrap_err();
    assert!(said.contains("the receipt is not signed") && !said.contains("Traceback"), "{said}");
}

#[tokio::test]
async fn a_receipt_is_verified_by_a_script_that_knows_the_documentation_alone() {
    let app = office(true).await;
    let keys = app.get("/audit/keys").await.expect(200);
    let to_another = json!({ "to": "b@example.com", "subject": "Sübject \u{7f}", "body": "1.0e5\n" });
    for (thread, edited, decision) in [("t1", None, "approved"), ("t2", Some(to_another), "modified")] {
        let asked = mail(&app, thread, edited.clone()).await;
        let answer = receipt(&app, thread, &asked["callId"]).await.expect(200);
        let told = &answer["receipt"];
        assert_eq!((&told["decision"]["by"], &told["decision"]["decision"]), (&json!("boss"), &json!(decision)));
        assert_eq!(told["shown"], asked["digest"]);
        assert_eq!(told["rule"]["rule"], "default for irreversible tools = ask");
        assert_eq!(told["question"]["suspensionId"], asked["suspensionId"]);
        let ran = digest::of_call("demo_send_email", edited.as_ref().unwrap_or(&asked["toolInput"]));
        assert_eq!(told["executed"]["digest"], ran, "{told:#}");
        assert_eq!(told["lines"].as_array().unwrap().len(), 2, "the question and the answer");
        assert_eq!(told["outcome"]["status"], "success");
        let said = verified(&answer, &keys).unwrap();
        assert!(said.contains(&format!("2 lines of the audit; {decision} by boss")), "{said}");
        assert_eq!(app.observed(thread, "TOOL_EXECUTION").await[0]["content"]["executed"], told["executed"]);
    }
}

#[tokio::test]
async fn what_is_not_so_is_refused() {
    let app = office(true).await;
    let keys = app.get("/audit/keys").await.expect(200);
    let asked = mail(&app, "t1", None).await;
    let other = mail(&app, "t2", None).await;
    let answer = receipt(&app, "t1", &asked["callId"]).await.expect(200);
    let another = receipt(&app, "t2", &other["callId"]).await.expect(200);
    let key = signed::key();
    // Somebody with the key signs what the audit does not contain.
    let forged = |change: &dyn Fn(&mut Value)| {
        let mut receipt = answer["receipt"].clone();
        change(&mut receipt);
        json!({ "jws": key.sign(pes::auth::Signed::Receipt, &receipt), "receipt": receipt })
    };
    let mut told_otherwise = answer.clone();
    told_otherwise["receipt"]["decision"]["by"] = "mallory".into();
    let mut mixed = answer.clone();
    mixed["jws"] = answer["receipt"]["lines"][0]["checkpoint"]["jws"].clone();
    for (wrong, why) in [
        (told_otherwise, "the receipt is not what was signed"),
        (mixed, "a signature is wrong"),
        (forged(&|receipt| receipt["decision"]["by"] = "mallory".into()), "nobody decided so"),
        (forged(&|receipt| receipt["lines"] = another["receipt"]["lines"].clone()), "another call"),
        (forged(&|receipt| receipt["lines"][0]["n"] = 4711.into()), "a line is not of the chain"),
        (forged(&|receipt| receipt["tenant"] = "two".into()), "a line is not of the chain"),
        (forged(&|receipt| receipt["lines"][1]["line"] = "{}".into()), "a line is not of the chain"),
        (forged(&|receipt| receipt["asked"] = "{}".into()), "something else was shown"),
        (forged(&|receipt| receipt["edited"] = "{}".into()), "something else was called"),
        (
            forged(&|receipt| receipt["executed"]["digest"] = receipt["outcome"]["digest"].clone()),
            "something else was called",
        ),
    ] {
        assert_eq!(verified(&wrong, &keys).unwrap_err(), format!("{why}\n"));
    }
    let mut others = keys.clone();
    others["keys"][0]["x"] = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo".into();
    let said = verified(&answer, &others).unwrap_err();
    assert!(said.contains("a signature is wrong"), "{said}");
    assert!(verified(&answer, &keys).is_ok() && verified(&another, &keys).is_ok());
}

#[tokio::test]
async fn without_a_key_nothing_is_signed_and_without_a_question_nothing_is_decided() {
    let app = office(false).await;
    let asked = mail(&app, "t1", None).await;
    let answer = receipt(&app, "t1", &asked["callId"]).await.expect(200);
    assert_eq!(
        (answer.get("jws"), answer["receipt"]["lines"][0]["checkpoint"].get("jws")),
        (None, None),
        "there is no key"
    );
    assert_eq!(app.get("/audit/keys").await.expect(200), json!({ "keys": [] }));
    receipt(&app, "t1", &json!("nothing")).await.problem("not_found");
    app.finish("t2", "count").await;
    let log = app.observed("t2", "TOOL_EXECUTION").await;
    let answer = receipt(&app, "t2", &log[0]["content"]["callId"]).await.expect(200);
    let told = &answer["receipt"];
    assert_eq!((&told["decision"], &told["executed"], &told["lines"]), (&Value::Null, &Value::Null, &json!([])));
    assert_eq!(told["outcome"]["status"], "success");
}
