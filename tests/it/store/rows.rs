//! The rows of a thread are loaded, fetched and paged.

use std::slice;
use std::sync::Arc;

use pes::domain::ids::PayloadId;
use pes::domain::message::{ConversationMessage, MessageRole};
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::{Commit, Error, MAX_PAGE_BYTES, Order, PageAsk, SuspensionsWanted};
use serde_json::json;

use super::bed::{Bed, ids, page, row};

super::on_every_store!(
    superseded_messages_are_left_out_of_the_conversation,
    what_is_kept_is_loaded_in_order,
    rows_are_paged_both_ways,
    pages_stand_while_rows_are_added,
    a_page_of_large_rows_has_fewer_of_them,
    history_ends_before_it_is_too_large,
    the_sizes_of_rows_are_read_without_them,
    history_is_the_newest_messages_oldest_first,
    history_goes_on_before_messages_that_cannot_be_read,
    payloads_come_as_values,
    nothing_is_read_of_another_thread,
    a_foreign_cursor_is_refused,
);

async fn what_is_kept_is_loaded_in_order(bed: Bed) {
    let pk = bed.thread("t1").await;
    let rows = vec![
        row(RowKind::Item, "b", 2, Keep::Always),
        row(RowKind::Item, "a", 2, Keep::Always),
        row(RowKind::Run, "run", 7, Keep::Always),
        row(RowKind::Turn, "below", 4, Keep::UntilFloor),
        row(RowKind::Turn, "at", 5, Keep::UntilFloor),
        row(RowKind::Call, "never", 9, Keep::Never),
        row(RowKind::Item, "early", 1, Keep::Always),
        row(RowKind::AgentState, "", 0, Keep::Always),
    ];
    bed.done(Commit { rows, floor: 5, ..bed.next(pk).await }).await;
    let (thread, loaded) = bed.store.load(pk).await.unwrap().unwrap();
    assert_eq!(thread.floor, 5);
    assert_eq!(ids(&loaded), ["run", "early", "a", "b", "at", ""]);
    assert_eq!(bed.store.load(super::bed::fresh_pk()).await.unwrap(), None);
}

async fn rows_are_paged_both_ways(bed: Bed) {
    let pk = bed.thread("t1").await;
    for kind in [RowKind::Run, RowKind::Call] {
        let rows = (0..7).map(|n| row(kind, &format!("r{n}"), n / 2, Keep::Never)).collect();
        bed.write(pk, rows).await;
        for order in [Order::Ascending, Order::Descending] {
            let mut seen = Vec::new();
            let mut ask = page(3);
            loop {
                let found = bed.store.rows(pk, kind, order, &ask).await.unwrap();
                seen.extend(found.items.into_iter().map(|row| row.id));
                assert!(seen.len() <= 7, "{seen:?}");
                match found.next_cursor {
                    Some(cursor) => ask.cursor = Some(cursor),
                    None => break,
                }
            }
            let mut expected: Vec<_> = (0..7).map(|n| format!("r{n}")).collect();
            if order == Order::Descending {
                expected.reverse();
            }
            assert_eq!(seen, expected);
        }
    }
    assert!(bed.store.rows(pk, RowKind::Task, Order::Ascending, &page(3)).await.unwrap().items.is_empty());
}

async fn pages_stand_while_rows_are_added(bed: Bed) {
    let pk = bed.thread("t1").await;
    bed.write(pk, (1..=4).map(|n| row(RowKind::Message, &format!("m{n}"), n, Keep::Never)).collect()).await;
    let first = bed.store.rows(pk, RowKind::Message, Order::Descending, &page(2)).await.unwrap();
    assert_eq!(ids(&first.items), ["m4", "m3"]);
    bed.write(pk, vec![row(RowKind::Message, "m5", 5, Keep::Never)]).await;
    let ask = PageAsk { cursor: first.next_cursor, limit: 2 };
    let second = bed.store.rows(pk, RowKind::Message, Order::Descending, &ask).await.unwrap();
    assert_eq!(ids(&second.items), ["m2", "m1"]);
    assert_eq!(second.next_cursor, None);
}

/// Two of these fit into a page, and the first is larger than one.
fn large_rows(kind: RowKind) -> Vec<Row> {
    let page_bytes = usize::try_from(MAX_PAGE_BYTES).unwrap();
    let row = |n: i64| {
        let bytes = if n == 0 { page_bytes + 1 } else { page_bytes * 2 / 5 };
        Row { body: json!("x".repeat(bytes)).to_string(), ..row(kind, &format!("r{n}"), n, Keep::Never) }
    };
    (0..6).map(row).collect()
}

async fn a_page_of_large_rows_has_fewer_of_them(bed: Bed) {
    let pk = bed.thread("t1").await;
    for kind in [RowKind::Run, RowKind::Message, RowKind::Call] {
        bed.write(pk, large_rows(kind)).await;
        let lists = [Some(Order::Ascending), Some(Order::Descending), None];
        for list in lists.into_iter().filter(|list| list.is_some() || kind == RowKind::Message) {
            let (mut pages, mut ask) = (Vec::new(), page(100));
            loop {
                let found = match list {
                    Some(order) => bed.store.rows(pk, kind, order, &ask).await.unwrap(),
                    None => bed.store.messages(pk, &ask).await.unwrap(),
                };
                pages.push(found.items.into_iter().map(|row| row.id).collect::<Vec<_>>());
                let Some(cursor) = found.next_cursor else { break };
                ask.cursor = Some(cursor);
            }
            match list {
                Some(Order::Descending) => assert_eq!(pages, [&["r5", "r4"][..], &["r3", "r2"], &["r1"], &["r0"]]),
                Some(Order::Ascending) | None => {
                    assert_eq!(pages, [&["r0"][..], &["r1", "r2"], &["r3", "r4"], &["r5"]]);
                }
            }
        }
    }
}

async fn history_ends_before_it_is_too_large(bed: Bed) {
    let pk = bed.thread("t1").await;
    let sized = |n: i64, bytes: usize| {
        let (mut message, row) = message(n);
        message.content = "x".repeat(bytes);
        Row { body: serde_json::to_string(&message).unwrap(), ..row }
    };
    bed.write(pk, vec![sized(1, 1), sized(2, 5_000), sized(3, 4_000)]).await;
    let ids = async |before: &str| {
        let found = bed.store.history(pk, &before.into(), 100, 10_000).await.unwrap();
        found.into_iter().map(|message| message.message_id.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids("").await, "msg_1 msg_2 msg_3");
    bed.write(pk, vec![sized(4, 1_000)]).await;
    assert_eq!(ids("").await, "msg_3 msg_4");
    bed.write(pk, vec![sized(5, 10_001)]).await;
    assert_eq!(ids("").await, "msg_5", "too large for itself");
    assert_eq!(ids("msg_3").await, "msg_1 msg_2");
}

async fn the_sizes_of_rows_are_read_without_them(bed: Bed) {
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    let sized = |id: &str, body: &str| Row { body: body.into(), ..row(RowKind::Payload, id, 0, Keep::Never) };
    bed.write(a, vec![sized("p1", r#""é""#), sized("p2", "1")]).await;
    bed.write(b, vec![sized("p1", "12345")]).await;
    let key = |pk, id: &str| (pk, RowKind::Payload, id.to_owned());
    let wanted = [key(a, "p1"), key(b, "p1"), key(b, "p2"), (a, RowKind::Call, "p1".to_owned())];
    let mut sizes = bed.store.row_bytes(&wanted).await.unwrap();
    sizes.sort_by_key(|(_, bytes)| *bytes);
    assert_eq!(sizes, [(key(a, "p1"), 4), (key(b, "p1"), 5)]);
}

fn message(n: i64) -> (ConversationMessage, Row) {
    let message = ConversationMessage {
        message_id: format!("msg_{n}").into(),
        thread_id: "t1".into(),
        role: MessageRole::User,
        content: format!("message {n}"),
        timestamp: n,
        run_id: None,
        requested_by: None,
        metadata: None,
    };
    let body = serde_json::to_string(&message).unwrap();
    let row = Row { kind: RowKind::Message, id: format!("msg_{n}"), ord: n, keep: Keep::Never, body };
    (message, row)
}

async fn history_is_the_newest_messages_oldest_first(bed: Bed) {
    let pk = bed.thread("t1").await;
    let (messages, rows): (Vec<_>, Vec<_>) = (1..=6).map(message).unzip();
    bed.write(pk, rows).await;
    assert_eq!(bed.store.history(pk, &"elsewhere".into(), 3, MAX_PAGE_BYTES).await.unwrap(), messages[3..]);
    assert_eq!(bed.store.history(pk, &"msg_5".into(), 2, MAX_PAGE_BYTES).await.unwrap(), messages[2..4]);
    assert_eq!(bed.store.history(pk, &"elsewhere".into(), 100, MAX_PAGE_BYTES).await.unwrap(), messages);
    assert_eq!(bed.store.history(pk, &"elsewhere".into(), 0, MAX_PAGE_BYTES).await.unwrap(), []);
}

async fn history_goes_on_before_messages_that_cannot_be_read(bed: Bed) {
    let pk = bed.thread("t1").await;
    let (messages, mut rows): (Vec<_>, Vec<_>) = (1..=6).map(message).unzip();
    rows[2..].iter_mut().for_each(|row| row.body = "{}".to_owned());
    rows[3] = message(4).1;
    bed.write(pk, rows).await;
    let before = async |id: &str| bed.store.history(pk, &id.into(), 2, MAX_PAGE_BYTES).await.unwrap();
    assert_eq!(before("").await, messages[3..4]);
    assert_eq!(before("msg_4").await, messages[1..2], "one of them");
    bed.write(pk, vec![Row { body: "{}".to_owned(), ..message(1).1 }, Row { body: "{}".to_owned(), ..message(2).1 }])
        .await;
    assert_eq!(before("msg_4").await, []);
}

async fn payloads_come_as_values(bed: Bed) {
    let pk = bed.thread("t1").await;
    let stored = |id: &str, body: &str| Row { body: body.into(), ..row(RowKind::Payload, id, 0, Keep::Never) };
    bed.write(pk, vec![stored("p1", r#"{"z":1,"a":[null]}"#), stored("p2", "\"text\"")]).await;
    let ids: Vec<PayloadId> = ["p2", "p1", "unknown"].map(PayloadId::from).into();
    let mut found = bed.store.payloads(pk, &ids).await.unwrap();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("p1", json!({"z": 1, "a": [null]})), ("p2", json!("text"))];
    assert_eq!(found, expected.map(|(id, value)| (PayloadId::from(id), Arc::new(value))));
    let elsewhere = bed.thread("t2").await;
    assert_eq!(bed.store.payloads(elsewhere, &ids).await.unwrap(), []);
}

/// Its rows have the same kinds and ids, and come first.
async fn nothing_is_read_of_another_thread(bed: Bed) {
    let (other, pk) = (bed.thread("t2").await, bed.thread("t1").await);
    let kinds = [RowKind::Run, RowKind::Call];
    let said = |n: i64, ord: i64| Row { ord, ..message(n).1 };
    for (pk, ord, messages) in [(other, 1, [said(1, 1), said(3, 1)]), (pk, 5, [said(2, 2), said(3, 3)])] {
        let mut rows = kinds.map(|kind| row(kind, "id", ord, Keep::Always)).to_vec();
        rows.push(row(RowKind::Turn, "id", ord, Keep::UntilFloor));
        rows.extend(messages);
        bed.write(pk, rows).await;
    }
    for kind in kinds {
        let own = row(kind, "id", 5, Keep::Always);
        assert_eq!(bed.store.row(pk, kind, "id").await.unwrap(), Some(own.clone()));
        for order in [Order::Ascending, Order::Descending] {
            assert_eq!(bed.store.rows(pk, kind, order, &page(9)).await.unwrap().items, slice::from_ref(&own));
        }
    }
    for (order, expected) in [(Order::Ascending, ["msg_2", "msg_3"]), (Order::Descending, ["msg_3", "msg_2"])] {
        let messages = bed.store.rows(pk, RowKind::Message, order, &page(9)).await.unwrap();
        assert_eq!(ids(&messages.items), expected);
    }
    assert_eq!(ids(&bed.store.messages(pk, &page(9)).await.unwrap().items), ["msg_2", "msg_3"]);
    assert_eq!(bed.store.history(pk, &"msg_3".into(), 9, MAX_PAGE_BYTES).await.unwrap(), [message(2).0]);
    let (_, loaded) = bed.store.load(pk).await.unwrap().unwrap();
    assert_eq!(loaded.iter().map(|row| row.ord).collect::<Vec<_>>(), [5, 5, 5]);
}

async fn a_foreign_cursor_is_refused(bed: Bed) {
    let pk = bed.thread("t1").await;
    let ask = PageAsk { cursor: Some("not ours".into()), limit: 5 };
    assert!(matches!(bed.store.rows(pk, RowKind::Run, Order::Ascending, &ask).await, Err(Error::Refused(_))));
    assert!(matches!(bed.store.threads(bed.tenant, &Default::default(), &ask).await, Err(Error::Refused(_))));
    let past = SuspensionsWanted::Past { status: None, decided_by: None };
    for wanted in [SuspensionsWanted::Open, SuspensionsWanted::OpenByExpiry, past] {
        assert!(matches!(bed.suspensions(wanted, ask.clone()).await, Err(Error::Refused(_))));
    }
}

/// They are returned by a read of all rows, or of one of them.
async fn superseded_messages_are_left_out_of_the_conversation(bed: Bed) {
    let pk = bed.thread("t1").await;
    let message = |id: &str, ord, keep| {
        let body =
            json!({"messageId": id, "threadId": "t1", "role": "USER", "content": id, "timestamp": 1}).to_string();
        Row { body, ..row(RowKind::Message, id, ord, keep) }
    };
    let marks = [Keep::Never, Keep::Superseded, Keep::Superseded, Keep::Never, Keep::Superseded, Keep::Never];
    let rows: Vec<Row> =
        marks.into_iter().enumerate().map(|(at, keep)| message(&format!("m{at}"), at as i64, keep)).collect();
    bed.write(pk, rows).await;
    let first = bed.store.messages(pk, &page(2)).await.unwrap();
    assert_eq!(ids(&first.items), ["m0", "m3"]);
    let rest = bed.store.messages(pk, &PageAsk { cursor: first.next_cursor, ..page(2) }).await.unwrap();
    assert_eq!((ids(&rest.items), rest.next_cursor), (vec!["m5"], None));
    let newest = bed.store.history(pk, &"m5".into(), 2, MAX_PAGE_BYTES).await.unwrap();
    assert_eq!(newest.iter().map(|said| said.content.as_str()).collect::<Vec<_>>(), ["m0", "m3"]);
    assert_eq!(bed.store.rows(pk, RowKind::Message, Order::Ascending, &page(9)).await.unwrap().items.len(), 6);
    assert!(bed.store.row(pk, RowKind::Message, "m1").await.unwrap().is_some());
    let (_, loaded) = bed.store.load(pk).await.unwrap().unwrap();
    assert_eq!(loaded, []);
}
