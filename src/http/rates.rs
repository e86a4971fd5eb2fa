//! Rate limits: requests of a key and of a tenant (`limits.requests_per_key`, `limits.requests_per_tenant`), and wrong
//! keys and failed sign-ins from an address (`limits.wrong_keys_per_address`). `concurrent_requests.rs` limits
//! concurrent requests. Each process counts for itself, in memory, with the generic cell rate algorithm: for each caller
//! it stores the time at which the requests so far are paid for, and each request moves that time forward.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

use axum::http::header::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Duration, Instant};

use super::concurrent_requests::{ConcurrencyLimit, RequestSlot};
use crate::config::{Limits, Rate};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit");
/// How many callers are stored before those without recent requests are removed.
const MIN_STORED: usize = 1_024;

/// The rate limit headers of a response, the caller's tenant, and when the caller was admitted. Set once, when the caller is
/// authenticated. While any clone exists, the request counts as one of its key's concurrent requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateNotice(Arc<NoticeContent>);

#[derive(Debug, Default)]
struct NoticeContent {
    left: OnceLock<Vec<Quota>>,
    slot: OnceLock<RequestSlot>,
    admitted: OnceLock<(TenantPk, Instant)>,
}

impl RateNotice {
    pub(crate) fn holds_slot(&self) -> bool {
        self.0.slot.get().is_some()
    }

    /// The caller's tenant and when the caller was admitted, once they are known.
    pub(crate) fn admitted(&self) -> Option<(TenantPk, Instant)> {
        self.0.admitted.get().copied()
    }

    /// Writes the headers of draft-ietf-httpapi-ratelimit-headers.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        for left in self.0.left.get().into_iter().flatten() {
            let Quota { name, rate, remaining, .. } = left;
            let policy = format!("\"{name}\";q={};w={}", rate.count, rate.window.as_secs());
            let now = format!("\"{name}\";r={remaining};t={}", left.reset.as_secs_f64().ceil());
            for (header, text) in [(POLICY, policy), (REMAINING, now)] {
                headers.append(header, HeaderValue::try_from(text).expect("names and numbers are visible ASCII"));
            }
        }
    }
}

/// What a caller may still request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Quota {
    name: &'static str,
    rate: Rate,
    remaining: u32,
    /// The time until the full quota is available again.
    reset: Duration,
}

pub(crate) struct Rates {
    of_key: Option<Limiter<(TenantPk, String)>>,
    of_tenant: Option<Limiter<TenantPk>>,
    wrong_keys: Option<Limiter<IpAddr>>,
    concurrent: ConcurrencyLimit,
}

impl Rates {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            of_key: limits.requests_per_key.map(|rate| Limiter::new("key", rate)),
            of_tenant: limits.requests_per_tenant.map(|rate| Limiter::new("tenant", rate)),
            wrong_keys: limits.wrong_keys_per_address.map(|rate| Limiter::new("address", rate)),
            concurrent: ConcurrencyLimit::new(limits.requests_at_once_per_key),
        }
    }

    /// Counts a wrong key, or a sign-in that is about to be completed. Fails if the address has sent too many, so that the
    /// caller does not learn whether the key was wrong.
    pub(crate) fn count_wrong_key(&self, from: IpAddr) -> Result<(), Fault> {
        let Some(limiter) = &self.wrong_keys else { return Ok(()) };
        limiter.charge(network(from), Instant::now()).map(drop).map_err(|fault| {
            let detail = "Too many wrong keys or failed sign-ins came from this address; send this again later.";
            Fault { detail: detail.to_owned(), ..fault }
        })
    }

    /// Takes back what was counted for a sign-in that did not fail.
    pub(crate) fn discount_sign_in(&self, from: IpAddr) {
        if let Some(limiter) = &self.wrong_keys {
            limiter.take_back(&network(from));
        }
    }

    /// Counts a request of this caller. Fails if it exceeds a limit. The notice has what is left in both cases.
    pub(crate) fn count(&self, caller: &Caller, notice: Option<&RateNotice>) -> Result<(), Fault> {
        let now = Instant::now();
        let (left, counted) = self.count_at(caller, now);
        // A socket's ops belong to the request that opened it, and have no notice.
        let Some(notice) = notice else { return counted };
        // A request has only one caller.
        let _ = notice.0.admitted.set((caller.tenant, now));
        if !left.is_empty() {
            let _ = notice.0.left.set(left);
        }
        counted?;
        if let Some(slot) = self.concurrent.acquire(caller)? {
            let _ = notice.0.slot.set(slot);
        }
        Ok(())
    }

    /// Counts a request under the limits of its key and of its tenant, or under neither if one refuses it. Returns what is
    /// left, too.
    fn count_at(&self, caller: &Caller, now: Instant) -> (Vec<Quota>, Result<(), Fault>) {
        let key = self.of_key.as_ref().map(|limiter| limiter.begin((caller.tenant, caller.name.clone()), now));
        let tenant = self.of_tenant.as_ref().map(|limiter| limiter.begin(caller.tenant, now));
        let refusal = key.as_ref().and_then(Charge::refusal).or_else(|| tenant.as_ref()?.refusal());
        let is_refused = refusal.is_some();
        let quotas = [key.map(|charge| charge.end(is_refused)), tenant.map(|charge| charge.end(is_refused))];
        (quotas.into_iter().flatten().collect(), refusal.map_or(Ok(()), Err))
    }
}

/// The owner of an IPv6 address usually has the whole /64 network around it, so that is counted as one.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

/// The callers that are counted under one limit.
struct Limiter<Who> {
    name: &'static str,
    rate: Rate,
    entries: Mutex<LimiterEntries<Who>>,
}

struct LimiterEntries<Who> {
    /// The time at which each caller's requests so far are paid for.
    paid_at: HashMap<Who, Instant>,
    /// How many entries may be stored before the next cleanup: twice as many as the last one left, so that its cost for
    /// each request stays small.
    max_stored: usize,
}

impl<Who: Eq + Hash> Limiter<Who> {
    fn new(name: &'static str, rate: Rate) -> Self {
        Self { name, rate, entries: Mutex::new(LimiterEntries { paid_at: HashMap::new(), max_stored: MIN_STORED }) }
    }

    /// Counts a request, unless it exceeds the limit.
    fn charge(&self, who: Who, now: Instant) -> Result<Quota, Fault> {
        let charge = self.begin(who, now);
        let refusal = charge.refusal();
        let quota = charge.end(refusal.is_some());
        refusal.map_or(Ok(quota), Err)
    }

    /// Takes back one counted request.
    fn take_back(&self, who: &Who) {
        if let Some(at) = self.entries.lock().paid_at.get_mut(who) {
            *at -= self.each();
        }
    }

    fn begin(&self, who: Who, now: Instant) -> Charge<'_, Who> {
        let mut entries = self.entries.lock();
        let LimiterEntries { paid_at, max_stored } = &mut *entries;
        if paid_at.len() >= *max_stored {
            paid_at.retain(|_, at| *at > now);
            *max_stored = MIN_STORED.max(2 * paid_at.len());
        }
        let owed = paid_at.get(&who).map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        Charge { limiter: self, entries, who, now, owed }
    }

    /// The time that pays for one request.
    fn each(&self) -> Duration {
        self.rate.window / self.rate.count
    }
}

/// A request that is looked at under a limit. Until it ends, no other request is counted there.
struct Charge<'a, Who> {
    limiter: &'a Limiter<Who>,
    entries: MutexGuard<'a, LimiterEntries<Who>>,
    who: Who,
    now: Instant,
    /// The time that pays for the caller's requests before this one.
    owed: Duration,
}

impl<Who: Eq + Hash> Charge<'_, Who> {
    /// Why the request exceeds the limit. `None`: it does not.
    fn refusal(&self) -> Option<Fault> {
        let Rate { count, window } = self.limiter.rate;
        let wait = (self.owed + self.limiter.each()).checked_sub(window).filter(|wait| !wait.is_zero())?;
        let (name, seconds) = (self.limiter.name, window.as_secs());
        metrics::counter!("pes_rate_limited_total", "limit" => name).increment(1);
        let detail = format!(
            "This {name} may make {count} requests at once, and {count} in each further {seconds} s; send this again later."
        );
        let mut fault = Fault::new(Code::TooManyRequests, detail);
        fault.retry_after_ms = i64::try_from(wait.as_millis()).ok();
        Some(fault)
    }

    /// Counts the request, unless some limit refuses it. Returns what is left.
    fn end(mut self, is_refused: bool) -> Quota {
        let each = self.limiter.each();
        if !is_refused {
            self.owed += each;
            self.entries.paid_at.insert(self.who, self.now + self.owed);
        }
        let Limiter { name, rate, .. } = *self.limiter;
        let free = rate.window.saturating_sub(self.owed).as_nanos() / each.as_nanos().max(1);
        Quota { name, rate, remaining: u32::try_from(free).unwrap_or(u32::MAX), reset: self.owed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_per_interval_and_each_caller_for_itself() {
        let limiter = Limiter::new("key", "3/60s".parse().expect("a rate"));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let left: Vec<u32> = (0..3).map(|_| limiter.charge("a", at(0)).expect("it is within").remaining).collect();
        assert_eq!(left, [2, 1, 0]);
        assert_eq!(limiter.charge("a", at(5)).unwrap_err().retry_after_ms, Some(15_000));
        assert_eq!(limiter.charge("b", at(5)).expect("another").remaining, 2);
        // A third of the stretch pays for one.
        assert!(limiter.charge("a", at(20)).is_ok() && limiter.charge("a", at(20)).is_err());
        assert_eq!(limiter.charge("a", at(200)).expect("all is paid").remaining, 2);
    }

    #[test]
    fn what_the_tenants_limit_refuses_is_not_counted_for_the_key() {
        let rate = |text: &str| Some(text.parse().expect("a rate"));
        let limits =
            Limits { requests_per_key: rate("3/60s"), requests_per_tenant: rate("2/60s"), ..Limits::default() };
        let rates = Rates::new(&limits);
        let caller = Caller {
            tenant: TenantPk(1),
            tenant_name: "one".to_owned(),
            name: "ann".to_owned(),
            scopes: Vec::new(),
            groups: Vec::new(),
        };
        let start = Instant::now();
        let left = || {
            let (left, counted) = rates.count_at(&caller, start);
            (left.iter().map(|quota| quota.remaining).collect::<Vec<_>>(), counted.is_ok())
        };
        assert_eq!([left(), left()], [(vec![2, 1], true), (vec![1, 0], true)]);
        assert_eq!([left(), left()], [(vec![1, 0], false), (vec![1, 0], false)]);
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
        rates.discount_sign_in("2001:db8::1".parse().expect("an address"));
        wrong("2001:db8::2").expect("what was counted is taken back");
    }

    #[test]
    fn who_owes_nothing_is_forgotten() {
        let limiter = Limiter::new("key", "10/1s".parse().expect("a rate"));
        let start = Instant::now();
        for who in 0..MIN_STORED {
            limiter.charge(who, start).expect("the first of each");
        }
        limiter.charge(MIN_STORED, start + Duration::from_secs(10)).expect("the first of another");
        assert_eq!(limiter.entries.lock().paid_at.len(), 1);
    }
}
