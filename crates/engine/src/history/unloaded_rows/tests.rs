use super::*;

#[test]
fn names_are_all_short_strings_of_a_text() {
    let mut found = BTreeSet::new();
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    names(&format!(r#"{{"a":["call_1",{{"$payload":"str_2"}},7,"{long}"]}}"#), &mut found);
    names("no JSON", &mut found);
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["$payload", "a", "call_1", "str_2"]);
}

#[test]
fn what_messages_consist_of_stays() {
    for name in ["msg_1", "msg_1.ui"] {
        let may_go = |kind: RowKind| matches!(kind, RowKind::Item | RowKind::Progress);
        assert!(rows_named(name).into_iter().all(|(kind, _)| may_go(kind)), "{name}");
    }
    assert!(rows_named("str_1").contains(&(RowKind::Payload, "str_1.replay".to_owned())));
}

#[test]
fn an_item_may_have_any_name_and_an_answer_has_that_of_its_question() {
    for name in ["msg_1", "call_api", "task_1", "str_ong", "sus_1", "item_1", "plain"] {
        let rows = rows_named(name);
        assert!([RowKind::Item, RowKind::Progress].iter().all(|kind| rows.contains(&(*kind, name.to_owned()))));
    }
    assert!(rows_named("sus_1").contains(&(RowKind::Payload, "sus_1.reply".to_owned())));
}
