use super::*;
use crate::domain::ids::ThreadPk;
use crate::store::outbox::{DeliveryStatus, TargetKind};

const ONE: TenantPk = TenantPk(1);
const TWO: TenantPk = TenantPk(2);
const THREE: TenantPk = TenantPk(3);

fn takes(turns: &Arc<TenantTurns>, tenant: TenantPk, permits: usize) -> Vec<TenantPermit> {
    (0..permits).map(|_| TenantPermit::take(turns.clone(), tenant)).collect()
}

/// How many each tenant gets, in the order of their numbers.
fn shares(turns: &TenantTurns, due: &[TenantPk], permits: usize) -> Vec<(i64, u32)> {
    let mut shares: Vec<_> = turns.allot(due, permits).into_iter().map(|share| (share.tenant.0, share.most)).collect();
    shares.sort_unstable();
    shares
}

fn delivery(tenant: TenantPk) -> Delivery {
    Delivery {
        id: "dlv_1".into(),
        tenant,
        thread: ThreadPk(1),
        kind: TargetKind::Webhook,
        target: "here".to_owned(),
        ordering_key: None,
        event: "run.finished".to_owned(),
        body: String::new(),
        status: DeliveryStatus::Pending,
        due_at: None,
        attempts: 1,
        said: None,
        created_at: 0,
        finished_at: None,
    }
}

#[test]
fn a_permit_goes_to_the_tenant_that_has_the_fewest() {
    let turns = Arc::new(TenantTurns::default());
    assert_eq!(shares(&turns, &[ONE], 32), [(1, 32)], "nobody else has anything");
    let _long = takes(&turns, ONE, 29);
    assert_eq!(shares(&turns, &[ONE, TWO], 3), [(2, 3)]);
    let _short = takes(&turns, TWO, 3);
    assert_eq!(shares(&turns, &[ONE, TWO, THREE], 8), [(2, 3), (3, 5)], "what is given in this round counts, too");
    assert_eq!(shares(&turns, &[ONE], 1), [(1, 1)]);
    assert!(shares(&turns, &[ONE, TWO], 0).is_empty() && shares(&turns, &[], 5).is_empty());
}

#[test]
fn none_of_those_with_as_many_is_always_last() {
    let turns = Arc::new(TenantTurns::default());
    // Each attempt ends before the next permit is given.
    let served: Vec<i64> = (0..7).map(|_| shares(&turns, &[THREE, ONE, TWO], 1)[0].0).collect();
    assert_eq!(served, [1, 2, 3, 1, 2, 3, 1]);
    assert_eq!(shares(&turns, &[ONE, TWO], 3), [(1, 1), (2, 2)]);

    let turns = Arc::new(TenantTurns::default());
    let many: Vec<TenantPk> = (1..=40).map(TenantPk).collect();
    let mut held: Vec<TenantPermit> =
        turns.allot(&many, 32).iter().flat_map(|share| takes(&turns, share.tenant, share.most as usize)).collect();
    for waits in 33..=40 {
        held.remove(0);
        assert_eq!(shares(&turns, &many, 1), [(waits, 1)]);
        held.extend(takes(&turns, TenantPk(waits), 1));
    }
    held.remove(0);
    assert_eq!(shares(&turns, &many, 1), [(1, 1)]);
}

#[test]
fn what_a_tenant_cannot_use_the_others_get() {
    let turns = Arc::new(TenantTurns::default());
    let (mut due, mut held) = (vec![ONE, TWO, THREE], Vec::new());
    let mut left = HashMap::from([(ONE, 1), (TWO, 100), (THREE, 0)]);
    for _ in 0..2 {
        let shares = turns.allot(&due, 32 - held.len());
        let mut claimed = Vec::new();
        for Share { tenant, most } in &shares {
            let taken = left[tenant].min(*most);
            left.entry(*tenant).and_modify(|left| *left -= taken);
            claimed.extend((0..taken).map(|_| delivery(*tenant)));
            held.extend(takes(&turns, *tenant, taken as usize));
        }
        drop_served(&mut due, &shares, &claimed);
    }
    assert_eq!((held.len(), due, left[&ONE], left[&TWO]), (32, vec![TWO], 0, 69));
}

#[test]
fn a_tenant_whose_attempts_hang_has_its_turn_and_no_more() {
    let turns = Arc::new(TenantTurns::default());
    let mut hang = takes(&turns, ONE, 32);
    hang.iter_mut().for_each(TenantPermit::release);
    assert_eq!(shares(&turns, &[ONE, TWO], 32), [(1, 16), (2, 16)]);
    let _begun = takes(&turns, ONE, 16);
    assert_eq!(shares(&turns, &[ONE, TWO], 16), [(2, 16)]);
    drop(hang);
    assert_eq!(shares(&turns, &[ONE, TWO], 16), [(2, 16)], "a permit that was given away is not given back once more");
}

#[tokio::test]
async fn a_permit_is_free_again_however_its_attempt_ends() {
    let turns = Arc::new(TenantTurns::default());
    let ends = takes(&turns, ONE, 1);
    let panics = TenantPermit::take(turns.clone(), ONE);
    let panicked = tokio::spawn(async move {
        let _permit = panics;
        panic!("a defect");
    });
    assert!(panicked.await.is_err_and(|error| error.is_panic()));
    let is_cut_off = TenantPermit::take(turns.clone(), ONE);
    let cut_off = tokio::spawn(async move {
        let _permit = is_cut_off;
        std::future::pending::<()>().await;
    });
    cut_off.abort();
    assert!(cut_off.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(turns.0.lock().taken, HashMap::from([(ONE, 1)]));
    drop(ends);
    assert!(turns.0.lock().taken.is_empty());
}
