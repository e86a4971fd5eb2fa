//! The names under which the server itself acts.

/// Defines the enum with the word of each variant, so that [`ServerActor::ALL`] misses none.
macro_rules! server_actors {
    ($($(#[$meta:meta])* $name:ident = $word:literal,)+) => {
        /// A part of the server that decides or acts on its own. Its name is the actor in the audit, the one who decided a
        /// question, or the one who cancelled a run. No key has such a name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ServerActor { $($(#[$meta])* $name,)+ }

        impl ServerActor {
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }
        }
    };
}

server_actors! {
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
