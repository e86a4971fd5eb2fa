use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::*;
use crate::config::Synchronous;
use crate::runtime::clock::Manual;
use crate::store::sqlite::Sqlite;

impl Lease {
    /// A lease that is never renewed.
    pub(in crate::runtime) fn of(ttl: Millis) -> Self {
        let clock: Arc<dyn Clock> = Arc::<crate::runtime::clock::System>::default();
        let until = deadline(&*clock, ttl);
        Self::new(Uuid::new_v4(), Some(until), clock)
    }
}

/// Of a process with a lease of ten seconds.
fn keeper(clock: Arc<Manual>) -> LeaseKeeper {
    let first = Lease::new(Uuid::new_v4(), Some(deadline(&*clock, 10_000)), clock.clone());
    let (current, next) = (Mutex::new(first), Mutex::new(Uuid::new_v4()));
    LeaseKeeper { ttl: 10_000, name: None, clock, current, next, refusal: Mutex::default() }
}

fn lost(metrics: &PrometheusHandle) -> u64 {
    let rendered = metrics.render();
    let line = rendered.lines().find_map(|line| line.strip_prefix("pes_lease_lost_total "));
    line.map_or(0, |number| number.parse().expect("a number"))
}

#[tokio::test(start_paused = true)]
async fn a_right_ends_while_the_machine_is_suspended_though_no_timer_moves() {
    let clock = Arc::new(Manual::at(0));
    let lease_keeper = keeper(clock.clone());
    let before = lease_keeper.current_lease().unwrap();
    clock.advance(7_999);
    assert!(lease_keeper.current_lease().is_some());
    clock.advance(1);
    assert!(lease_keeper.current_lease().is_none());
    assert!(before.ended.is_cancelled(), "what runs under it is told");
}

/// The process stood still, or each renewal failed at once: no renewal was under way when the lease ended.
#[tokio::test]
async fn a_lease_that_ends_between_two_renewals_is_counted_once() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    let _local = metrics::set_default_local_recorder(&recorder);
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let clock = Arc::new(Manual::at(0));

    let keeper_that_stood_still = keeper(clock.clone());
    clock.advance(9_000);
    assert!(keeper_that_stood_still.renew(&store).await, "it has another one");
    assert_eq!(lost(&metrics), 1);

    store.close().await;
    drop(folder);
    let keeper_without_store = keeper(clock.clone());
    assert!(!keeper_without_store.renew(&store).await);
    assert_eq!(lost(&metrics), 1, "the lease holds");
    clock.advance(9_000);
    for _ in ["first", "again"] {
        assert!(!keeper_without_store.renew(&store).await);
        assert_eq!(lost(&metrics), 2);
    }
}
