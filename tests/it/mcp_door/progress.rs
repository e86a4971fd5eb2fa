//! A client that sends a progress token gets progress notifications.

use serde_json::{Value, json};

use super::host::{ALL, Host, text};
use crate::support::app::App;
use crate::support::store::Moody;

async fn events(app: &App, host: Host, arguments: Value, token: Option<Value>) -> Vec<Value> {
    let mut params = json!({ "name": "ask", "arguments": arguments });
    if let Some(token) = token {
        params["_meta"]["progressToken"] = token;
    }
    let events = host.request(app, "tools/call", params).events().await.all().await;
    events.into_iter().map(|event| event.data).collect()
}

#[tokio::test]
async fn progress_rises_until_the_result() {
    let app = App::of(Moody::fresh().await, |_| {}).await;
    // The time of a call passes once nothing else happens: when the first item thinks.
    tokio::time::pause();
    for (host, token) in ALL.into_iter().zip([json!("p"), json!(7), json!("p")]) {
        let events = events(&app, host, json!({ "query": "stuck", "wait": 2 }), Some(token.clone())).await;
        let (result, told) = events.split_last().unwrap();
        assert!(text(&result["result"]).contains("0 of 3"), "{result:#}");
        let mut before = -1.0;
        for notification in told {
            assert_eq!(notification["method"], "notifications/progress");
            assert_eq!((&notification["params"]["progressToken"], notification.get("id")), (&token, None));
            let progress = notification["params"]["progress"].as_f64().unwrap();
            assert!(progress > before, "{events:#?}");
            before = progress;
        }
        let last = &told.last().expect("it was told how it goes on")["params"];
        assert_eq!((&last["message"], &last["total"]), (&json!("Think for ever"), &json!(4)), "{events:#?}");
    }
}

#[tokio::test]
async fn who_gives_no_token_is_told_the_result_alone() {
    let app = App::start().await;
    for host in ALL {
        for token in [None, Some(Value::Null), Some(json!({}))] {
            let events = events(&app, host, json!({ "query": "count" }), token).await;
            assert_eq!(events.len(), 1, "{events:#?}");
        }
    }
}
