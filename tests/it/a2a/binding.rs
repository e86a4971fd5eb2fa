//! A client of one binding and one version. Its input and output are typed; the encoding is its own.

use pes::a2a::fault::Fault;
use pes::a2a::types::{
    Configuration, ListQuery, Message, Metadata, Part, Role, SendRequest, SendResult, Task, TaskPage, TaskQuery,
};
use pes::a2a::wire::{Method, Version};
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::{Ask, Said};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Binding {
    Rpc(Version),
    Rest(Version),
}

pub const NEW: Binding = Binding::Rpc(Version::V1);
pub const BINDINGS: [Binding; 4] =
    [NEW, Binding::Rest(Version::V1), Binding::Rpc(Version::V03), Binding::Rest(Version::V03Rest)];

impl Binding {
    pub fn version(self) -> Version {
        match self {
            Binding::Rpc(version) | Binding::Rest(version) => version,
        }
    }

    pub async fn call(self, app: &App, method: Method, params: Value) -> Result<Value, Fault> {
        let said = self.ask(app, method, params).send().await;
        self.read(&said)
    }

    pub fn ask(self, app: &App, method: Method, params: Value) -> Ask {
        let ask = match self {
            Binding::Rpc(version) => {
                let method = method.name(version).expect("the version has it");
                app.ask("POST", "/a2a").json(&json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }))
            }
            Binding::Rest(version) => {
                let (verb, path) = path(method, &params);
                let below = if version == Version::V03Rest { "/v1" } else { "" };
                match verb {
                    "POST" => app.ask("POST", &format!("/a2a{below}{path}")).json(&params),
                    verb => app.ask(verb, &format!("/a2a{below}{path}{}", query(&params))),
                }
            }
        };
        match self.version() {
            Version::V1 => ask.header("a2a-version", "1.0"),
            Version::V03 | Version::V03Rest => ask,
        }
    }

    fn read(self, said: &Said) -> Result<Value, Fault> {
        let body = said.json();
        match self {
            Binding::Rpc(_) => {
                assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!(7)), "{body:#}");
                match body.get("error") {
                    Some(error) => Err(Fault::from_json_rpc(error)),
                    None => Ok(body["result"].clone()),
                }
            }
            Binding::Rest(_) if said.status == 200 => Ok(body),
            Binding::Rest(_) => {
                assert_eq!(body["error"]["code"], said.status, "{body:#}");
                Err(Fault::from_http(said.status, &body))
            }
        }
    }

    pub async fn send(self, app: &App, request: &SendRequest) -> Result<Task, Fault> {
        let version = self.version();
        let sent = self.call(app, Method::SendMessage, version.send_request(request)).await?;
        match version.read_sent(&sent).unwrap_or_else(|error| panic!("{error}: {sent:#}")) {
            SendResult::Task(task) => Ok(task),
            SendResult::Message(message) => panic!("no task but {message:?}"),
        }
    }

    pub async fn get(self, app: &App, id: &str) -> Result<Task, Fault> {
        self.task(app, Method::GetTask, TaskQuery { id: id.into(), ..TaskQuery::default() }).await
    }

    pub async fn cancel(self, app: &App, id: &str) -> Result<Task, Fault> {
        self.task(app, Method::CancelTask, TaskQuery { id: id.into(), ..TaskQuery::default() }).await
    }

    pub async fn task(self, app: &App, method: Method, query: TaskQuery) -> Result<Task, Fault> {
        let task = self.call(app, method, self.version().task_query(&query)).await?;
        Ok(self.version().read_task(&task).unwrap_or_else(|error| panic!("{error}: {task:#}")))
    }

    pub async fn list(self, app: &App, query: &ListQuery) -> Result<TaskPage, Fault> {
        let page = self.call(app, Method::ListTasks, self.version().list_query(query)).await?;
        for member in ["tasks", "nextPageToken", "pageSize", "totalSize"] {
            assert!(page.get(member).is_some(), "{member} is always there: {page:#}");
        }
        Ok(self.version().read_task_page(&page).unwrap())
    }
}

fn path(method: Method, params: &Value) -> (&'static str, String) {
    let id = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
    // Over HTTP+JSON, 0.3 puts it in a name: `tasks/{task}/pushNotificationConfigs/{config}`.
    let task =
        || params["name"].as_str().and_then(|name| name.split('/').nth(1)).map_or_else(|| id("taskId"), str::to_owned);
    let config = || format!("/tasks/{}/pushNotificationConfigs/{}", task(), id("pushNotificationConfigId"));
    match method {
        Method::SendMessage => ("POST", "/message:send".into()),
        Method::GetTask => ("GET", format!("/tasks/{}", id("id"))),
        Method::ListTasks => ("GET", "/tasks".into()),
        Method::CancelTask => ("POST", format!("/tasks/{}:cancel", id("id"))),
        Method::GetExtendedAgentCard => ("GET", "/extendedAgentCard".into()),
        Method::SendStreamingMessage => ("POST", "/message:stream".into()),
        Method::SubscribeToTask => ("GET", format!("/tasks/{}:subscribe", id("id"))),
        Method::CreatePushConfig => ("POST", format!("/tasks/{}/pushNotificationConfigs", task())),
        Method::ListPushConfigs => ("GET", format!("/tasks/{}/pushNotificationConfigs", task())),
        Method::GetPushConfig => ("GET", config()),
        Method::DeletePushConfig => ("DELETE", config()),
    }
}

fn query(params: &Value) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in params.as_object().into_iter().flatten().filter(|(name, _)| *name != "id") {
        query.append_pair(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    let query = query.finish();
    if query.is_empty() { query } else { format!("?{query}") }
}

/// A message with the role `user`.
pub fn message(id: &str, parts: Vec<Part>) -> Message {
    Message {
        message_id: id.into(),
        context_id: None,
        task_id: None,
        role: Role::User,
        parts,
        metadata: Metadata::new(),
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    }
}

/// Waits for the task.
pub fn says(id: &str, text: &str) -> SendRequest {
    of(message(id, vec![Part::text(text)]))
}

pub fn of(message: Message) -> SendRequest {
    SendRequest { tenant: None, message, configuration: Configuration::default(), metadata: Metadata::new() }
}

/// Does not wait.
pub fn at_once(mut request: SendRequest) -> SendRequest {
    request.configuration.return_immediately = true;
    request
}

/// A message for this task.
pub fn about(task: &Task, mut request: SendRequest) -> SendRequest {
    request.message.task_id = Some(task.id.clone());
    request
}

pub fn text(part: &Part) -> &str {
    match &part.content {
        pes::a2a::types::Content::Text(text) => text,
        other => panic!("no text but {other:?}"),
    }
}
