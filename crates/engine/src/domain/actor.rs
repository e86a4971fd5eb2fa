//! The names under which the server itself acts.

use super::words;

words! {
    /// A part of the server that decides or acts on its own. Its name is the actor in the audit, the one who decided a
    /// question, or the one who cancelled a run. No key has such a name.
    pub enum ServerActor {
        /// The policy, which asks about calls and denies them.
        Policy = "policy",
        /// Nobody answered in time.
        Timer = "timer",
        /// The engine, which withdraws questions and ends runs.
        Engine = "engine",
        /// Another request took over the thread.
        Interrupt = "interrupt",
        /// Another agent, which no longer asks what it asked.
        Peer = "peer",
        /// The server outside of runs.
        Server = "server",
        /// The end of a retention period.
        Retention = "retention",
    }
}
