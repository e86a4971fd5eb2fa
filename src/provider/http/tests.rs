use serde_json::json;

use super::*;

#[test]
fn statuses_say_what_can_be_done() {
    let quota = r#"{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}"#;
    let table = [
        (400, r#"{"error":{"message":"bad schema"}}"#, FailureKind::Refused, "bad schema"),
        (401, r#"{"error":"no such key"}"#, FailureKind::Refused, "no such key"),
        (404, "", FailureKind::Refused, "no error message"),
        (302, "moved", FailureKind::Refused, "moved"),
        (408, "{}", FailureKind::Retry, "no error message"),
        (429, "slow down", FailureKind::Retry, "slow down"),
        (429, quota, FailureKind::Refused, "exceeded"),
        (500, "<html>", FailureKind::Retry, "<html>"),
        (400, r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#, FailureKind::TooLong, "m"),
        (501, "", FailureKind::Refused, "501"),
        (400, r#"{"error":{"message":"m","code":"tool_use_failed"}}"#, FailureKind::Broken, "m"),
        (529, r#"{"message":"overloaded"}"#, FailureKind::Retry, "overloaded"),
    ];
    for (status, body, kind, words) in table {
        let failure = classify(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes());
        assert_eq!((failure.kind, failure.http_status), (kind, Some(status)), "{status} {body}");
        assert_eq!(failure.is_models_fault, body.contains("tool_use_failed"), "{status} {body}");
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[test]
fn a_message_names_the_wait_that_was_asked_for() {
    let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, http::HeaderValue::from_static("3600"))]);
    let failure = classify(StatusCode::TOO_MANY_REQUESTS, &headers, br#"{"error":{"message":"slow down"}}"#);
    let message = "the provider answered 429 Too Many Requests: slow down (it asks to wait for 3600 s)";
    assert_eq!((failure.message.as_str(), failure.retry_after_ms), (message, Some(3_600_000)));
}

#[test]
fn a_status_without_a_name_is_told_by_its_number() {
    let failure = classify(StatusCode::from_u16(529).unwrap(), &HeaderMap::new(), br#"{"message":"overloaded"}"#);
    assert_eq!(failure.message, "the provider answered 529: overloaded");
}

#[test]
fn errors_in_a_stream_are_classified_alike() {
    let table = [
        (json!({"error": {"message": "m", "code": 429}}), FailureKind::Retry),
        (json!({"error": {"message": "m", "code": "502"}}), FailureKind::Retry),
        (json!({"error": {"message": "m", "type": "server_error"}}), FailureKind::Retry),
        (json!({"error": {"message": "m", "code": 400}}), FailureKind::Refused),
        (json!({"object": "error", "message": "m", "type": "BadRequestError"}), FailureKind::Refused),
        (json!({"error": {"message": "m", "code": "tool_use_failed"}}), FailureKind::Broken),
        (json!({"error": {"message": "m", "type": "invalid_request_error"}}), FailureKind::Refused),
        (json!({"error": {"message": "m"}}), FailureKind::Retry),
        (json!({"error": "m"}), FailureKind::Retry),
    ];
    for (error, kind) in table {
        let failure = in_stream(&error);
        assert_eq!((failure.kind, failure.message.as_str()), (kind, "the provider broke off: m"), "{error}");
        assert_eq!(failure.is_models_fault, kind == FailureKind::Broken, "{error}");
    }
}

#[test]
fn a_prompt_that_is_too_long_is_known_by_what_each_vendor_says() {
    let texts = [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "prompt is too long: 212345 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000, decrease input length or `max_tokens`",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "The number of tokens to keep from the initial prompt is greater than the context length. Try a shorter input.",
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with 4096 tokens.",
        "Cannot truncate prompt with n_keep (4100) >= n_ctx (4096)",
    ];
    for text in texts {
        let body = json!({"error": {"message": text}});
        let failure = classify(StatusCode::BAD_REQUEST, &HeaderMap::new(), body.to_string().as_bytes());
        assert_eq!((failure.kind, in_stream(&body).kind), (FailureKind::TooLong, FailureKind::TooLong), "{text}");
    }
}

#[test]
fn an_error_in_a_stream_says_when_to_come_back() {
    let details = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]);
    let error = json!({"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED", "details": details});
    for error in [json!({ "error": error }), error] {
        let failure = in_stream(&error);
        assert_eq!((failure.kind, failure.retry_after_ms), (FailureKind::Retry, Some(34_500)), "{error}");
    }
}
