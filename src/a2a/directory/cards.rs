//! Cards as they were fetched: asked for again when they are no longer fresh, and only whether they changed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::client::Error;
use super::super::client::call::{of_egress, whole};
use super::super::types::AgentCard;
use super::super::wire;
use super::Peer;
use crate::domain::depth;
use crate::domain::ids::TenantPk;
use crate::egress::{Bounds, Egress, Post};

/// How old a card may be.
pub(super) const FRESH: Duration = Duration::from_secs(300);
const MOST_BYTES: usize = 1 << 20;

type Key = (Option<TenantPk>, String, i64);

struct CachedCard {
    card: Arc<AgentCard>,
    etag: Option<HeaderValue>,
    since: Instant,
}

pub(super) struct Cards {
    egress: Arc<Egress>,
    time: Duration,
    kept: Mutex<HashMap<Key, CachedCard>>,
    /// Grows whenever a card says something new.
    pub generation: AtomicU64,
}

impl Cards {
    pub fn new(egress: Arc<Egress>, time: Duration) -> Self {
        Self { egress, time, kept: Mutex::default(), generation: AtomicU64::new(0) }
    }

    /// Without IO, however old.
    pub fn kept(&self, peer: &Peer) -> Option<Arc<AgentCard>> {
        self.kept.lock().get(&key(peer)).map(|kept| kept.card.clone())
    }

    pub async fn get(&self, peer: &Peer) -> Result<Arc<AgentCard>, Error> {
        let (known, etag) = match self.kept.lock().get(&key(peer)) {
            Some(kept) if kept.since.elapsed() < FRESH => return Ok(kept.card.clone()),
            Some(kept) => (Some(kept.card.clone()), kept.etag.clone()),
            None => (None, None),
        };
        match self.fetch(peer, etag.clone()).await {
            Ok(None) => {
                let card = known.ok_or_else(|| Error::Refused("its card is empty".to_owned()))?;
                self.keep(peer, CachedCard { card: card.clone(), etag, since: Instant::now() });
                Ok(card)
            }
            Ok(Some((card, etag))) => {
                let card = Arc::new(card);
                let is_news = known.is_none_or(|known| known != card);
                self.keep(peer, CachedCard { card: card.clone(), etag, since: Instant::now() });
                if is_news {
                    self.generation.fetch_add(1, Ordering::SeqCst);
                }
                Ok(card)
            }
            // An old card serves better than none.
            Err(error) => known.ok_or(error),
        }
    }

    /// `None`: it has not changed. What did not answer as it should was not spoken to yet: another time.
    async fn fetch(
        &self,
        peer: &Peer,
        etag: Option<HeaderValue>,
    ) -> Result<Option<(AgentCard, Option<HeaderValue>)>, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.extend(etag.map(|etag| (IF_NONE_MATCH, etag)));
        headers.extend(peer.authorization()?.map(|token| (AUTHORIZATION, token)));
        let bounds = Bounds { headers: self.time, stall: self.time, total: self.time, bytes: MOST_BYTES };
        let post = Post { to: peer.destination(peer.card.clone()), headers, body: Bytes::new(), bounds };
        let not_yet = |why: String| Error::Unreachable { why: format!("its card: {why}"), retry_after_ms: None };
        let unsent = |error: Error| match error {
            Error::Unknown(why) => not_yet(why),
            other @ (Error::Unreachable { .. } | Error::Said(_) | Error::Refused(_)) => other,
        };
        let (_, mut answer) = self.egress.follow(Method::GET, post).await.map_err(|it| unsent(of_egress(it)))?;
        if answer.status() == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        if !answer.status().is_success() {
            return Err(not_yet(format!("HTTP {}", answer.status())));
        }
        let etag = answer.headers().get(ETAG).cloned();
        let bytes = whole(&mut answer).await.map_err(unsent)?;
        let unreadable = |why: String| Error::Refused(format!("its card cannot be read: {why}"));
        let value = depth::read(&bytes).map_err(unreadable)?;
        Ok(Some((wire::read_card(&value).map_err(|error| unreadable(error.to_string()))?, etag)))
    }

    fn keep(&self, peer: &Peer, card: CachedCard) {
        self.kept.lock().insert(key(peer), card);
    }

    /// Forgets the cards of all others: of agents that are gone, and of what these were before.
    pub fn retain(&self, peers: &[Peer]) {
        let known: HashSet<Key> = peers.iter().map(key).collect();
        self.kept.lock().retain(|kept, _| known.contains(kept));
    }
}

fn key(peer: &Peer) -> Key {
    (peer.owner, peer.id.clone(), peer.version)
}
