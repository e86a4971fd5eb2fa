//! `[a2a]`

use serde::{Deserialize, Serialize};

use super::Error;
use super::section::{by_path, file_only};

section! {
    /// This server as an agent for other agents (A2A): the content of its card, and how it is called at /a2a.
    A2a {
        /// Whether other agents may use this server. If false, there is neither a card nor /a2a.
        enabled: bool = true, by_path();
        name: String = "PES Agent".to_owned(), by_path();
        description: String = "Plans what is asked, does it step by step, and answers.".to_owned(), by_path();
        /// The organization that runs the server: name and URL, both or neither.
        provider_organization: Option<String> = None, by_path().example("\"Example Inc.\"");
        provider_url: Option<String> = None, by_path().example("\"https://example.com\"");
        /// Absent = this server's own /docs.
        documentation_url: Option<String> = None, by_path().example("\"https://example.com/agent\"");
        icon_url: Option<String> = None, by_path().example("\"https://example.com/agent.png\"");
        /// What the agent can do. Each skill has `id`, `name`, `description` and at least one of `tags`; also
        /// `examples`, `input_modes` and `output_modes` (media types).
        skills: Vec<AgentSkill> = vec![AgentSkill::general()], file_only();
        /// Whether the public card also has the members that clients of A2A 0.3 need (`url`, `security` …). Their
        /// requests are accepted at /a2a either way.
        card_v03: bool = false, by_path();
        /// The description and skills in the extended card, which requires a key.
        extended_description: Option<String> = None, by_path().example("\"All of it.\"");
        extended_skills: Vec<AgentSkill> = Vec::new(), file_only();
        /// How long a request that waits for its task is kept open, in milliseconds; then the task is returned in its
        /// current state. 0 = until it ends or needs input. Proxies may cut long requests; the task can then be fetched
        /// by its id.
        hold_ms: u64 = 0, by_path();
        /// Maximum size of one part of a message, in bytes before base64: invalid parameters.
        part_bytes: usize = 10 << 20, by_path();
        /// Maximum size of a request, in bytes.
        body_bytes: usize = 32 << 20, by_path();
        /// Prefixes of message ids that a client may reuse for another message. Every other id names one message, and
        /// sending it again is a repetition.
        reused_message_ids: Vec<String> = Vec::new(), by_path();
        /// Whether a client must declare that it supports the data part of a question.
        requires_questions: bool = false, by_path();
    }
}

/// A skill of the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSkill {
    pub id: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_modes: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_modes: Vec<String>,
}

impl AgentSkill {
    fn general() -> Self {
        Self {
            id: "assist".to_owned(),
            name: "Assist".to_owned(),
            description: "Answers questions and carries out tasks with the tools that it has.".to_owned(),
            tags: vec!["general".to_owned()],
            ..Self::default()
        }
    }
}

impl A2a {
    /// Organization and URL.
    pub fn provider(&self) -> Option<(String, String)> {
        self.provider_organization.clone().zip(self.provider_url.clone())
    }

    /// Rejects a card that clients could not use.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.provider_organization.is_some() != self.provider_url.is_some() {
            return Err(Error("a2a.provider_organization and a2a.provider_url need each other".to_owned()));
        }
        let bare = |skill: &&AgentSkill| skill.id.is_empty() || skill.tags.is_empty();
        match self.skills.iter().chain(&self.extended_skills).find(bare) {
            Some(skill) => Err(Error(format!("a2a.skills: `{}` needs an id and at least one tag", skill.name))),
            None => Ok(()),
        }
    }
}
