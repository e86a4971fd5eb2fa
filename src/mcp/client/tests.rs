use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::time::timeout;

use super::*;
use crate::domain::hitl::{Question, Reply};
use crate::domain::ids::TenantPk;
use crate::domain::thread::AgentState;
use crate::domain::trace::TraceOrigin;
use crate::mcp::test_messages::PATIENCE;
use crate::tool::People;

/// What was seen by whom, and how many permits were free then.
#[derive(Debug)]
struct Watch {
    permits: Semaphore,
    seen: Mutex<Vec<(&'static str, usize)>>,
}

impl Watch {
    fn note(&self, what: &'static str) {
        self.seen.lock().push((what, self.permits.available_permits()));
    }
}

#[async_trait]
impl People for Watch {
    async fn ask(&self, _: Question) -> Result<Reply, ToolError> {
        self.note("question");
        Ok(Reply::Accepted { value: json!({}) })
    }
}

/// A server that replies to a call with a question, and to the same call with an answer with its result.
async fn serve(pipe: DuplexStream, watch: Arc<Watch>) {
    let (read, mut write) = tokio::io::split(pipe);
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let asked: Value = serde_json::from_str(&line).unwrap();
        let result = match asked["method"].as_str() {
            Some("server/discover") => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                "ttlMs": 0, "cacheScope": "private",
            }),
            Some("tools/call") if asked["params"].get("inputResponses").is_none() => {
                watch.note("call");
                let schema = json!({ "type": "object", "properties": {} });
                let params = json!({ "mode": "form", "message": "Sure?", "requestedSchema": schema });
                let question = json!({ "method": "elicitation/create", "params": params });
                json!({ "resultType": "input_required", "inputRequests": { "sure": question } })
            }
            Some("tools/call") => {
                watch.note("call with the answer");
                let action = &asked["params"]["inputResponses"]["sure"]["action"];
                json!({ "resultType": "complete", "content": [{ "type": "text", "text": action }] })
            }
            Some(_) | None => continue,
        };
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
        write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    }
}

async fn connection(pipe: DuplexStream) -> Connection {
    let (read, write) = tokio::io::split(pipe);
    let (questions, tasks) = (Arc::new(Questions::new(PATIENCE)), TaskTools::default());
    let handler = || Handler {
        server: "far".into(),
        label: "far".to_owned(),
        changed: Arc::default(),
        questions: questions.clone(),
    };
    let limits = Limits { max_bytes: 1 << 20, write_timeout: PATIENCE };
    let running = negotiate(Pipes::new(write, read), handler, limits, &tasks).await.unwrap();
    Connection::of(running, None, questions, CancellationToken::new(), tasks)
}

fn context(people: Arc<dyn People>) -> ToolContext {
    ToolContext {
        tenant: TenantPk(1),
        thread_id: "t".into(),
        run_id: "run_1".into(),
        item_id: None,
        call_id: "call_1".into(),
        user_id: None,
        trace: TraceOrigin::default().call("4bf92f3577b34da6a3ce929d0e0e4736", "key"),
        idempotency_key: "t/call_1".to_owned(),
        agent_state: AgentState::default(),
        now: 0,
        people,
    }
}

#[tokio::test]
async fn a_call_whose_person_is_asked_between_two_requests_leaves_its_place_to_others() {
    let watch = Arc::new(Watch { permits: Semaphore::new(1), seen: Mutex::default() });
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(serve(theirs, watch.clone()));
    let call = async {
        let connection = connection(ours).await;
        let permit = watch.permits.acquire().await.unwrap();
        connection.call("sure", Map::new(), &context(watch.clone()), &watch.permits, permit).await
    };
    let output = timeout(PATIENCE, call).await.expect("it comes to an end").unwrap().output;
    assert_eq!(output, "accept");
    assert_eq!(*watch.seen.lock(), [("call", 0), ("question", 1), ("call with the answer", 0)]);
    assert_eq!(watch.permits.available_permits(), 1);
}
