use super::*;

#[test]
fn what_stands_for_no_thread_names_none() {
    for nothing in ["", " ", "new", "null", "{{CHAT_ID}}", "{{LIBRECHAT_BODY_CONVERSATIONID}}"] {
        assert_eq!(meant(nothing), None, "{nothing}");
    }
    assert_eq!(meant(" chat-1 "), Some("chat-1"));
}
