//! What people do: one random request after the other, or a few at the same time.

use futures_util::future::join_all;
use pes::domain::ids::ThreadPk;
use pes::domain::observation::ObservationType;
use pes::store::ObservationAsk;
use serde_json::{Value, json};

use super::World;
use super::effects::Effects;
use super::server::Ask;
use crate::support::clocked::DAY;
use crate::support::http::Said;

/// What a request was about, for its response.
pub enum Purpose {
    Any,
    /// A query under a key.
    Keyed(Sent),
    /// A query whose key was used before, with this run.
    Repeated(String),
    Answer {
        question: String,
        call: Option<String>,
        is_retry: bool,
        is_stale: bool,
    },
    /// A copy that had this behind it when it began; its log is judged after this seq.
    Copy {
        had: Effects,
        from: i64,
    },
    Delete {
        pk: ThreadPk,
        thread: String,
    },
}

/// A query that was accepted under a key.
#[derive(Clone)]
pub struct Sent {
    pub ask: Ask,
    pub run: String,
}

impl World {
    /// One to three requests at the same time.
    pub async fn act(&mut self) {
        let mut asks = Vec::new();
        for _ in 0..1 + self.dice.pick(3) * self.dice.pick(2) {
            let prepared = self.prepare().await;
            if let Some((ask, Purpose::Keyed(sent))) = &prepared
                && self.dice.one_in(3)
                && self.has("twice")
            {
                asks.push((ask.clone(), Purpose::Keyed(sent.clone())));
            }
            asks.extend(prepared);
        }
        // A thread that is deleted may be another before the others are done.
        if let Some(at) = asks.iter().position(|(_, purpose)| matches!(purpose, Purpose::Delete { .. })) {
            asks = vec![asks.swap_remove(at)];
            // Another thread of this name has another log.
            if let Purpose::Delete { pk, .. } = &asks[0].1 {
                self.readers.retain(|reader| reader.pk != *pk);
            }
        }
        for (ask, _) in &asks {
            self.note(format!("{} {} {} {:?} {}", ask.tenant, ask.method, ask.path, ask.headers, shortened(ask)));
        }
        let answers = join_all(asks.iter().map(|(ask, _)| self.server().send(ask.clone()))).await;
        for ((ask, purpose), said) in asks.into_iter().zip(answers) {
            self.note(format!("  {} {}: {}", ask.method, ask.path, told(&said)));
            self.heard(ask, purpose, &said).await;
        }
    }

    pub async fn send_one(&mut self, ask: Ask, purpose: Purpose) {
        self.note(format!("{} {} {} {}", ask.tenant, ask.method, ask.path, shortened(&ask)));
        let said = self.server().send(ask.clone()).await;
        self.note(format!("  {} {}: {}", ask.method, ask.path, told(&said)));
        self.heard(ask, purpose, &said).await;
    }

    async fn prepare(&mut self) -> Option<(Ask, Purpose)> {
        let tenant = self.dice.pick(2);
        let copy = self.dice.one_of(&self.copies[tenant]).cloned();
        let copy = copy.filter(|_| self.dice.one_in(3));
        let thread = copy.unwrap_or_else(|| ["a", "b", "c"][self.dice.pick(3)].to_owned());
        let which = self.dice.pick(40);
        if !self.has(name_of(which)) {
            return None;
        }
        let path = |rest: &str| format!("/threads/{thread}{rest}");
        match which {
            0..=10 => Some(self.query(tenant, &thread)),
            11..=12 => self.repeat(),
            13..=21 => self.answer(tenant).await,
            22..=23 => self.edit(tenant, &thread).await,
            24..=26 => {
                let item = format!("i{}", self.dice.pick(5));
                let action = ["retry", "retry", "skip"][self.dice.pick(3)];
                Some((Ask::new(tenant, "POST", path(&format!("/items/{item}/{action}"))), Purpose::Any))
            }
            27..=28 => {
                let runs = self.list(tenant, &path("/runs?limit=100")).await;
                let one = self.dice.one_of(&runs).filter(|_| tenant == 0);
                let path = one.map(|run| format!("/runs/{}/cancel", run["runId"].as_str().unwrap()));
                Some((
                    Ask::new(tenant, "POST", path.unwrap_or_else(|| format!("/threads/{thread}/cancel"))),
                    Purpose::Any,
                ))
            }
            29..=31 => self.copy(tenant, &thread).await,
            32..=34 => self.go_back(tenant, &thread).await,
            35..=36 => self.import(tenant, &thread).await,
            37 => {
                let row = self.row(tenant, &thread).await?;
                let deletes = Ask::new(tenant, "DELETE", path(""));
                self.dice.one_in(2).then_some((deletes, Purpose::Delete { pk: row.pk, thread }))
            }
            38 => Some((Ask::new(tenant, "POST", path("/pause")), Purpose::Any)),
            _ => {
                let state = Ask::new(tenant, "PUT", path("/agent-state"));
                let body = json!({ "data": { "n": self.dice.pick(9) } }).to_string();
                Some((state.typed("application/json", body), Purpose::Any))
            }
        }
    }

    pub fn query(&mut self, tenant: usize, thread: &str) -> (Ask, Purpose) {
        self.queries += 1;
        let on_busy = ["enqueue", "enqueue", "enqueue", "steer", "interrupt", "reject"][self.dice.pick(6)];
        let on_failure = ["continue", "replan", "stop"][self.dice.pick(3)];
        let review = ["off", "off", "off", "risky", "always"][self.dice.pick(5)];
        let on_busy = if self.has(on_busy) { on_busy } else { "enqueue" };
        let review = if self.has("review") { review } else { "off" };
        let mut execution = json!({
            "maxParallelItems": 1 + self.dice.pick(3),
            "maxIterations": 2 + self.dice.pick(3),
            "onItemFailure": on_failure,
            "planReview": review,
        });
        if self.dice.one_in(3) && self.has("expiry") {
            execution["suspensionTimeoutMs"] = DAY.into();
            execution["suspensionExpiry"] = ["deny", "fail", "remind"][self.dice.pick(3)].into();
        }
        let query = format!("q{}", self.queries);
        let body = json!({ "query": query, "onBusy": on_busy, "options": { "executionConfig": execution } });
        let ask = Ask::post(tenant, format!("/threads/{thread}/process"), &body);
        if self.dice.one_in(3) {
            let ask = ask.header("idempotency-key", format!("k{}", self.queries));
            return (ask.clone(), Purpose::Keyed(Sent { ask, run: String::new() }));
        }
        (ask, Purpose::Any)
    }

    fn repeat(&mut self) -> Option<(Ask, Purpose)> {
        let sent = self.dice.one_of(&self.sent)?.clone();
        Some((sent.ask, Purpose::Repeated(sent.run)))
    }

    /// An answer to any question, sometimes to one that was answered before.
    pub async fn answer(&mut self, tenant: usize) -> Option<(Ask, Purpose)> {
        let open = self.list(tenant, "/suspensions?limit=100").await;
        let is_stale = self.dice.one_in(8) && self.has("stale");
        let asked = match self.dice.one_of(&self.past[tenant]).filter(|_| is_stale) {
            Some(past) => past.clone(),
            None => self.dice.one_of(&open)?.clone(),
        };
        let is_stale = is_stale && self.answered.contains(asked["suspensionId"].as_str().unwrap());
        Some(self.answer_to(tenant, &asked, is_stale))
    }

    pub fn answer_to(&mut self, tenant: usize, asked: &Value, is_stale: bool) -> (Ask, Purpose) {
        let question = asked["suspensionId"].as_str().unwrap().to_owned();
        let mut body = json!({ "suspensionId": question });
        let mut is_retry = false;
        match asked["kind"].as_str().unwrap() {
            "in_doubt" => {
                let action = ["retry", "retry", "done", "skip", "abort"][self.dice.pick(5)];
                is_retry = action == "retry";
                body["action"] = action.into();
                if action == "done" {
                    body["value"] = "by hand".into();
                }
            }
            kind => {
                body["approved"] = (self.dice.pick(4) > 0).into();
                if kind == "approval" && body["approved"] == true && self.dice.one_in(4) && self.has("modified") {
                    body["modifiedArgs"] = json!({ "n": asked["toolInput"]["n"], "way": "ok", "edited": true });
                }
            }
        }
        if self.dice.one_in(4) && !asked["digest"].is_null() {
            body["digest"] = asked["digest"].clone();
        }
        if body["approved"] == false {
            body["reason"] = "not so".into();
        }
        let call = asked["callId"].as_str().map(str::to_owned);
        self.past[tenant].push(asked.clone());
        let thread = asked["threadId"].as_str().unwrap();
        (
            Ask::post(tenant, format!("/threads/{thread}/resume"), &body),
            Purpose::Answer { question, call, is_retry, is_stale },
        )
    }

    async fn edit(&mut self, tenant: usize, thread: &str) -> Option<(Ask, Purpose)> {
        let plan = self.server().send(Ask::get(tenant, format!("/threads/{thread}/plan"))).await;
        if plan.status != 200 {
            return None;
        }
        let items = plan.json().as_array().unwrap().len();
        let at = self.dice.pick(items + 1);
        let edit = match self.dice.pick(3) {
            0 => json!({ "op": "replace", "path": format!("/{at}/description"), "value": "another" }),
            1 => json!({ "op": "remove", "path": format!("/{at}") }),
            _ => {
                let id = format!("i{}", self.dice.pick(6));
                json!({ "op": "add", "path": "/-", "value": { "id": id, "description": "by a person" } })
            }
        };
        let ask = Ask::new(tenant, "PATCH", format!("/threads/{thread}/plan"));
        let ask = ask.header("if-match", plan.header("etag").unwrap());
        Some((ask.typed("application/json-patch+json", json!([edit]).to_string()), Purpose::Any))
    }

    async fn copy(&mut self, tenant: usize, thread: &str) -> Option<(Ask, Purpose)> {
        let row = self.row(tenant, thread).await?;
        let mut at = row.min_seq + self.dice.pick((row.last_seq - row.min_seq + 1).max(1) as usize) as i64;
        let mut new = ["a", "b", "c", "d", "e"][self.dice.pick(5)].to_owned();
        // An item is at work where it has just made a call. What is left of it is seen only if the copy is used.
        let types = vec![ObservationType::ToolCall];
        let ask = ObservationAsk { limit: 1_000_000, types, ..ObservationAsk::default() };
        let calls = self.parts.store.observations(row.pk, &ask).await.unwrap();
        if let Some(call) = self.dice.one_of(&calls).filter(|_| self.has("at_work"))
            && self.dice.pick(3) > 0
        {
            at = call.seq;
            new = format!("copy{}", self.queries);
            self.copies[tenant].push(new.clone());
        }
        let had = self.had(row.pk, at).await;
        let ask = Ask::post(tenant, format!("/threads/{thread}/fork"), &json!({ "threadId": new, "at": at }));
        Some((ask, Purpose::Copy { had, from: 0 }))
    }

    /// What the thread had done or begun at this seq.
    async fn had(&self, pk: ThreadPk, at: i64) -> Effects {
        let (had, from) = self.origins.get(&pk).cloned().unwrap_or_default();
        let ask = ObservationAsk { after: from, until: Some(at), limit: 1_000_000, ..ObservationAsk::default() };
        let log = self.parts.store.observations(pk, &ask).await.unwrap();
        had.copied(&log, &self.parts.calls.made())
    }

    async fn go_back(&mut self, tenant: usize, thread: &str) -> Option<(Ask, Purpose)> {
        let messages = self.list(tenant, &format!("/threads/{thread}/messages?limit=100")).await;
        let after = match self.dice.one_of(&messages) {
            Some(message) if !self.dice.one_in(5) => message["messageId"].clone(),
            Some(_) | None => "start".into(),
        };
        let (mut ask, purpose) = self.query(tenant, thread);
        let mut body: Value = serde_json::from_str(ask.body.as_deref().unwrap()).unwrap();
        body["after"] = after;
        if self.dice.pick(3) > 0 {
            body["onBusy"] = "interrupt".into();
        }
        ask.body = Some(body.to_string());
        let purpose = match purpose {
            Purpose::Keyed(sent) => Purpose::Keyed(Sent { ask: ask.clone(), ..sent }),
            other => other,
        };
        Some((ask, purpose))
    }

    async fn import(&mut self, tenant: usize, thread: &str) -> Option<(Ask, Purpose)> {
        let row = self.row(tenant, thread).await?;
        let file = self.server().send(Ask::get(tenant, format!("/threads/{thread}/export"))).await;
        if file.status != 200 {
            return None;
        }
        let lines = file.text();
        let seq = |line: &str| serde_json::from_str::<Value>(line).ok()?["observation"]["seq"].as_i64();
        let last = lines.lines().filter_map(seq).max()?;
        let had = self.had(row.pk, last).await;
        let new = ["a", "b", "c", "d", "e"][self.dice.pick(5)];
        let ask = Ask::new(tenant, "POST", format!("/imports?threadId={new}"));
        Some((ask.typed("application/x-ndjson", lines), Purpose::Copy { had, from: last }))
    }

    pub async fn heard(&mut self, ask: Ask, purpose: Purpose, said: &Said) {
        match purpose {
            Purpose::Any => {}
            Purpose::Keyed(sent) => {
                if said.status == 202 {
                    let run = said.json()["runId"].as_str().unwrap().to_owned();
                    let is_same = |other: &&Sent| other.ask.tenant == ask.tenant && other.ask.headers == ask.headers;
                    match self.sent.iter().find(is_same) {
                        Some(first) => assert_eq!(first.run, run, "one query, two runs"),
                        None => self.sent.push(Sent { run, ..sent }),
                    }
                }
            }
            Purpose::Repeated(run) => {
                assert!(said.status == 202 && said.json()["runId"] == *run, "not {run}: {}", told(said));
            }
            Purpose::Answer { question, call, is_retry, is_stale } => {
                assert!(!is_stale || said.status != 202, "{question} is answered twice: {}", told(said));
                if said.status == 202 {
                    assert!(self.answered.insert(question.clone()), "{question} is answered twice");
                    if let Some(call) = call.filter(|_| is_retry) {
                        *self.retries.entry(call).or_default() += 1;
                    }
                }
            }
            Purpose::Copy { had, from } => {
                if said.status == 201 {
                    let id = said.json()["threadId"].as_str().unwrap().to_owned();
                    if let Some(row) = self.row(ask.tenant, &id).await {
                        self.origins.insert(row.pk, (had, from));
                    }
                }
            }
            Purpose::Delete { pk, thread } => {
                if said.status == 204 {
                    let path = format!("/threads/{thread}/");
                    self.sent.retain(|sent| sent.ask.tenant != ask.tenant || !sent.ask.path.starts_with(&path));
                    self.check_deleted(ask.tenant, pk, &thread).await;
                    // A process does not know a thread that another one made and deleted since it last looked.
                    if self.parts.database.is_some() {
                        self.reconnect_watchers();
                    }
                }
            }
        }
    }
}

/// The name under which an operation is left out.
fn name_of(which: usize) -> &'static str {
    match which {
        0..=10 => "query",
        11..=12 => "repeat",
        13..=21 => "answer",
        22..=23 => "edit",
        24..=26 => "item",
        27..=28 => "cancel",
        29..=31 => "copy",
        32..=34 => "back",
        35..=36 => "import",
        37 => "delete",
        38 => "pause",
        _ => "state",
    }
}

fn shortened(ask: &Ask) -> String {
    ask.body.as_deref().unwrap_or_default().chars().take(400).collect()
}

fn told(said: &Said) -> String {
    format!("{} {}", said.status, said.text().chars().take(300).collect::<String>())
}
