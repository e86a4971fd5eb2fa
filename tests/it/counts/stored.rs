//! Bytes that a run and a suspended thread leave in SQLite's file, its indexes and unused parts of pages included.

use std::path::Path;

use pes::domain::fault::Code;
use pes::domain::settings::PolicyAction;
use pes::{AgentProps, Config, Instance};
use sqlx::{Connection, SqliteConnection};

use super::assert_near;
use crate::support::demo;

const SUMS: &str = include_str!("../support/sums.toml");

const SUM: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "Sum", intent = "Sum", plan = "Sum.", todoList = [
    { id = "a", description = "Add", stepType = "tool", requiredTools = ["calculator"] },
] }

[[reply]]
when = { phase = "execution" }
calls = [{ tool = "calculator", arguments = { expression = "2 + 2" } }]
"#;

const THREADS: usize = 60;

async fn bytes(folder: &Path) -> usize {
    let url = format!("sqlite://{}", folder.join("pes.db").display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    let pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
    let bytes: i64 = sqlx::query_scalar(pages).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    usize::try_from(bytes).unwrap()
}

/// How much the database grows with each of these threads. Each has one run, which answers or ends with this code.
async fn bytes_of_a_thread(mut config: Config, ends: Option<Code>) -> usize {
    let folder = tempfile::tempdir().unwrap();
    config.store.data_dir = folder.path().to_owned();
    let instance = Instance::build(config).open().await.unwrap();
    let before = bytes(folder.path()).await;
    for nth in 0..THREADS {
        let answer = instance.process(AgentProps::new(format!("thread-{nth}").as_str(), "Sums")).await;
        assert_eq!(answer.err().map(|fault| fault.code), ends);
    }
    instance.close().await;
    (bytes(folder.path()).await - before) / THREADS
}

#[tokio::test]
async fn bytes_of_a_run() {
    let bytes = bytes_of_a_thread(demo::scripted(SUMS), None).await;
    assert_near(bytes, 17 << 10, "bytes of a run");
}

#[tokio::test]
async fn bytes_of_a_suspended_thread() {
    let mut config = demo::scripted(SUM);
    config.agent.tool_policy.insert("calculator".to_owned(), PolicyAction::Ask);
    let bytes = bytes_of_a_thread(config, Some(Code::Suspended)).await;
    assert_near(bytes, 12 << 10, "bytes of a suspended thread");
}
