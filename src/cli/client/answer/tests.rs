use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Draft, approve, edited_by};
use crate::cli::Error;
use crate::cli::client::args::ApproveArguments;
use crate::cli::server::tests::answers;

/// The result when the editor leaves this text and ends in this way, and the path of the file.
fn left(text: &str, end: Result<(), Error>) -> (Result<Option<Draft>, Error>, PathBuf) {
    let mut at = PathBuf::new();
    let edited = edited_by(&json!({ "to": "team" }), &mut None, |path: &Path| {
        path.clone_into(&mut at);
        fs::write(path, text).unwrap();
        end
    });
    (edited, at)
}

fn failed<T>(why: &str) -> Result<T, Error> {
    Err(Error::Failed(why.to_owned()))
}

#[test]
fn what_was_written_is_kept_until_it_is_taken() {
    let (broken, path) = left("{ \"to\": ", Ok(()));
    let why = broken.err().unwrap().to_string();
    assert!(why.contains(path.to_str().unwrap()) && why.contains("no JSON"), "{why}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{ \"to\": ");
    fs::remove_file(path).unwrap();

    let (ended, path) = left("half", failed("`vi` failed"));
    assert!(ended.is_err() && path.exists(), "the editor fails after it wrote");
    fs::remove_file(path).unwrap();

    for is_taken in [true, false] {
        let (edited, path) = left(r#"{ "to": "all" }"#, Ok(()));
        let draft = edited.ok().flatten().unwrap();
        assert_eq!((draft.value(), path.exists()), (&json!({ "to": "all" }), true));
        let sent = if is_taken { Ok(Value::Null) } else { failed("gone") };
        assert_eq!(draft.settle(sent, &mut None).is_ok(), is_taken);
        assert_eq!(path.exists(), !is_taken);
        let _ = fs::remove_file(path);
    }
}

#[test]
fn what_could_not_be_sent_is_edited_further() {
    let mut kept = None;
    // The editor leaves this text; returns what it was given, and the result.
    let edit = |text: &str, kept: &mut Option<PathBuf>| {
        let mut given = String::new();
        let edited = edited_by(&json!({ "to": "team" }), kept, |path: &Path| {
            given = fs::read_to_string(path).unwrap();
            fs::write(path, text).unwrap();
            Ok(())
        });
        (given, edited)
    };
    let (given, edited) = edit("{ \"to\": ", &mut kept);
    assert_eq!((given.as_str(), edited.is_err()), ("{\n  \"to\": \"team\"\n}\n", true));
    let file = kept.clone().unwrap();
    let (given, edited) = edit(r#"{ "to": 1 }"#, &mut kept);
    assert_eq!((given.as_str(), kept.as_ref()), ("{ \"to\": ", None));
    let refused: Result<(), Error> = edited.ok().flatten().unwrap().settle(failed("no text"), &mut kept);
    assert_eq!((refused.is_err(), kept.as_ref()), (true, Some(&file)));
    let (given, edited) = edit(r#"{ "to": "all" }"#, &mut kept);
    assert_eq!(given, r#"{ "to": 1 }"#);
    let sent = edited.ok().flatten().unwrap().settle(Ok(()), &mut kept);
    assert_eq!((sent.is_ok(), kept, file.exists()), (true, None, false), "one file for all attempts");
}

#[test]
fn nothing_is_left_of_what_was_not_changed() {
    let same = "{\n  \"to\": \"team\"\n}\n";
    for text in [same, r#"{"to":"team"}"#] {
        let (edited, path) = left(text, Ok(()));
        assert!(matches!(edited, Ok(None)) && !path.exists(), "{text}");
    }
    let (edited, path) = left(same, failed("`vi` failed"));
    assert!(edited.is_err() && !path.exists());
}

#[tokio::test]
async fn a_call_in_doubt_that_is_approved_names_the_command_that_answers_it() {
    let asked = json!({
        "suspensionId": "sus_1", "threadId": "t", "runId": "run_1", "kind": "in_doubt", "status": "pending",
        "message": "It may have had its effect.", "feedbackSchema": { "inputType": "select", "prompt": "Retry it?" },
        "createdAt": 1
    });
    let problem = json!({
        "code": "invalid", "detail": "The answer does not fit the question.",
        "errors": [{ "pointer": "/action", "detail": "one of retry, done, skip, abort is needed" }]
    });
    let answer = |status: &str, body: Value| {
        let body = body.to_string();
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let (open, refused) = (answer("200 OK", json!({ "items": [asked] })), answer("422 No", problem));
    // The client never requests the last answer: it keeps the server thread, and so the connections, open.
    let server = answers(&[&open, &refused, ""]);
    let arguments = ApproveArguments { suspension: None, edit: None, reason: None };
    let why = approve(&server, arguments).await.unwrap_err().to_string();
    let expected = "The answer does not fit the question. /action: one of retry, done, skip, abort is needed. \
                    Try: pes answer sus_1 --retry, --done VALUE, --skip or --abort";
    assert!(why.ends_with(expected), "{why}");
}
