//! `/openapi.json`

use std::path::Path;

use serde_json::Value;

use crate::support::app::App;

#[test]
fn the_document_is_the_one_that_was_agreed_on() {
    let document = pes::http::openapi();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi.json");
    let found = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
    std::fs::write(&found, format!("{document:#}\n")).unwrap();
    let agreed: Value = serde_json::from_str(&std::fs::read_to_string(&kept).unwrap()).unwrap();
    assert!(agreed == document, "the API has changed: look at it, then cp {} {}", found.display(), kept.display());
}

#[tokio::test]
async fn the_document_is_served_with_its_address() {
    let app = App::start().await;
    let document = app.get("/openapi.json").await.expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["servers"][0]["url"], format!("http://{}", app.address));
}

/// Whatever the document refers to is in it, and every operation says how it fails.
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
            assert!(operation["summary"].is_string(), "{method} {path}");
            assert!(names.insert(operation["operationId"].to_string()), "{operation:#}");
        }
    }
}
