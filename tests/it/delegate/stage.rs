//! Two servers of ours as separate processes: one delegates to the other, and either may be killed anywhere.

use serde_json::{Value, json};

use crate::support::demo;
use crate::support::fixed_address::FixedAddress;
use crate::support::process::{Address, Place, Server};

/// The caller's model: it calls `delegate`.
pub const CALLER: &str = demo::SCRIPT;

/// The agent's model: it plans, calls a tool, answers.
const AGENT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "sum", description = "Add", stepType = "tool", requiredTools = ["test_fail_times"] },
] }

[[reply]]
when = { phase = "execution", iteration = 1 }
calls = [{ tool = "test_fail_times", arguments = { times = 0 } }]

[[reply]]
when = { phase = "execution" }
text = "The sum is 4."

[[reply]]
when = { phase = "synthesis" }
text = "It is 4."
"#;

/// Reports come earlier, so that a poll is needed only where one is lost.
const SOON: i64 = 1_000;

/// An address at which nothing listens.
const NOBODY: &str = "http://127.0.0.1:9";

/// One of the two servers, at a fixed address, whichever process runs there.
pub struct Side {
    pub place: Place,
    pub address: Address,
    fixed: FixedAddress,
}

impl Side {
    pub async fn at(place: Place) -> Self {
        let fixed = FixedAddress::open().await;
        Self { place, address: Address::at(fixed.address), fixed }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.fixed.address)
    }

    pub async fn start(&self, failpoint: Option<&str>) -> Server {
        let server = Server::start(&self.place, failpoint).await;
        self.fixed.leads_to(Some(server.address.socket_addr()));
        server
    }

    pub async fn kill(&self, server: Server) {
        self.fixed.leads_to(None);
        server.kill().await;
    }

    /// The whole log of a thread.
    async fn log(&self, thread: &str) -> Vec<Value> {
        let page = self.get(&format!("/threads/{thread}/events?limit=200")).await;
        assert!(page.get("nextCursor").is_none(), "it is longer than a page");
        page["items"].as_array().expect("a list").clone()
    }

    pub async fn get(&self, path: &str) -> Value {
        self.address.ask("GET", path).send().await.expect(200)
    }
}

pub struct Stage {
    pub caller: Side,
    pub agent: Side,
}

impl Stage {
    /// `dedupes`: the caller knows that its agent accepts a message once. A missing report is polled for after
    /// `poll_ms`.
    pub async fn set(caller: Place, agent: Place, dedupes: bool, poll_ms: i64) -> Self {
        let (caller, agent) = (Side::at(caller).await, Side::at(agent).await);
        let reports_to = caller.url();
        Self::between(caller, agent, dedupes, poll_ms, &reports_to)
    }

    fn between(caller: Side, agent: Side, dedupes: bool, poll_ms: i64, reports_to: &str) -> Self {
        caller.place.configure(&format!(
            "server = {{ public_url = \"{reports_to}\" }}\nauth = {{ sealing_key = \"the caller's own key\" }}\n\
             delegation = {{ poll_ms = {poll_ms}, poll_most_ms = {poll_ms} }}\n\
             [[agents]]\nid = \"helper\"\ncard = \"{}/.well-known/agent-card.json\"\ndedupes = {dedupes}\n",
            agent.url(),
        ));
        agent.place.configure(&format!(
            "server = {{ public_url = \"{}\" }}\nauth = {{ sealing_key = \"the agent's own key\" }}\negress = {{ allow = [\"127.0.0.1\"] }}\n\
             outbox = {{ push_backoff_ms = [20], attempt_timeout_ms = 500 }}\n",
            agent.url(),
        ));
        Self { caller, agent }
    }

    pub async fn on_sqlite(dedupes: bool) -> Self {
        Self::set(Place::sqlite(CALLER), Place::sqlite(AGENT), dedupes, SOON).await
    }

    /// Nobody polls within the test: the reports must be enough.
    pub async fn of_reports() -> Self {
        Self::set(Place::sqlite(CALLER), Place::sqlite(AGENT), true, 3_600_000).await
    }

    /// No report arrives within the test: the polls must be enough.
    pub async fn of_polls() -> Self {
        let (caller, agent) = (Side::at(Place::sqlite(CALLER)).await, Side::at(Place::sqlite(AGENT)).await);
        Self::between(caller, agent, true, 50, NOBODY)
    }

    pub async fn on_postgres() -> Self {
        Self::set(Place::postgres(CALLER).await, Place::postgres(AGENT).await, true, SOON).await
    }

    /// Sends the delegation, and runs it to its end. A repetition asks nothing twice.
    pub async fn tell(&self) {
        let ask = self.caller.address.ask("POST", "/threads/t/process").header("idempotency-key", "once");
        let receipt = ask.json(&json!({ "query": "delegate" })).send().await.expect(202);
        let run = receipt["runId"].as_str().expect("an id");
        loop {
            let seen = self.caller.get(&format!("/runs/{run}?wait=30")).await;
            match seen["status"].as_str() {
                Some("suspended") => self.settle_doubt().await,
                status => return assert_eq!(status, Some("completed"), "{seen:#}"),
            }
        }
    }

    /// Nobody could find out whether the agent has the task: a person checks, and finds none.
    async fn settle_doubt(&self) {
        let open = self.caller.get("/suspensions").await["items"][0].clone();
        assert_eq!(open["kind"], "in_doubt", "{open:#}");
        assert_eq!(self.agent.get("/threads").await["items"], json!([]), "its list of tasks would have told");
        let again = json!({ "suspensionId": open["suspensionId"], "action": "retry" });
        self.caller.address.ask("POST", "/threads/t/resume").json(&again).send().await.expect(202);
    }

    /// One task, one run at the agent, one result, as without a crash.
    pub async fn check(&self) {
        let log = self.caller.log("t").await;
        contiguous(&log);
        let results = of(&log, "TOOL_EXECUTION");
        assert_eq!(results.len(), 1, "{results:#?}");
        assert_eq!(results[0]["content"]["output"]["text"], "It is 4.", "{results:#?}");
        assert_eq!(of(&log, "RUN_FINISHED").len(), 1);
        let told = of(&log, "A2A_TASK");
        let ends = told.iter().filter(|seen| seen["content"]["status"] == "completed").count();
        assert_eq!((ends, &told.last().unwrap()["content"]["status"]), (1, &json!("completed")), "{told:#?}");
        let task = self.caller.get("/threads/t/tasks").await["items"][0].clone();
        let threads = self.agent.get("/threads").await["items"].as_array().expect("a list").clone();
        assert_eq!(threads.len(), 1, "{threads:#?}");
        let thread = threads[0]["threadId"].as_str().expect("an id");
        let runs = self.agent.get(&format!("/threads/{thread}/runs")).await["items"].clone();
        assert_eq!(runs.as_array().map(Vec::len), Some(1), "{runs:#}");
        assert_eq!((&runs[0]["runId"], &runs[0]["status"]), (&task["remoteTaskId"], &json!("completed")));
        let log = self.agent.log(thread).await;
        contiguous(&log);
        assert_eq!((of(&log, "RUN_STARTED").len(), of(&log, "RUN_FINISHED").len()), (1, 1));
    }
}

fn of<'l>(log: &'l [Value], kind: &str) -> Vec<&'l Value> {
    log.iter().filter(|seen| seen["type"] == kind).collect()
}

fn contiguous(log: &[Value]) {
    let seqs: Vec<i64> = log.iter().map(|seen| seen["seq"].as_i64().expect("a seq")).collect();
    assert_eq!(seqs, (1..=seqs.len() as i64).collect::<Vec<_>>());
}
