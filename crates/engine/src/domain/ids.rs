//! Identifiers: opaque, prefixed, sortable; and the deterministic mint that makes them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Millis, hex};

/// The key of a thread inside this server. A deleted and re-created id gets a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ThreadPk(pub i64);

impl ThreadPk {
    /// Stands for no thread, where something belongs to a tenant as a whole.
    pub const NONE: ThreadPk = ThreadPk(0);
}

/// The key of a tenant inside this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TenantPk(pub i64);

impl TenantPk {
    /// Stands for no tenant, where something belongs to the server as a whole.
    pub const NONE: TenantPk = TenantPk(0);
}

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes any text; what clients send is checked where it arrives.
            pub fn new(id: impl Into<Arc<str>>) -> Self {
                Self(id.into())
            }
            /// The id as clients and the database have it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(id.into())
            }
        }
        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self(id.into())
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        #[cfg(feature = "schema")]
        impl utoipa::ToSchema for $name {}
        #[cfg(feature = "schema")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::Object::with_type(utoipa::openapi::schema::Type::String).into()
            }
        }
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    )+};
}

id! {
    /// A conversation, unique within its tenant; clients may choose it.
    ThreadId,
    /// One query and everything done for it (`run_…`).
    RunId,
    /// A todo item, named by the model or by a person; unique within its thread.
    ItemId,
    /// One attempt of one model call (`str_…`).
    StreamId,
    /// A tool call (`call_…`); ours, whatever the provider called it.
    CallId,
    /// A question to a person (`sus_…`).
    SuspensionId,
    /// A conversation message (`msg_…`).
    MessageId,
    /// An observation (`obs_…`).
    ObservationId,
    /// A task delegated to another agent (`task_…`).
    TaskId,
    /// A delivery to an external receiver (`dlv_…`).
    DeliveryId,
    /// A large value that is stored once and referred to (see `domain::payload`).
    PayloadId,
}

/// Makes ids from a time, a seed and a counter: the same three give the same ids, so a run replays to the same bytes.
#[derive(Clone, Debug)]
pub struct Mint {
    now: Millis,
    seed: u64,
    counter: u64,
}

impl Mint {
    /// Ids of this time and seed: the same arguments give the same ids in the same order.
    pub fn new(now: Millis, seed: u64) -> Self {
        Self { now, seed, counter: 0 }
    }

    /// A UUIDv7 as 32 hex digits, such as a prompt's marker nonce or a trace id; later ones of one mint sort after earlier
    /// ones.
    pub fn hex(&mut self) -> String {
        let count = self.counter;
        self.counter += 1;
        let random = splitmix(self.seed.wrapping_add(count.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let high = ((self.now as u64) << 16) | 0x7000 | (count & 0x0FFF);
        let low = (random >> 2) | 0x8000_0000_0000_0000;
        hex::of(&((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
    }

    /// The same in the usual groups, behind a prefix.
    fn next(&mut self, prefix: &str) -> String {
        let hex = self.hex();
        [prefix, &hex[..8], "-", &hex[8..12], "-", &hex[12..16], "-", &hex[16..20], "-", &hex[20..]].concat()
    }

    /// A thread whose client gave no id of its own: `thr_…`.
    pub fn thread(&mut self) -> ThreadId {
        self.next("thr_").into()
    }
    /// A run: `run_…`.
    pub fn run(&mut self) -> RunId {
        self.next("run_").into()
    }
    /// An attempt of a model call: `str_…`.
    pub fn stream(&mut self) -> StreamId {
        self.next("str_").into()
    }
    /// A tool call, whatever id its provider gave it: `call_…`.
    pub fn call(&mut self) -> CallId {
        self.next("call_").into()
    }
    /// A question to a person: `sus_…`.
    pub fn suspension(&mut self) -> SuspensionId {
        self.next("sus_").into()
    }
    /// A message of a conversation: `msg_…`.
    pub fn message(&mut self) -> MessageId {
        self.next("msg_").into()
    }
    /// An entry of the log: `obs_…`.
    pub fn observation(&mut self) -> ObservationId {
        self.next("obs_").into()
    }
    /// What is sent to a receiver of events: `dlv_…`.
    pub fn delivery(&mut self) -> DeliveryId {
        self.next("dlv_").into()
    }
    /// A webhook that a tenant set up.
    pub fn webhook(&mut self) -> String {
        self.next("whk_")
    }
    /// A task that is delegated to another agent: `task_…`.
    pub fn task(&mut self) -> TaskId {
        self.next("task_").into()
    }
}

fn splitmix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_7_sorted_and_reproducible() {
        let mut mint = Mint::new(1_760_000_000_000, 7);
        let ids: Vec<RunId> = (0..2000).map(|_| mint.run()).collect();
        assert!(ids.is_sorted());
        assert_eq!(ids[3], {
            let mut again = Mint::new(1_760_000_000_000, 7);
            (0..4).map(|_| again.run()).last().unwrap()
        });
        let uuid = uuid::Uuid::parse_str(ids[0].as_str().strip_prefix("run_").unwrap()).unwrap();
        assert_eq!(uuid.get_version_num(), 7);
        assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
        assert!(Mint::new(1_760_000_000_001, 7).run() > *ids.last().unwrap());
    }
}
