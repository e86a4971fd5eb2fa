use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::types::*;
use super::{Method, Read, Version, read_card};

fn word() -> BoxedStrategy<String> {
    "[a-zü€ ]{1,6}".boxed()
}

fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((word(), inner), 0..3).prop_map(|members| members.into_iter().collect()),
        ]
    })
    .boxed()
}

fn metadata() -> BoxedStrategy<Metadata> {
    vec((word(), value()), 0..3).prop_map(|members| members.into_iter().collect()).boxed()
}

fn content() -> BoxedStrategy<Content> {
    prop_oneof![
        "[a-z<>\"]{0,5}".prop_map(Content::Text),
        vec(any::<u8>(), 0..8).prop_map(|bytes| Content::Raw(bytes.into())),
        word().prop_map(Content::Url),
        value().prop_map(Content::Data),
    ]
    .boxed()
}

fn part() -> BoxedStrategy<Part> {
    (content(), of(word()), of(word()), metadata())
        .prop_map(|(content, filename, media_type, metadata)| Part { content, filename, media_type, metadata })
        .boxed()
}

fn message() -> BoxedStrategy<Message> {
    let names = (word(), of(word()), of(word()), prop_oneof![Just(Role::User), Just(Role::Agent)]);
    (names, vec(part(), 0..3), metadata(), vec(word(), 0..2), vec(word(), 0..2))
        .prop_map(|((message_id, context_id, task_id, role), parts, metadata, extensions, reference_task_ids)| {
            Message { message_id, context_id, task_id, role, parts, metadata, extensions, reference_task_ids }
        })
        .boxed()
}

fn state() -> BoxedStrategy<TaskState> {
    prop::sample::select(&TaskState::ALL[..]).boxed()
}

fn status() -> BoxedStrategy<TaskStatus> {
    (state(), of(message()), of(0_i64..4_000_000_000_000))
        .prop_map(|(state, message, timestamp)| TaskStatus { state, message, timestamp })
        .boxed()
}

fn artifact() -> BoxedStrategy<Artifact> {
    (word(), of(word()), of(word()), vec(part(), 0..3), metadata(), vec(word(), 0..2))
        .prop_map(|(artifact_id, name, description, parts, metadata, extensions)| Artifact {
            artifact_id,
            name,
            description,
            parts,
            metadata,
            extensions,
        })
        .boxed()
}

fn task() -> BoxedStrategy<Task> {
    (word(), word(), status(), vec(artifact(), 0..2), vec(message(), 0..2), metadata())
        .prop_map(|(id, context_id, status, artifacts, history, metadata)| Task {
            id,
            context_id,
            status,
            artifacts,
            history,
            metadata,
        })
        .boxed()
}

fn event() -> BoxedStrategy<StreamEvent> {
    let status_update = (word(), word(), status(), metadata())
        .prop_map(|(task_id, context_id, status, metadata)| StatusUpdate { task_id, context_id, status, metadata });
    let artifact_update = (word(), word(), artifact(), any::<bool>(), any::<bool>(), metadata()).prop_map(
        |(task_id, context_id, artifact, append, last_chunk, metadata)| ArtifactUpdate {
            task_id,
            context_id,
            artifact,
            append,
            last_chunk,
            metadata,
        },
    );
    prop_oneof![
        task().prop_map(StreamEvent::Task),
        message().prop_map(StreamEvent::Message),
        status_update.prop_map(StreamEvent::StatusUpdate),
        artifact_update.prop_map(StreamEvent::ArtifactUpdate),
    ]
    .boxed()
}

fn push() -> BoxedStrategy<PushConfig> {
    let authentication = (word(), of(word())).prop_map(|(scheme, credentials)| Authentication { scheme, credentials });
    (of(word()), word(), of(word()), of(authentication))
        .prop_map(|(id, url, token, authentication)| PushConfig {
            tenant: None,
            id,
            task_id: None,
            url,
            token,
            authentication,
        })
        .boxed()
}

fn send_request() -> BoxedStrategy<SendRequest> {
    (message(), vec(word(), 0..2), of(push()), of(0_u32..9), any::<bool>(), metadata())
        .prop_map(|(message, accepted_output_modes, push, history_length, return_immediately, metadata)| SendRequest {
            tenant: None,
            message,
            configuration: Configuration { accepted_output_modes, push, history_length, return_immediately },
            metadata,
        })
        .boxed()
}

fn list_query() -> BoxedStrategy<ListQuery> {
    let status = of(state().prop_filter("asks for nothing", |it| *it != TaskState::Unspecified));
    (of(word()), status, of(1_u32..100), of(word()), of(0_u32..9), of(0_i64..4_000_000_000_000), any::<bool>())
        .prop_map(|(context_id, status, page_size, page_token, history_length, after, include_artifacts)| ListQuery {
            tenant: None,
            context_id,
            status,
            page_size,
            page_token,
            history_length,
            status_timestamp_after: after,
            include_artifacts,
        })
        .boxed()
}

fn returns<T: PartialEq + std::fmt::Debug>(
    it: &T,
    write: impl Fn(Version, &T) -> Value,
    read: impl Fn(Version, &Value) -> Read<T>,
) -> Result<(), TestCaseError> {
    for version in Version::ALL {
        // Through bytes, as on the wire.
        let bytes = write(version, it).to_string();
        let value: Value = serde_json::from_str(&bytes).unwrap();
        let read = read(version, &value);
        prop_assert_eq!(read.as_ref(), Ok(it), "{:?}: {}", version, value);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_as_the_same(
        event in event(), request in send_request(), list in list_query(), push in push(), id in word(), n in of(0_u32..9),
    ) {
        returns(&event, Version::event, Version::read_event)?;
        returns(&request, Version::send_request, Version::read_send_request)?;
        returns(&list, Version::list_query, Version::read_list_query)?;
        let push = PushConfig { task_id: Some(id.clone()), ..push };
        returns(&push, Version::push, Version::read_push)?;
        let page = PushPage { configs: vec![push], next_page_token: String::new() };
        returns(&page, Version::push_page, Version::read_push_page)?;
        let query = PushQuery { tenant: None, task_id: id.clone(), id: Some(id.clone()) };
        returns(&query, Version::push_query, Version::read_push_query)?;
        let query = PushListQuery { task_id: id.clone(), page_size: n, ..PushListQuery::default() };
        returns(&query, Version::push_list_query, Version::read_push_list_query)?;
        let query = TaskQuery { id, history_length: n, ..TaskQuery::default() };
        returns(&query, Version::task_query, Version::read_task_query)?;
    }

    #[test]
    fn answers_are_read_as_they_were_written(task in task(), message in message(), token in word(), n in 0_u32..100) {
        returns(&SendResult::Task(task.clone()), Version::sent, Version::read_sent)?;
        returns(&SendResult::Message(message), Version::sent, Version::read_sent)?;
        let page = TaskPage { tasks: vec![task], next_page_token: token, page_size: n, total_size: n };
        returns(&page, Version::task_page, Version::read_task_page)?;
    }

    #[test]
    fn nothing_that_arrives_breaks_a_reader(value in value()) {
        for version in Version::ALL {
            let _ = version.read_event(&value);
            let _ = version.read_part(&value);
            let _ = version.read_send_request(&json!({ "message": value }));
            let _ = version.read_push(&value);
        }
        let _ = read_card(&value);
    }
}

#[test]
fn parts_look_as_each_version_writes_them() {
    let named = |content| Part {
        content,
        filename: Some("a.txt".into()),
        media_type: Some("text/plain".into()),
        metadata: Metadata::new(),
    };
    for (part, v1, v03, rest) in [
        (Part::text("hi"), json!({"text": "hi"}), json!({"kind": "text", "text": "hi"}), json!({"text": "hi"})),
        (
            named(Content::Raw("hi".into())),
            json!({"raw": "aGk=", "filename": "a.txt", "mediaType": "text/plain"}),
            json!({"kind": "file", "file": {"bytes": "aGk=", "name": "a.txt", "mimeType": "text/plain"}}),
            json!({"file": {"fileWithBytes": "YUdrPQ==", "name": "a.txt", "mimeType": "text/plain"}}),
        ),
        (
            named(Content::Url("https://x".into())),
            json!({"url": "https://x", "filename": "a.txt", "mediaType": "text/plain"}),
            json!({"kind": "file", "file": {"uri": "https://x", "name": "a.txt", "mimeType": "text/plain"}}),
            json!({"file": {"fileWithUri": "https://x", "name": "a.txt", "mimeType": "text/plain"}}),
        ),
        (
            Part::data(json!({"a": 1})),
            json!({"data": {"a": 1}}),
            json!({"kind": "data", "data": {"a": 1}}),
            json!({"data": {"data": {"a": 1}}}),
        ),
        (
            Part::data(json!([1])),
            json!({"data": [1]}),
            json!({"kind": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": true}}),
            json!({"data": {"data": {"value": [1]}}, "metadata": {"data_part_compat": true}}),
        ),
    ] {
        assert_eq!(Version::V1.part(&part), v1);
        assert_eq!(Version::V03.part(&part), v03);
        assert_eq!(Version::V03Rest.part(&part), rest);
    }
}

#[test]
fn a_task_looks_as_each_version_writes_it() {
    let message = Message {
        message_id: "m".into(),
        context_id: None,
        task_id: None,
        role: Role::Agent,
        parts: vec![],
        metadata: Metadata::new(),
        extensions: vec![],
        reference_task_ids: vec![],
    };
    let status =
        TaskStatus { state: TaskState::InputRequired, message: Some(message), timestamp: Some(1_761_647_400_000) };
    let task = Task {
        id: "run_1".into(),
        context_id: "thr_1".into(),
        status: status.clone(),
        artifacts: vec![],
        history: vec![],
        metadata: Metadata::new(),
    };
    assert_eq!(
        Version::V1.sent(&SendResult::Task(task.clone())),
        json!({"task": {"id": "run_1", "contextId": "thr_1", "status": {
            "state": "TASK_STATE_INPUT_REQUIRED",
            "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": []},
            "timestamp": "2025-10-28T10:30:00.000Z",
        }}})
    );
    assert_eq!(
        Version::V03.sent(&SendResult::Task(task)),
        json!({"kind": "task", "id": "run_1", "contextId": "thr_1", "status": {
            "state": "input-required",
            "message": {"kind": "message", "messageId": "m", "role": "agent", "parts": []},
            "timestamp": "2025-10-28T10:30:00.000Z",
        }})
    );
    let update = StatusUpdate { task_id: "t".into(), context_id: "c".into(), status, metadata: Metadata::new() };
    let frame = StreamEvent::StatusUpdate(update);
    assert_eq!(Version::V1.event(&frame)["statusUpdate"].get("final"), None);
    assert_eq!(Version::V03.event(&frame)["final"], false, "the stream of an interrupted task may go on");
    assert_eq!(Version::V03.last_event(&frame)["final"], true);
    assert_eq!(Version::V1.last_event(&frame), Version::V1.event(&frame));
}

#[test]
fn a_reader_takes_what_others_write() {
    for version in Version::NAMED {
        for (state, role) in [("TASK_STATE_WORKING", "ROLE_AGENT"), ("working", "agent")] {
            let task = json!({"id": "t", "contextId": null, "new": 1, "status": {"state": state, "timestamp": "2025-10-28T10:30:00",
                "message": {"messageId": "m", "role": role, "taskId": "", "parts": null}}});
            let task = version.read_task(&task).unwrap();
            assert_eq!(task.status.state, TaskState::Working);
            assert_eq!(task.status.timestamp, Some(1_761_647_400_000));
            assert_eq!(task.status.message.unwrap().task_id, None);
        }
    }
    let new = json!({"id": "t", "status": {"state": "TASK_STATE_DREAMING"}});
    assert_eq!(Version::V1.read_task(&new).unwrap().status.state, TaskState::Unspecified);
    let query = json!({"pageSize": "10", "includeArtifacts": "true"});
    let query = Version::V1.read_list_query(&query).unwrap();
    assert_eq!((query.page_size, query.include_artifacts), (Some(10), true));
    let named = json!({"request": {"message_id": "m", "task_id": "t", "role": "ROLE_USER", "content": [
        {"file": {"file_with_bytes": "aGk=", "mime_type": "text/plain"}}]}, "configuration": {"push_notification": {"url": "u"}}});
    let sent = Version::V03Rest.read_send_request(&named).unwrap();
    assert_eq!((sent.message.task_id.as_deref(), sent.configuration.return_immediately), (Some("t"), true));
    assert_eq!(sent.message.parts[0].content, Content::Raw("hi".into()), "encoded once");
    assert_eq!(sent.configuration.push.unwrap().url, "u");
    let raw = Version::V1.read_part(&json!({"raw": "-_8"})).unwrap();
    assert_eq!(raw.content, Content::Raw(vec![0xFB, 0xFF].into()));
}

/// Agents leave these members out, and have kinds of parts of their own.
#[test]
fn what_an_agent_leaves_out_of_its_answer_does_not_make_it_unreadable() {
    let unknown = json!({"form": {"n": 1}});
    let task = json!({"id": "t", "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "noon", "message": {"parts": [{}]}},
        "artifacts": [{"parts": [{"text": "good"}, unknown]}], "history": [{"role": "nobody"}]});
    let read = Version::V1.read_task(&task).unwrap();
    let said = read.status.message.unwrap();
    assert_eq!((said.message_id.as_str(), said.role, said.parts), ("", Role::Agent, vec![Part::data(json!({}))]));
    assert_eq!((read.artifacts[0].artifact_id.as_str(), read.history.len()), ("", 1));
    assert_eq!(read.artifacts[0].parts, [Part::text("good"), Part::data(unknown)]);
    let page = Version::V1.read_task_page(&json!({"tasks": [{"id": "u"}, task]})).unwrap();
    assert_eq!(page.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["t"]);
}

#[test]
fn a_refusal_says_where() {
    let message = |part: Value| json!({"message": {"messageId": "m", "role": "user", "parts": [{"text": "a"}, part]}});
    for (value, pointer) in [
        (json!([]), ""),
        (json!({}), "/message"),
        (json!({"message": {"messageId": "", "role": "user"}}), "/message/messageId"),
        (json!({"message": {"messageId": "m", "role": "nobody"}}), "/message/role"),
        (message(json!({})), "/message/parts/1"),
        (message(json!({"text": "a", "url": "b"})), "/message/parts/1"),
        (message(json!({"raw": "*"})), "/message/parts/1/raw"),
        (
            json!({"message": {"messageId": "m", "role": "user"}, "configuration": {"historyLength": -1}}),
            "/configuration/historyLength",
        ),
    ] {
        assert_eq!(Version::V1.read_send_request(&value).unwrap_err().pointer, pointer, "{value}");
    }
    let status = Version::V1.read_list_query(&json!({"status": "TASK_STATE_DREAMING"})).unwrap_err();
    assert_eq!(status.pointer, "/status");
}

#[test]
fn versions_and_methods_are_found_by_name() {
    for (name, version) in [
        ("", Some(Version::V03)),
        ("0.3", Some(Version::V03)),
        ("0.3.0", Some(Version::V03)),
        ("1.0", Some(Version::V1)),
        ("1", Some(Version::V1)),
        (" 1.0.7", Some(Version::V1)),
        ("1.1", None),
        ("2.0", None),
        ("one", None),
    ] {
        assert_eq!(Version::named(name), version, "{name}");
    }
    for version in Version::ALL {
        for method in Method::ALL {
            let found = method.name(version).and_then(|name| Method::named(version, name));
            assert_eq!(found.is_some(), method.name(version).is_some());
            assert!(found.is_none_or(|found| found == method));
        }
    }
    assert_eq!(Method::named(Version::V03, "SendMessage"), None);
}
