//! The scenarios of the public conformance kit, through the real engine.

use std::path::Path;

use pes::a2a::types::{ListQuery, TaskState};
use pes::a2a::wire::Version;

use super::binding::{BINDINGS, Binding, NEW, about, says, text};
use crate::support::app::App;

async fn agent() -> App {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/a2a-scenarios.toml");
    App::with(|config| config.models.demo.script = Some(script)).await
}

#[tokio::test]
async fn the_kits_messages_do_what_their_names_say() {
    let app = agent().await;
    for binding in BINDINGS {
        let done = binding.send(&app, &says("tck-complete-task-1", "hello")).await.unwrap();
        assert_eq!(done.status.state, TaskState::Completed, "{binding:?}");
        assert_eq!(text(&done.artifacts[0].parts[0]), "Hello from TCK");
        let asking = binding.send(&app, &says("tck-input-required-1", "hello")).await.unwrap();
        assert_eq!(asking.status.state, TaskState::InputRequired, "{binding:?}");
        let done = binding.send(&app, &about(&asking, says("tck-complete-task-1", "go on"))).await.unwrap();
        assert_eq!((done.status.state, done.id), (TaskState::Completed, asking.id), "{binding:?}");
    }
}

#[tokio::test]
async fn a_refused_run_is_a_rejected_task() {
    let app = agent().await;
    let task = NEW.send(&app, &says("tck-reject-task-1", "hello")).await.unwrap();
    assert_eq!(task.status.state, TaskState::Rejected);
    assert!(!text(&task.status.message.as_ref().unwrap().parts[0]).is_empty());
    assert!(task.artifacts.is_empty());
    NEW.send(&app, &says("tck-complete-task-1", "hello")).await.unwrap();
    for (state, wanted) in [(TaskState::Rejected, 1), (TaskState::Failed, 0)] {
        for binding in [NEW, Binding::Rest(Version::V1)] {
            let page = binding.list(&app, &ListQuery { status: Some(state), ..ListQuery::default() }).await.unwrap();
            assert_eq!(page.total_size, wanted, "{binding:?} {state:?}");
        }
    }
}

/// The kit uses one id for many messages; no other client may.
#[tokio::test]
async fn the_kits_message_ids_are_new_every_time() {
    let app = agent().await;
    let first = NEW.send(&app, &says("tck-complete-task-1", "hello")).await.unwrap();
    let second = NEW.send(&app, &says("tck-complete-task-1", "hello")).await.unwrap();
    assert_ne!(first.id, second.id);
    let first = NEW.send(&app, &says("mine", "hello")).await.unwrap();
    let second = NEW.send(&app, &says("mine", "hello")).await.unwrap();
    assert_eq!(first.id, second.id);
}
