use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::Value;

use super::{Server, unanswered};
use crate::cli::Error;
use crate::config::env::Variables;
use crate::egress;

/// A server that gives these answers, one per connection, and stops after the last. Unfinished answers stay open until then.
pub(in crate::cli) fn answers(answers: &[&str]) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let close = |answer: &&str| answer.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    let answers: Vec<String> = answers.iter().map(close).collect();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                asked.extend_from_slice(&byte);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            open.push(stream);
        }
    });
    Server::at(&base, &Variables::default()).unwrap()
}

#[tokio::test]
async fn a_server_that_cannot_answer_now_is_as_one_that_cannot_be_reached() {
    let problem = r#"{ "code": "store_unavailable", "detail": "The database does not answer." }"#;
    for status in [502, 503, 504] {
        let length = problem.len();
        let server = answers(&[&format!("HTTP/1.1 {status} No\r\nContent-Length: {length}\r\n\r\n{problem}")]);
        let error = server.get::<Value>("/threads").await.unwrap_err();
        assert!(error.to_string().ends_with(&format!("{status} store_unavailable: The database does not answer.")));
        assert_eq!(format!("{:?}", error.exit_code()), format!("{:?}", std::process::ExitCode::from(9)), "{error}");
    }
    for status in [429, 500] {
        let server = answers(&[&format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n")]);
        let error = server.get::<Value>("/threads").await.unwrap_err();
        assert_eq!(format!("{:?}", error.exit_code()), format!("{:?}", std::process::ExitCode::from(1)), "{error}");
    }
    let refused = answers(&["HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"]).get::<Value>("/threads").await;
    assert!(matches!(refused, Err(Error::KeyRefused(_))));
}

/// A page that another server does not have is no missing thread.
#[tokio::test]
async fn a_refusal_of_something_else_is_told_apart() {
    let problem = r#"{ "code": "not_found", "detail": "There is no such thread; check the id." }"#;
    let ours = format!("HTTP/1.1 404 No\r\nContent-Length: {}\r\n\r\n{problem}", problem.len());
    let found = answers(&[&ours]).get::<Value>("/threads/t").await;
    assert!(matches!(found, Err(Error::NotFound(_))), "{found:?}");
    for status in [400, 404, 409] {
        let server = answers(&[&format!("HTTP/1.1 {status} No\r\nContent-Length: 4\r\n\r\nGone")]);
        let Err(Error::Failed(why)) = server.get::<Value>("/threads").await else { panic!("{status} is the answer") };
        assert_eq!(why, format!("{}: status {status}, and not the error of a pes server", server.shown()));
    }
}

#[tokio::test]
async fn what_a_refusal_repeats_of_others_is_shown_and_not_obeyed() {
    let problem = r#"{ "code": "invalid", "detail": "`\u001b]0;owned\u0007` is no name." }"#;
    let length = problem.len();
    let server = answers(&[&format!("HTTP/1.1 422 No\r\nContent-Length: {length}\r\n\r\n{problem}")]);
    let error = server.get::<Value>("/threads").await.unwrap_err().to_string();
    assert!(error.ends_with("422 invalid: `<U+001B>]0;owned<U+0007>` is no name."), "{error:?}");
}

#[tokio::test]
async fn a_refusal_says_what_in_the_request_is_wrong() {
    let problem = r#"{ "code": "invalid", "detail": "`modifiedArgs` does not fit its schema.", "errors": [
        { "pointer": "/modifiedArgs", "detail": "\"subject\" is a required property" },
        { "pointer": "/modifiedArgs/to", "detail": "it is \u001b no address" }
    ] }"#;
    let length = problem.len();
    let server = answers(&[&format!("HTTP/1.1 422 No\r\nContent-Length: {length}\r\n\r\n{problem}")]);
    let error = server.get::<Value>("/threads").await.unwrap_err().to_string();
    let expected = "422 invalid: `modifiedArgs` does not fit its schema. /modifiedArgs: \"subject\" is a required property; \
                    /modifiedArgs/to: it is <U+001B> no address";
    assert!(error.ends_with(expected), "{error:?}");
}

#[test]
fn an_address_is_one_of_http_and_its_password_is_not_shown() {
    let at = |url: &str| Server::at(url, &Variables::default());
    for (url, shown) in [
        ("http://localhost:7070/", "http://localhost:7070"),
        ("http://[::1]:80", "http://[::1]:80"),
        ("https://ci:hush@pes.example/base/", "https://pes.example/base"),
    ] {
        assert_eq!(at(url).unwrap().shown(), shown);
    }
    let others = ["wss://ci:hush@pes.example", "htps://pes.example:443", "http://", "http://a?hush", "http://a#hush"];
    for url in ["localhost:7070", "ci:hush@localhost", ""].into_iter().chain(others) {
        let Err(Error::Usage(why)) = at(url) else { panic!("{url} is an address") };
        assert!(why.contains("http://localhost:7070") && !why.contains("hush"), "{why}");
    }
}

#[tokio::test]
async fn an_error_names_the_server_without_its_password() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let server = Server::at(&format!("http://ci:hush@{closed}"), &Variables::default()).unwrap();
    let error = server.get::<Value>("/threads").await.unwrap_err();
    let Error::Unreachable(why) = &error else { panic!("{error}") };
    assert!(why.starts_with(&format!("http://{closed}: cannot reach ")) && !why.contains("hush"), "{why}");
    // Only a command that ends says what to do: one that goes on tries again.
    assert!(!why.contains("pes serve"), "{why}");
    let expected = format!("No answer from {why}. Start a server with `pes serve`, or set PES_URL.");
    assert_eq!(error.to_string(), expected);
}

/// A plan contains the results of its tools, each of up to a megabyte.
#[tokio::test]
async fn a_large_answer_is_read() {
    let length = 40 << 20;
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}", "x".repeat(length));
    assert_eq!(answers(&[&answer]).get_text("/threads/t/plan").await.unwrap().len(), length);
}

#[test]
fn a_server_whose_answer_is_too_large_does_answer() {
    let error = unanswered("http://here", &egress::Error::TooLarge(5));
    assert!(matches!(error, Error::Failed(_)), "{error:?}");
    assert_eq!(error.to_string(), "http://here: the answer is larger than 5 bytes, and no more are read.");
}
