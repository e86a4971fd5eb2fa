//! Of many answers to one suspension exactly one wins, on every store.

use std::sync::Arc;

use futures_util::future::join_all;
use pes::domain::fault::Code;
use pes::domain::hitl::Answer;
use pes::domain::ids::SuspensionId;
use pes::store::Store;
use pes::store::postgres::Postgres;
use pes::store::sqlite::Sqlite;
use pes::{AgentProps, Config, Instance};

use crate::support::postgres::Database;
use pes::service::runs;

const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "one", description = "Ask", stepType = "tool", requiredTools = ["ask_user"] },
] }

[[reply]]
when = { phase = "execution", iteration = 1 }
calls = [{ tool = "ask_user", arguments = { question = "Who?" } }]

[[reply]]
when = { phase = "execution" }
text = "It was {{tool_result}}."

[[reply]]
when = { phase = "synthesis" }
text = "Somebody won."
"#;

const RIVALS: usize = 100;

async fn one_winner(store: Arc<dyn Store>) {
    let script = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(script.path(), SCRIPT).unwrap();
    let mut config = Config::default();
    config.models.demo.pace_ms = 0;
    config.models.demo.script = Some(script.path().to_owned());
    let instance = Instance::build(config).store(store).open().await.unwrap();
    let fault = instance.process(AgentProps::new("t", "who")).await.unwrap_err();
    let asked = &fault.extra.unwrap()["suspensions"][0];
    let suspension_id: SuspensionId = asked["suspensionId"].as_str().unwrap().into();
    let (service, caller, thread) = (instance.service(), instance.caller(), "t".into());
    let answers = join_all((0..RIVALS).map(|rival| {
        let answer = Answer {
            suspension_id: suspension_id.clone(),
            digest: None,
            value: Some(format!("rival {rival}").into()),
            approved: None,
            modified_args: None,
            reason: None,
            action: None,
        };
        runs::resume(service, caller, &thread, answer, None)
    }))
    .await;
    let winners: Vec<usize> = (0..RIVALS).filter(|&rival| answers[rival].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    for fault in answers.into_iter().filter_map(Result::err) {
        assert_eq!(fault.code, Code::AlreadyResolved, "{fault:?}");
        assert_eq!(fault.extra.unwrap()["resolution"]["decidedBy"], caller.name);
    }
    instance.close().await;
}

#[tokio::test]
async fn a_hundred_answers_have_one_winner_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    one_winner(Arc::new(Sqlite::open(folder.path(), pes::config::Synchronous::Full).await.unwrap())).await;
}

#[tokio::test]
async fn a_hundred_answers_have_one_winner_on_postgresql() {
    let database = Database::fresh().await;
    one_winner(Arc::new(Postgres::open(&database.url().into(), 4).await.unwrap())).await;
}
