//! Answers are parsed: tags and metadata are split off, and the text stays whole.

use pes_engine::parse::synthesis;
use rstest::rstest;
use serde_json::json;

#[rstest]
#[case::tags("<mainContent>\n# Hi\n</mainContent>\n<uiMetadata>{\"suggestions\":[\"more\"]}</uiMetadata>")]
#[case::any_case("<MAINCONTENT># Hi</maincontent><UIMetadata>```json\n{\"suggestions\":[\"more\"]}\n```</uimetadata>")]
#[case::open_tags("<mainContent># Hi <uiMetadata>{\"suggestions\":[\"more\"]")]
#[case::block("# Hi\n\n```json\n{\"suggestions\": [\"more\",]}\n```\n")]
fn tags_and_metadata_are_taken_out(#[case] text: &str) {
    let draft = synthesis(text);
    assert_eq!((draft.content.as_str(), draft.ui_metadata), ("# Hi", Some(json!({"suggestions": ["more"]}))));
}

#[rstest]
#[case("plain")]
#[case("a < b, <b>bold</b>, 1 <")]
#[case("Your JSON:\n```json\n{\"name\": 1}\n```")]
#[case("```json\n{\"sources\": [\"the whole answer\"]}\n```")]
#[case("```json\n{\"sources\": []}\n```\nand text after it")]
fn text_is_kept_whole(#[case] text: &str) {
    let draft = synthesis(text);
    assert_eq!((draft.content.as_str(), draft.ui_metadata), (text, None));
}

#[test]
fn text_outside_the_tags_is_kept() {
    let draft = synthesis("Note: <mainContent>answer</mainContent> <uiMetadata>not json</uiMetadata>end");
    assert_eq!((draft.content.as_str(), draft.ui_metadata), ("Note: answer end", None));
    assert_eq!(synthesis("what does <uiMetadata> mean?").content, "what does  mean?");
    assert_eq!(synthesis("no <main<mainContent>Content>trick").content, "no trick");
}

#[test]
fn sources_and_suggestions_have_one_shape() {
    let metadata = json!({
        "sources": ["Paper", "https://a.example/x", {"title": "B", "link": "http://b.example"}, {"sourceName": "C", "url": "javascript:alert(1)"}, 7],
        "suggestions": [" ", "More?", {"text": "Less?"}, 3],
        "chart": {"kept": true},
    });
    let draft = synthesis(&format!("x<uiMetadata>{metadata}</uiMetadata>"));
    let expected = json!({
        "chart": {"kept": true},
        "sources": [{"sourceName": "Paper"}, {"sourceName": "https://a.example/x", "url": "https://a.example/x"},
            {"sourceName": "B", "url": "http://b.example"}, {"sourceName": "C"}],
        "suggestions": ["More?", "Less?"],
    });
    assert_eq!(draft.ui_metadata, Some(expected));
}

#[test]
fn artifacts_are_delivered_checked_and_bounded() {
    let sound = json!([
        {"name": "Report", "mediaType": "text/markdown; charset=utf-8", "text": "# Hi"},
        {"filename": "a.txt", "mime_type": "x", "media_type": "text/plain", "raw": "dGNr"},
        {"url": "https://a.example/x"},
        {"data": {"key": [1, null]}},
    ]);
    let draft = synthesis(&format!("x<uiMetadata>{}</uiMetadata>", json!({ "artifacts": sound })));
    let mut expected = sound.clone();
    expected[1] = json!({"filename": "a.txt", "mediaType": "text/plain", "raw": "dGNr"});
    assert_eq!(draft.ui_metadata, Some(json!({ "artifacts": expected })));
    let broken = [
        json!({}),
        json!({"text": "a", "url": "https://a.example"}),
        json!({"raw": "not base64"}),
        json!({"url": "file:///etc/passwd"}),
        json!({"text": 7}),
        json!({"text": "a", "mediaType": "text"}),
        json!({"text": "a", "name": "a\nb"}),
        json!({"text": "a".repeat(1024 * 1024 + 1)}),
        json!("a"),
    ];
    for broken in broken {
        let draft = synthesis(&format!("x<uiMetadata>{}</uiMetadata>", json!({ "artifacts": [broken] })));
        let told = draft.ui_metadata.unwrap_or_else(|| panic!("{broken}"));
        assert!(told.get("artifacts").is_none(), "{told}");
        assert!(told["artifactNotes"][0].as_str().unwrap().starts_with("Artifact 1 is left out: "), "{told}");
    }
    let many = json!({ "artifacts": vec![json!({"text": "a"}); 40] });
    let told = synthesis(&format!("x<uiMetadata>{many}</uiMetadata>")).ui_metadata.unwrap();
    assert_eq!(
        (told["artifacts"].as_array().unwrap().len(), told["artifactNotes"].as_array().unwrap().len()),
        (16, 16)
    );
}
