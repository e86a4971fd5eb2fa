//! A cache of agent cards. Cards that are too old are requested again, conditionally.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;
use url::Url;

use super::super::client::Error;
use super::super::client::call::of_egress;
use super::super::types::AgentCard;
use super::super::wire;
use super::Peer;
use crate::domain::depth;
use crate::domain::ids::TenantPk;
use crate::egress::{Bounds, Egress, OutgoingRequest};

/// The age after which a card is requested again.
pub(super) const MAX_AGE: Duration = Duration::from_secs(300);
/// How long an outdated card is used after a request for it that failed: every call to its agent would wait for another.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
const MAX_CARD_BYTES: usize = 1 << 20;

type CardKey = (Option<TenantPk>, String, i64);

struct CachedCard {
    card: Arc<AgentCard>,
    etag: Option<HeaderValue>,
    fresh_until: Instant,
}

impl CachedCard {
    fn new(card: Arc<AgentCard>, etag: Option<HeaderValue>) -> Self {
        Self { card, etag, fresh_until: Instant::now() + MAX_AGE }
    }
}

pub(super) struct Cards {
    egress: Arc<Egress>,
    timeout: Duration,
    kept: Mutex<HashMap<CardKey, CachedCard>>,
    /// Incremented whenever a card changes.
    pub generation: AtomicU64,
}

impl Cards {
    pub fn new(egress: Arc<Egress>, timeout: Duration) -> Self {
        Self { egress, timeout, kept: Mutex::default(), generation: AtomicU64::new(0) }
    }

    /// The cached card, without IO, however old.
    pub fn cached(&self, peer: &Peer) -> Option<Arc<AgentCard>> {
        self.kept.lock().get(&key(peer)).map(|kept| kept.card.clone())
    }

    pub async fn get(&self, peer: &Peer) -> Result<Arc<AgentCard>, Error> {
        let fresh = match self.kept.lock().get(&key(peer)) {
            Some(kept) if Instant::now() < kept.fresh_until => Some(kept.card.clone()),
            Some(_) | None => None,
        };
        match fresh {
            Some(card) => Ok(card),
            None => self.reread(peer).await,
        }
    }

    /// Requests the card, however fresh the cached one is. That one is returned if there is no other.
    pub async fn reread(&self, peer: &Peer) -> Result<Arc<AgentCard>, Error> {
        let (known, etag) = match self.kept.lock().get(&key(peer)) {
            Some(kept) => (Some(kept.card.clone()), kept.etag.clone()),
            None => (None, None),
        };
        match self.fetch(peer, etag.clone()).await {
            Ok(None) => {
                let card = known.ok_or_else(|| Error::Refused("its card is empty".to_owned()))?;
                self.store(peer, CachedCard::new(card.clone(), etag));
                Ok(card)
            }
            Ok(Some((card, etag))) => {
                let card = Arc::new(card);
                let is_news = known.is_none_or(|known| known != card);
                self.store(peer, CachedCard::new(card.clone(), etag));
                if is_news {
                    self.generation.fetch_add(1, Ordering::SeqCst);
                }
                Ok(card)
            }
            // An outdated card is better than none.
            Err(error) => {
                let card = known.ok_or(error)?;
                self.postpone(peer);
                Ok(card)
            }
        }
    }

    /// `None`: the card has not changed. If this request fails, the agent itself was not called yet.
    async fn fetch(
        &self,
        peer: &Peer,
        etag: Option<HeaderValue>,
    ) -> Result<Option<(AgentCard, Option<HeaderValue>)>, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.extend(etag.map(|etag| (IF_NONE_MATCH, etag)));
        headers.extend(peer.authorization()?.map(|token| (AUTHORIZATION, token)));
        let bounds = Bounds { headers: self.timeout, stall: self.timeout, total: self.timeout, bytes: MAX_CARD_BYTES };
        let to = peer.destination(peer.card.clone());
        let request = OutgoingRequest { method: Method::GET, to, headers, body: Bytes::new(), bounds };
        let not_yet = |why: String| Error::unreachable(format!("its card: {why}"));
        let unsent = |error: Error| match error {
            Error::Unknown(why) | Error::TooLarge(why) | Error::Unreadable(why) => not_yet(why),
            other @ (Error::Unreachable { .. } | Error::NotCarriedOut(_) | Error::Fault(_) | Error::Refused(_)) => {
                other
            }
        };
        let (_, mut answer) = self.egress.follow(request).await.map_err(|it| unsent(of_egress(it)))?;
        if answer.status() == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let status = answer.status();
        if !status.is_success() {
            let why = format!("HTTP {status}{}", other_place(status, &peer.card));
            return Err(if is_refusal(status) {
                Error::NotCarriedOut(format!("its card: {why}"))
            } else {
                not_yet(why)
            });
        }
        let etag = answer.headers().get(ETAG).cloned();
        let bytes = answer.read_all().await.map_err(|error| unsent(of_egress(error)))?;
        let unreadable = |why: String| Error::Refused(format!("its card cannot be read: {why}"));
        let value = depth::read(&bytes).map_err(unreadable)?;
        Ok(Some((wire::read_card(&value).map_err(|error| unreadable(error.to_string()))?, etag)))
    }

    fn store(&self, peer: &Peer, card: CachedCard) {
        self.kept.lock().insert(key(peer), card);
    }

    fn postpone(&self, peer: &Peer) {
        if let Some(kept) = self.kept.lock().get_mut(&key(peer)) {
            kept.fresh_until = kept.fresh_until.max(Instant::now() + RETRY_PAUSE);
        }
    }

    /// Drops the cards of all other agents: of removed ones, and of earlier versions of these.
    pub fn retain(&self, peers: &[Peer]) {
        let known: HashSet<CardKey> = peers.iter().map(key).collect();
        self.kept.lock().retain(|kept, _| known.contains(kept));
    }
}

/// Whether there is no card at this address, or none for us: it would be answered the same until somebody changes that.
fn is_refusal(status: StatusCode) -> bool {
    let may_pass = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    status.is_client_error() && !may_pass.contains(&status)
}

/// Where else the card may be: its well-known path has changed with version 0.3 of the protocol.
fn other_place(status: StatusCode, card: &Url) -> &'static str {
    match card.path().rsplit('/').next() {
        Some("agent-card.json") if status == StatusCode::NOT_FOUND => {
            "; agents of versions before 0.3 have it at /.well-known/agent.json"
        }
        Some("agent.json") if status == StatusCode::NOT_FOUND => {
            "; agents since version 0.3 have it at /.well-known/agent-card.json"
        }
        Some(_) | None => "",
    }
}

fn key(peer: &Peer) -> CardKey {
    (peer.owner, peer.id.clone(), peer.version)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::net::TcpListener;

    use super::*;
    use crate::domain::trace::CallTrace;

    #[test]
    fn a_card_that_is_not_found_may_be_at_the_other_well_known_path() {
        let hint = |status, card: &str| other_place(status, &card.parse().unwrap());
        let (new, old) = ("http://a/b/.well-known/agent-card.json", "http://a/.well-known/agent.json");
        assert!(hint(StatusCode::NOT_FOUND, new).ends_with("/.well-known/agent.json"));
        assert!(hint(StatusCode::NOT_FOUND, old).ends_with("/.well-known/agent-card.json"));
        assert_eq!(hint(StatusCode::FORBIDDEN, new), "");
        assert_eq!(hint(StatusCode::NOT_FOUND, "http://a/card"), "");
    }

    #[tokio::test]
    async fn an_outdated_card_that_cannot_be_had_is_not_asked_for_at_every_call() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let card = format!("http://{}/card", listener.local_addr().unwrap()).parse().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let peer = Peer {
            id: "helper".to_owned(),
            card,
            owner: None,
            tenant: TenantPk::NONE,
            token: Ok(None),
            dedupes: false,
            trace: CallTrace::default(),
            timeout_ms: None,
            version: 0,
        };
        let cards = Cards::new(Arc::new(Egress::new(Duration::from_secs(5))), Duration::from_secs(5));
        assert!(cards.get(&peer).await.is_err());
        let known = Arc::new(AgentCard::default());
        cards.store(&peer, CachedCard { fresh_until: Instant::now(), ..CachedCard::new(known.clone(), None) });
        for _ in 0..3 {
            assert_eq!(cards.get(&peer).await, Ok(known.clone()));
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2, "once without a card, and once with an outdated one");
    }
}
