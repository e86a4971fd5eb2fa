//! Each error of the protocol, in each binding and version, with every member that its shape promises.

use pes::Config;
use pes::a2a::fault::{Error, Fault};
use pes::a2a::types::{Content, Part, PushConfig, Role};
use pes::a2a::wire::{Method, Version};
use pes::config::env::Variables;
use pes::domain::ids::TenantPk;
use pes::domain::thread::ThreadStatus;
use pes::store::{Commit, Committed};
use serde_json::{Value, json};

use super::binding::{BINDINGS, Binding, NEW, about, message, of, says};
use crate::store::bed::after;
use crate::support::app::App;
use crate::support::store::fresh_store;

/// The whole error document of an answer.
fn checked(binding: Binding, said: &crate::support::http::Said, error: Error) -> Fault {
    let body = said.json();
    let (document, details, status) = match binding {
        Binding::Rpc(_) => (&body["error"], &body["error"]["data"], 200),
        Binding::Rest(_) => (&body["error"], &body["error"]["details"], error.http_status()),
    };
    assert_eq!(said.status, status, "{binding:?} {body:#}");
    assert_eq!(said.header("content-type"), Some("application/json"));
    match binding {
        Binding::Rpc(_) => assert_eq!(document["code"], error.code(), "{body:#}"),
        Binding::Rest(_) => {
            assert_eq!((&document["code"], &document["status"]), (&json!(status), &json!(error.status())), "{body:#}");
        }
    }
    if binding == Binding::Rest(Version::V03Rest) {
        // What the SDKs of 0.3 read.
        let name = if error == Error::Parse { "JSONParseError".to_owned() } else { format!("{error:?}Error") };
        assert_eq!((&body["code"], &body["type"]), (&json!(error.code()), &json!(name)), "{body:#}");
        assert_eq!(body["message"], document["message"]);
    } else {
        assert_eq!(body.get("code"), None, "{body:#}");
    }
    let message = document["message"].as_str().unwrap_or_default();
    assert!(!message.is_empty() && !speaks_of_ours(message), "{message}");
    assert_eq!(details[0]["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
    assert_eq!((&details[0]["reason"], &details[0]["domain"]), (&json!(error.reason()), &json!("a2a-protocol.org")));
    assert!(details[0]["metadata"].is_object());
    match binding {
        Binding::Rpc(_) => Fault::from_json_rpc(document),
        Binding::Rest(_) => Fault::from_http(said.status, &body),
    }
}

/// Whether it contains words that agents do not know.
fn speaks_of_ours(message: &str) -> bool {
    const OURS: [&str; 6] = ["run", "runs", "thread", "threads", "suspension", "suspensions"];
    message.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| OURS.contains(&&*word.to_lowercase()))
}

#[tokio::test]
async fn errors_speak_of_tasks_and_contexts() {
    let store = fresh_store().await;
    let app = App::of(store.clone(), |config| config.limits.queued_runs = 0).await;
    let asking = NEW.send(&app, &says("asking", "ask")).await.unwrap();
    let broken = NEW.send(&app, &says("broken", "hello")).await.unwrap();
    let row = store.thread(TenantPk(1), &broken.context_id.as_str().into()).await.unwrap().unwrap();
    let set_aside = Commit { status: ThreadStatus::Quarantined, ..after(&row) };
    assert_eq!(store.commit(set_aside).await.unwrap(), Committed::Done);
    for binding in BINDINGS {
        for (task, error) in [(&asking, Error::ResourceExhausted), (&broken, Error::InvalidParams)] {
            let mut more = says("more", "hello");
            more.message.context_id = Some(task.context_id.clone());
            let said = binding.ask(&app, Method::SendMessage, binding.version().send_request(&more)).send().await;
            let (of_rpc, of_rest) = if error == Error::InvalidParams { (200, 400) } else { (429, 429) };
            let status = if matches!(binding, Binding::Rpc(_)) { of_rpc } else { of_rest };
            let message = said.expect(status)["error"]["message"].as_str().unwrap_or_default().to_owned();
            assert!(message.contains("context") && !speaks_of_ours(&message), "{message}");
        }
    }
}

#[tokio::test]
async fn every_error_has_its_code_its_status_and_its_reason() {
    let app = App::start().await;
    let done = NEW.send(&app, &says("done", "hello")).await.unwrap();
    for binding in BINDINGS {
        let version = binding.version();
        let id = |id: &str| json!({ "id": id });
        let send = |request: &_| version.send_request(request);
        let mut pushed = says("p", "hello");
        pushed.configuration.push = Some(PushConfig { url: "https://example.com/".into(), ..PushConfig::default() });
        let mut of_agent = says("a", "hello");
        of_agent.message.role = Role::Agent;
        let mut cases: Vec<(Method, Value, Error)> = vec![
            (Method::GetTask, id("run_unknown"), Error::TaskNotFound),
            (Method::CancelTask, id(&done.id), Error::TaskNotCancelable),
            (Method::SendMessage, send(&about(&done, says("n", "more"))), Error::UnsupportedOperation),
            (Method::SendMessage, send(&of(message("e", vec![]))), Error::InvalidParams),
            (Method::SendMessage, send(&says("b", " \n")), Error::InvalidParams),
            (Method::SendMessage, send(&of_agent), Error::InvalidParams),
            (Method::SendMessage, json!({}), Error::InvalidParams),
            (
                Method::SendMessage,
                json!({ "message": { "messageId": "x", "role": "user", "parts": [{}] } }),
                Error::InvalidParams,
            ),
        ];
        if version == Version::V1 {
            cases.push((Method::GetExtendedAgentCard, json!({}), Error::ExtendedAgentCardNotConfigured));
        }
        for (method, params, error) in cases {
            let said = binding.ask(&app, method, params).send().await;
            checked(binding, &said, error);
        }
    }
    assert_eq!(app.get("/threads").await.expect(200)["items"].as_array().unwrap().len(), 1, "nothing was stored");
}

#[tokio::test]
async fn invalid_parameters_say_where() {
    let app = App::start().await;
    for binding in [NEW, Binding::Rest(Version::V1)] {
        let params = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "a" }, {}] } });
        let said = binding.ask(&app, Method::SendMessage, params).send().await;
        let body = said.json();
        let details =
            if matches!(binding, Binding::Rpc(_)) { &body["error"]["data"] } else { &body["error"]["details"] };
        assert_eq!(details[1]["@type"], "type.googleapis.com/google.rpc.BadRequest", "{body:#}");
        assert_eq!(details[1]["fieldViolations"][0]["field"], "/message/parts/1");
    }
}

/// Agents may delegate to one another in a circle.
#[tokio::test]
async fn a_message_that_is_nested_too_deep_is_refused() {
    let app = App::start().await;
    for (at, binding) in BINDINGS.into_iter().enumerate() {
        let send = |state: &str| {
            let request = binding.version().send_request(&says(&format!("{state}-{at}"), "hello"));
            let ask = binding.ask(&app, Method::SendMessage, request).header("tracestate", state);
            ask.header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").send()
        };
        assert_eq!(send("a=b,pes=4").await.expect(200)["error"], Value::Null);
        checked(binding, &send("a=b,pes=5").await, Error::InvalidRequest);
    }
    assert_eq!(app.get("/runs").await.expect(200)["items"].as_array().unwrap().len(), BINDINGS.len());
}

#[tokio::test]
async fn a_version_that_nobody_speaks_is_refused() {
    let app = App::start().await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": { "id": "x" } });
    for version in ["9.9", "1.1", "x"] {
        let said = app.ask("POST", "/a2a").header("a2a-version", version).json(&call).send().await;
        checked(NEW, &said, Error::VersionNotSupported);
        let said = app.ask("GET", "/a2a/tasks").header("a2a-version", version).send().await;
        checked(Binding::Rest(Version::V1), &said, Error::VersionNotSupported);
        let said = app.ask("GET", &format!("/a2a/tasks?A2A-Version={version}")).send().await;
        checked(Binding::Rest(Version::V1), &said, Error::VersionNotSupported);
    }
    // Only major and minor count.
    let said = app.ask("POST", "/a2a").header("a2a-version", "1.0.7").json(&call).send().await;
    checked(NEW, &said, Error::TaskNotFound);
}

#[tokio::test]
async fn a_required_extension_must_be_declared() {
    let app = App::with(|config| config.a2a.requires_questions = true).await;
    for binding in BINDINGS {
        let ask = || binding.ask(&app, Method::GetTask, json!({ "id": "x" }));
        let said = ask().send().await;
        let fault = checked(binding, &said, Error::ExtensionSupportRequired);
        let uri = fault.metadata["extension"].as_str().unwrap().to_owned();
        let said = ask().header("a2a-extensions", &format!("urn:other, {uri}")).send().await;
        checked(binding, &said, Error::TaskNotFound);
        let said = binding.ask(&app, Method::SendMessage, binding.version().send_request(&says("m", "hello")));
        let said = said.header("a2a-extensions", &uri).send().await;
        assert_eq!(said.expect(200)["error"], Value::Null);
        assert_eq!(said.header("a2a-extensions"), Some(&*uri), "what is active is told");
    }
}

/// A type that only a skill may name.
const BINARY: &str = "application/octet-stream";

fn file(media_type: Option<&str>, content: Vec<u8>) -> Part {
    Part { media_type: media_type.map(str::to_owned), ..Part::new(Content::Raw(content.into())) }
}

/// The model would only see the name of such a file.
#[tokio::test]
async fn a_file_that_is_no_text_is_refused_unless_a_skill_names_its_type() {
    let app = App::start().await;
    let sent = |binding: Binding, file: Part| {
        let request = of(message("m", vec![Part::text("hello"), file]));
        binding.ask(&app, Method::SendMessage, binding.version().send_request(&request)).send()
    };
    for binding in BINDINGS {
        let (ascii, latin_1) = (b"text", [b'C', 0xe9]);
        for (media_type, content) in
            [(None, &ascii[..]), (Some(BINARY), &ascii[..]), (Some("text/plain"), &latin_1[..])]
        {
            checked(binding, &sent(binding, file(media_type, content.to_vec())).await, Error::ContentTypeNotSupported);
        }
    }
    assert_eq!(app.get("/threads").await.expect(200)["items"], json!([]));
    let app = App::with(|config| config.a2a.skills[0].input_modes.push(BINARY.to_owned())).await;
    NEW.send(&app, &of(message("m", vec![Part::text("hello"), file(Some(BINARY), vec![1])]))).await.unwrap();
}

#[tokio::test]
async fn too_much_is_refused_and_leaves_nothing_behind() {
    let app = App::with(|config| {
        (config.a2a.part_bytes, config.a2a.body_bytes) = (1000, 4000);
        config.a2a.skills[0].input_modes.push(BINARY.to_owned());
    })
    .await;
    for binding in BINDINGS {
        let send = |size: usize| {
            let request = of(message("m", vec![Part::text("hello"), file(Some(BINARY), vec![1; size])]));
            binding.ask(&app, Method::SendMessage, binding.version().send_request(&request)).send()
        };
        let fault = checked(binding, &send(1001).await, Error::InvalidParams);
        assert!(fault.detail.contains("/message/parts/1"), "{}", fault.detail);
        let said = send(5000).await;
        let body = said.json();
        match binding {
            Binding::Rpc(_) => assert_eq!((said.status, &body["error"]["code"]), (200, &json!(-32600)), "{body:#}"),
            Binding::Rest(_) => assert_eq!((said.status, &body["error"]["code"]), (413, &json!(413)), "{body:#}"),
        }
    }
    assert_eq!(app.get("/threads").await.expect(200)["items"], json!([]));
    let fits = of(message("m", vec![Part::text("hello"), file(Some(BINARY), vec![1; 1000])]));
    NEW.send(&app, &fits).await.unwrap();
}

#[tokio::test]
async fn a_part_of_ten_mebibytes_is_taken_and_no_larger_one() {
    assert_eq!(Config::default().a2a.part_bytes, 10 << 20);
    // Ten of them take long.
    let is_all = Variables::of_process().get("PES_TEST_ALL").is_some();
    let limit = if is_all { 10 << 20 } else { 200 << 10 };
    let app = App::with(|config| {
        config.a2a.part_bytes = limit;
        config.a2a.skills[0].input_modes.push(BINARY.to_owned());
    })
    .await;
    for binding in [NEW, Binding::Rest(Version::V1)] {
        let send = |size: usize| {
            let request = of(message("m", vec![Part::text("hello"), file(Some(BINARY), vec![1; size])]));
            binding.ask(&app, Method::SendMessage, binding.version().send_request(&request)).send()
        };
        checked(binding, &send(limit + 1).await, Error::InvalidParams);
        assert_eq!(app.get("/threads").await.expect(200)["items"], json!([]), "nothing is stored");
        assert_eq!(send(limit).await.expect(200)["error"], Value::Null);
        let threads = app.get("/threads").await.expect(200)["items"].clone();
        let thread = threads[0]["threadId"].as_str().unwrap().to_owned();
        assert_eq!(app.ask("DELETE", &format!("/threads/{thread}")).send().await.status, 204);
    }
}

#[tokio::test]
async fn a_body_of_another_type_is_refused_as_each_binding_has_it() {
    let app = App::start().await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": { "id": "x" } }).to_string();
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"] {
        let said = app.ask("POST", "/a2a").header("a2a-version", "1.0").typed(media_type, &body).send().await;
        checked(NEW, &said, Error::ContentTypeNotSupported);
        let said =
            app.ask("POST", "/a2a/message:send").header("a2a-version", "1.0").typed(media_type, "{}").send().await;
        let refused = said.expect(415);
        assert_eq!(refused["error"]["details"][0]["reason"], "CONTENT_TYPE_NOT_SUPPORTED");
    }
    // Its own media type is accepted, and the response uses it where it is requested.
    let params = Version::V1.send_request(&says("m", "hello")).to_string();
    let ask = || app.ask("POST", "/a2a/message:send").header("a2a-version", "1.0");
    let own = ask().typed("application/a2a+json", &params).send().await;
    assert_eq!((own.status, own.header("content-type")), (200, Some("application/a2a+json")));
    let plain = ask().typed("application/json", &params).send().await;
    assert_eq!((plain.status, plain.header("content-type")), (200, Some("application/json")));
    let accepted = ask().header("accept", "application/a2a+json").typed("application/json", &params).send().await;
    assert_eq!(accepted.header("content-type"), Some("application/a2a+json"));
}
