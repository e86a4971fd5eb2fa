//! `[doors]`

use std::time::Duration;

use super::section::by_path;

section! {
    /// The wires of other makers' clients: OpenAI's at /v1.
    Doors {
        /// Headers that name a thread, besides X-PES-Thread: what a front end calls its conversation.
        thread_headers: Vec<String> = vec!["x-openwebui-chat-id".to_owned()], by_path();
        /// How long a chat completion goes on that nobody listens to any more, in milliseconds; -1 = to its end. One whose
        /// thread is named, or that waits for a person, goes on.
        chat_grace_ms: i64 = 15_000, by_path();
    }
}

impl Doors {
    /// `None`: runs do not end with their listeners.
    pub fn chat_grace(&self) -> Option<Duration> {
        u64::try_from(self.chat_grace_ms).ok().map(Duration::from_millis)
    }
}
