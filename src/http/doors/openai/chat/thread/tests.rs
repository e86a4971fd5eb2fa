use super::*;

#[test]
fn what_stands_for_no_thread_names_none() {
    for nothing in ["", " ", "new", "null", "{{CHAT_ID}}", "{{LIBRECHAT_BODY_CONVERSATIONID}}"] {
        assert_eq!(meant(nothing), None, "{nothing}");
    }
    assert_eq!(meant(" chat-1 "), Some("chat-1"));
}

#[test]
fn what_the_agent_has_answered_is_not_new() {
    let user = |text: &str| Said::User(text.to_owned());
    let answer = Said::Assistant { text: "Hello.".to_owned(), calls: Vec::new() };
    assert_eq!(news(&[user("hi"), answer.clone(), user("and?")]), [user("and?")]);
    assert_eq!(news(&[user("hi")]), [user("hi")]);
    assert_eq!(news(&[user("hi"), answer]), []);
}
