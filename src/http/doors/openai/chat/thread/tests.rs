use super::*;

#[test]
fn what_stands_for_no_thread_names_none() {
    for nothing in ["", " ", "new", "null", "{{CHAT_ID}}", "{{LIBRECHAT_BODY_CONVERSATIONID}}"] {
        assert_eq!(without_placeholder(nothing), None, "{nothing}");
    }
    assert_eq!(without_placeholder(" chat-1 "), Some("chat-1"));
}
