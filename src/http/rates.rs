//! How often a key and a tenant may ask, as `limits.requests_per_key` and `limits.requests_per_tenant` say, and how many wrong
//! keys may come from an address (`limits.wrong_keys_per_address`); `at_once.rs` has what is open together. Each process counts for itself, in memory, by the generic
//! cell rate algorithm: a request moves the time at which all before it are paid for.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

use axum::http::header::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use super::at_once::{AtOnce, Place};
use crate::config::{Limits, Rate};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LEFT: HeaderName = HeaderName::from_static("ratelimit");
/// How many are known at least before those whose requests are all paid for are forgotten.
const KNOWN: usize = 1_024;

/// What the answer to a request says of its caller's limits, and whose tenant it is; set once, by whoever finds out who asks. While any clone is
/// there, the request takes a place among those of its key.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateNotice(Arc<Noted>);

#[derive(Debug, Default)]
struct Noted {
    left: OnceLock<Vec<Left>>,
    place: OnceLock<Place>,
    tenant: OnceLock<TenantPk>,
}

impl RateNotice {
    pub(crate) fn has_place(&self) -> bool {
        self.0.place.get().is_some()
    }

    /// The caller's, once it is known.
    pub(crate) fn tenant(&self) -> Option<TenantPk> {
        self.0.tenant.get().copied()
    }

    /// As headers (draft-ietf-httpapi-ratelimit-headers).
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        for left in self.0.left.get().into_iter().flatten() {
            let Left { name, rate, remaining, .. } = left;
            let policy = format!("\"{name}\";q={};w={}", rate.count, rate.window.as_secs());
            let now = format!("\"{name}\";r={remaining};t={}", left.reset.as_secs_f64().ceil());
            for (header, text) in [(POLICY, policy), (LEFT, now)] {
                headers.append(header, HeaderValue::try_from(text).expect("names and numbers are visible ASCII"));
            }
        }
    }
}

/// What a caller may still ask.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Left {
    name: &'static str,
    rate: Rate,
    remaining: u32,
    /// Until everything may be asked again.
    reset: Duration,
}

pub(crate) struct Rates {
    of_key: Option<Counted<(TenantPk, String)>>,
    of_tenant: Option<Counted<TenantPk>>,
    wrong_keys: Option<Counted<IpAddr>>,
    at_once: AtOnce,
}

impl Rates {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            of_key: limits.requests_per_key.map(|rate| Counted::new("key", rate)),
            of_tenant: limits.requests_per_tenant.map(|rate| Counted::new("tenant", rate)),
            wrong_keys: limits.wrong_keys_per_address.map(|rate| Counted::new("address", rate)),
            at_once: AtOnce::new(limits.requests_at_once_per_key),
        }
    }

    /// Counts a wrong key, or refuses to say that it is one.
    pub(crate) fn count_wrong_key(&self, from: IpAddr) -> Result<(), Fault> {
        let Some(counted) = &self.wrong_keys else { return Ok(()) };
        counted.take(network(from), Instant::now()).map(|_| ()).map_err(|fault| {
            let detail = "Too many wrong keys came from this address; send this again later, with a right one.";
            Fault { detail: detail.to_owned(), ..fault }
        })
    }

    /// Counts a request of this caller, or refuses it.
    pub(crate) fn count(&self, caller: &Caller, notice: Option<&RateNotice>) -> Result<(), Fault> {
        let now = Instant::now();
        let mut left = Vec::new();
        if let Some(counted) = &self.of_key {
            left.push(counted.take((caller.tenant, caller.name.clone()), now)?);
        }
        if let Some(counted) = &self.of_tenant {
            left.push(counted.take(caller.tenant, now)?);
        }
        // What a socket asks is a part of the request that opened it, and has no notice.
        let Some(notice) = notice else { return Ok(()) };
        // One request has one caller.
        let _ = notice.0.tenant.set(caller.tenant);
        if let Some(place) = self.at_once.take(caller)? {
            let _ = notice.0.place.set(place);
        }
        if !left.is_empty() {
            let _ = notice.0.left.set(left);
        }
        Ok(())
    }
}

/// Whoever has an address of version 6 has the whole /64 around it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

/// Requests of each of these under one limit.
struct Counted<Who> {
    name: &'static str,
    rate: Rate,
    known: Mutex<Known<Who>>,
}

struct Known<Who> {
    /// When what each has asked is paid for.
    paid_at: HashMap<Who, Instant>,
    /// So many may be known: twice as many as were left the last time, so that looking for them costs little for each.
    room: usize,
}

impl<Who: Eq + Hash> Counted<Who> {
    fn new(name: &'static str, rate: Rate) -> Self {
        Self { name, rate, known: Mutex::new(Known { paid_at: HashMap::new(), room: KNOWN }) }
    }

    fn take(&self, who: Who, now: Instant) -> Result<Left, Fault> {
        let each = self.rate.window / self.rate.count;
        let mut known = self.known.lock();
        let Known { paid_at, room } = &mut *known;
        if paid_at.len() >= *room {
            paid_at.retain(|_, at| *at > now);
            *room = KNOWN.max(2 * paid_at.len());
        }
        let before = paid_at.get(&who).copied().unwrap_or(now).max(now);
        let after = before + each;
        let owed = after - now;
        if owed > self.rate.window {
            return Err(self.refused(owed - self.rate.window));
        }
        paid_at.insert(who, after);
        let free = (self.rate.window - owed).as_nanos() / each.as_nanos().max(1);
        Ok(Left { name: self.name, rate: self.rate, remaining: u32::try_from(free).unwrap_or(u32::MAX), reset: owed })
    }

    fn refused(&self, wait: Duration) -> Fault {
        metrics::counter!("pes_rate_limited_total", "limit" => self.name).increment(1);
        let detail = format!(
            "This {} may make {} requests in {} s; send this again later.",
            self.name,
            self.rate.count,
            self.rate.window.as_secs()
        );
        let mut fault = Fault::new(Code::TooManyRequests, detail);
        fault.retry_after_ms = i64::try_from(wait.as_millis()).ok();
        fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_in_any_stretch_and_each_one_for_itself() {
        let counted = Counted::new("key", "3/60s".parse().expect("a rate"));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let left: Vec<u32> = (0..3).map(|_| counted.take("a", at(0)).expect("it is within").remaining).collect();
        assert_eq!(left, [2, 1, 0]);
        assert_eq!(counted.take("a", at(5)).unwrap_err().retry_after_ms, Some(15_000));
        assert_eq!(counted.take("b", at(5)).expect("another").remaining, 2);
        // A third of the stretch pays for one.
        assert!(counted.take("a", at(20)).is_ok() && counted.take("a", at(20)).is_err());
        assert_eq!(counted.take("a", at(200)).expect("all is paid").remaining, 2);
    }

    #[test]
    fn wrong_keys_are_counted_by_address() {
        let limits = Limits { wrong_keys_per_address: Some("1/60s".parse().expect("a rate")), ..Limits::default() };
        let rates = Rates::new(&limits);
        let wrong = |from: &str| rates.count_wrong_key(from.parse().expect("an address"));
        wrong("203.0.113.7").expect("the first");
        assert!(wrong("203.0.113.7").unwrap_err().retry_after_ms.is_some());
        wrong("203.0.113.8").expect("another address");
        wrong("2001:db8::1").expect("the first");
        wrong("2001:db8::ffff").expect_err("the same network");
        wrong("2001:db8:0:1::1").expect("another network");
    }

    #[test]
    fn who_owes_nothing_is_forgotten() {
        let counted = Counted::new("key", "10/1s".parse().expect("a rate"));
        let start = Instant::now();
        for who in 0..KNOWN {
            counted.take(who, start).expect("the first of each");
        }
        counted.take(KNOWN, start + Duration::from_secs(10)).expect("the first of another");
        assert_eq!(counted.known.lock().paid_at.len(), 1);
    }
}
