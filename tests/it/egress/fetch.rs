//! `http_fetch`: what the model gets of a response.

use pes::domain::ids::TenantPk;
use pes::domain::tool::ToolClass;
use pes::egress::{Allow, Egress, EgressRules};
use pes::tool::builtin;
use serde_json::{Value, json};

use super::{egress, fickle};
use crate::support::tool::context;
use crate::support::unused_address::unused_address;
use crate::support::wire::{Step, Wire, answer};

#[tokio::test]
async fn text_is_told_with_its_status_and_a_few_headers() {
    let mut host = Wire::serve(vec![
        answer("404 Not Found", "content-type: text/plain; charset=utf-8\r\nset-cookie: s\r\netag: \"e\"\r\n", "grün"),
        answer("200 OK", "content-type: image/png\r\n", "\u{1}\0\u{2}"),
    ])
    .await;
    let egress = egress(&[&host.address.to_string()], fickle(&["127.0.0.1"]));
    let fetch = builtin::calling_out(&egress).remove(0);
    let url = format!("http://{}/a?b=c", host.address);
    let asked = json!({ "url": url, "method": "POST", "headers": { "x-a": "1", "host": "inside" }, "body": "{}" });
    let told = fetch.call(asked, context()).await.unwrap();
    let expected = json!({
        "url": url, "status": 404, "contentType": "text/plain; charset=utf-8", "body": "grün",
        "headers": { "content-length": "5", "etag": "\"e\"" },
    });
    assert_eq!(told.output, expected);
    assert_eq!(told.metadata.unwrap()["sources"][0]["url"], url);
    let request = host.request().await;
    assert_eq!((request.line.as_str(), request.header("x-a")), ("POST /a?b=c HTTP/1.1", Some("1")));
    assert_eq!(
        request.header("host"),
        Some(host.address.to_string().as_str()),
        "whom it is sent to is not the model's"
    );
    let told = fetch.call(json!({ "url": url }), context()).await.unwrap();
    assert_eq!(told.output["binary"], json!({ "bytes": 3, "isWhole": true }));
    assert_eq!(told.output["body"], Value::Null);
}

/// That is no response of the service, which may have executed the request.
#[tokio::test]
async fn a_write_that_a_gateway_lost_is_in_doubt_and_a_look_is_not() {
    let host =
        Wire::serve(vec![answer("504 Gateway Timeout", "", "late"), answer("504 Gateway Timeout", "", "late")]).await;
    let egress = egress(&[&host.address.to_string()], fickle(&["127.0.0.1"]));
    let fetch = builtin::calling_out(&egress).remove(0);
    let url = format!("http://{}/", host.address);
    let lost = fetch.call(json!({ "url": url, "method": "POST", "body": "{}" }), context()).await.unwrap_err();
    assert!(lost.is_lost() && lost.message.contains("504"), "{lost:?}");
    assert_eq!(host.connections(), 1, "it is not sent again by itself");
    assert_eq!(fetch.call(json!({ "url": url }), context()).await.unwrap().output["status"], 504);
}

/// The first address refuses the call, nobody listens at the second, and the third breaks the connection.
#[tokio::test]
async fn a_write_whose_redirect_leads_nowhere_is_answered_by_the_redirect() {
    let (closed, _held) = unused_address();
    let broken = Wire::serve(Vec::new()).await;
    let away = [
        ("http://10.0.0.1/".to_owned(), "egress_refused"),
        (format!("http://{closed}/"), "failed"),
        (format!("http://{}/", broken.address), "failed"),
    ];
    let redirects = |status: &str| {
        let to = |(location, _): &(String, _)| answer(status, &format!("location: {location}\r\n"), "done");
        away.iter().map(to).collect::<Vec<_>>()
    };
    let all = ["301 Moved Permanently", "302 Found", "303 See Other", "303 See Other"].map(redirects);
    let host = Wire::serve(all.concat()).await;
    let allow = [host.address, closed, broken.address].map(|address| address.to_string());
    let egress = egress(&allow.each_ref().map(String::as_str), fickle(&["127.0.0.1"]));
    let fetch = builtin::calling_out(&egress).remove(0);
    let url = format!("http://{}/orders", host.address);
    for status in [301, 302, 303] {
        for (location, _) in &away {
            let told = fetch.call(json!({ "url": url, "method": "POST", "body": "{}" }), context()).await.unwrap();
            let seen = ["url", "status", "body"].map(|name| &told.output[name]);
            assert_eq!(seen, [&json!(url), &json!(status), &json!("done")], "{location}");
            assert_eq!(told.output["headers"]["location"], *location);
        }
    }
    for (location, code) in &away {
        let error = fetch.call(json!({ "url": url }), context()).await.unwrap_err();
        assert_eq!(error.code, *code, "a look is not answered: {location}");
    }
}

/// A request on it could meet the close, and then nobody knows whether it was processed.
#[tokio::test]
async fn a_connection_that_its_host_is_about_to_close_is_not_used_again() {
    for (seconds, connections) in [(1, 2), (20, 1)] {
        let kept = answer("200 OK", &format!("keep-alive: timeout={seconds}\r\n"), "in");
        let host = Wire::serve(vec![kept.clone(), kept]).await;
        let egress = egress(&[&host.address.to_string()], fickle(&["127.0.0.1"]));
        let fetch = builtin::calling_out(&egress).remove(0);
        for _ in 0..2 {
            let asked = json!({ "url": format!("http://{}/", host.address) });
            assert_eq!(fetch.call(asked, context()).await.unwrap().output["body"], "in");
        }
        assert_eq!(host.connections(), connections, "it is kept for {seconds} s");
    }
}

/// Where the redirect leads, a gateway loses the service, or the connection breaks in the middle of the body.
#[tokio::test]
async fn a_write_whose_result_was_lost_is_answered_by_the_redirect() {
    let half = Step::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec());
    for lost in [answer("504 Gateway Timeout", "", "late"), vec![half, Step::Cut]] {
        let host = Wire::serve(vec![answer("303 See Other", "location: /orders/7\r\n", "done"), lost]).await;
        let egress = egress(&[&host.address.to_string()], fickle(&["127.0.0.1"]));
        let url = format!("http://{}/orders", host.address);
        let asked = json!({ "url": url, "method": "POST", "body": "{}" });
        let told = builtin::calling_out(&egress).remove(0).call(asked, context()).await.unwrap();
        let seen = ["url", "status", "body"].map(|name| &told.output[name]);
        assert_eq!((seen, host.waiting()), ([&json!(url), &json!(303), &json!("done")], 2));
    }
}

/// Status and headers of the redirect say that the request was carried out, and where its result is.
#[tokio::test]
async fn a_write_whose_result_and_redirect_broke_off_is_answered_by_what_came_of_the_redirect() {
    let head = "HTTP/1.1 303 See Other\r\nlocation: /orders/7\r\ncontent-length: 9\r\n\r\nhalf";
    let broken = vec![Step::Raw(head.into()), Step::Cut];
    let host = Wire::serve(vec![broken, answer("504 Gateway Timeout", "", "late")]).await;
    let egress = egress(&[&host.address.to_string()], fickle(&["127.0.0.1"]));
    let asked = json!({ "url": format!("http://{}/orders", host.address), "method": "POST", "body": "{}" });
    let told = builtin::calling_out(&egress).remove(0).call(asked, context()).await.unwrap().output;
    let seen = ["status", "body", "truncated"].map(|name| &told[name]);
    assert_eq!((seen, &told["headers"]["location"]), ([&json!(303), &json!(""), &json!(true)], &json!("/orders/7")));
    assert_eq!(host.waiting(), 2);
}

#[tokio::test]
async fn a_long_body_is_cut() {
    let long = "x".repeat(600 * 1024);
    let host = Wire::serve(vec![answer("200 OK", "", &long)]).await;
    let egress = egress(&[&host.address.to_string()], fickle(&["127.0.0.1"]));
    let asked = json!({ "url": format!("http://{}/", host.address) });
    let told = builtin::calling_out(&egress).remove(0).call(asked, context()).await.unwrap().output;
    assert_eq!((told["body"].as_str().unwrap().len(), &told["truncated"]), (512 * 1024, &json!(true)));
}

#[tokio::test]
async fn every_request_is_external_and_looking_may_be_repeated() {
    let fetch = builtin::calling_out(&egress(&[], fickle(&["127.0.0.1"]))).remove(0);
    let failed = async |method: &str| {
        let asked = json!({ "url": "https://example.com", "method": method });
        fetch.call(asked, context()).await.unwrap_err().has_no_effect
    };
    assert_eq!([failed("GET").await, failed("HEAD").await, failed("POST").await], [true, true, false]);
    let nature = |method: Value| fetch.nature(&json!({ "url": "https://example.com", "method": method }));
    assert_eq!((nature(json!("HEAD")).class, nature(json!("HEAD")).idempotent), (ToolClass::External, true));
    assert_eq!((nature(json!("POST")).class, nature(json!("POST")).idempotent), (ToolClass::External, false));
    assert_eq!(fetch.nature(&json!({ "url": "https://example.com/?q=SECRET" })).class, ToolClass::External);
}

#[tokio::test]
async fn one_tenants_allow_list_is_no_other_tenants() {
    let host = Wire::serve(vec![answer("200 OK", "", "in")]).await;
    let mut rules = EgressRules::default();
    rules.tenants.insert(TenantPk(2), Allow::parse(&["127.0.0.0/8"]).unwrap());
    let egress = std::sync::Arc::new(Egress::with_rules(std::time::Duration::from_secs(2), rules));
    let fetch = builtin::calling_out(&egress).remove(0);
    let asked = json!({ "url": format!("http://{}/", host.address) });
    let mut theirs = context();
    theirs.tenant = TenantPk(2);
    assert_eq!(fetch.call(asked.clone(), theirs).await.unwrap().output["body"], "in");
    assert_eq!(fetch.call(asked, context()).await.unwrap_err().code, "egress_refused");
}
