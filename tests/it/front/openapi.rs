//! `/openapi.json`

use std::path::Path;

use serde_json::{Value, json};

use crate::support::app::App;

#[test]
fn the_document_is_the_one_that_was_agreed_on() {
    let document = pes::http::openapi();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi.json");
    let found = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
    std::fs::write(&found, format!("{document:#}\n")).unwrap();
    let agreed: Value = serde_json::from_str(&std::fs::read_to_string(&kept).unwrap()).unwrap();
    assert!(
        agreed == document,
        "the API has changed: look at it, then cp {} {} and run clients/generate.py",
        found.display(),
        kept.display()
    );
}

#[tokio::test]
async fn the_document_is_served_with_its_address() {
    let app = App::start().await;
    let document = app.get("/openapi.json").await.expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["servers"][0]["url"], format!("http://{}", app.address));
}

/// Every reference of the document resolves, and every operation declares its errors.
#[test]
fn the_document_is_whole() {
    let document = pes::http::openapi();
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(document.pointer(reference).is_some(), "{reference}");
    }
    let mut names = std::collections::BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(operation["responses"]["default"].is_object(), "{method} {path}");
            let responses = operation["responses"].as_object().unwrap();
            let is_described = |response: &Value| response["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(responses.values().all(is_described), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
            // A key is shown once, and has no address.
            let is_named = responses.get("201").is_none_or(|created| created["headers"]["Location"].is_object());
            assert!(is_named || path == "/keys", "{method} {path}: a 201 has a `Location`");
            let id = operation["operationId"].as_str().unwrap();
            assert!(names.insert(id.to_owned()), "{operation:#}");
            let is_chosen =
                id.bytes().all(|byte| byte.is_ascii_alphanumeric()) && id.bytes().any(|byte| byte.is_ascii_uppercase());
            assert!(is_chosen, "{method} {path}: give it an `operation_id` such as `processThread`, not `{id}`");
            for parameter in operation["parameters"].as_array().into_iter().flatten().filter(|it| it["name"] == "limit")
            {
                let schema = &parameter["schema"];
                assert_eq!((&schema["minimum"], &schema["maximum"]), (&json!(1), &json!(1000)), "{method} {path}");
            }
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{name}");
        if name.ends_with("List") {
            assert!(schema["properties"]["items"]["items"]["$ref"].is_string(), "{name} does not refer to its item");
        }
    }
}
