use super::*;
use crate::runtime::clock::Manual;

impl Lease {
    /// A lease that is never renewed.
    pub(in crate::runtime) fn of(ttl: Millis) -> Self {
        let clock: Arc<dyn Clock> = Arc::<crate::runtime::clock::System>::default();
        let until = deadline(&*clock, ttl);
        Self::new(Uuid::new_v4(), Some(until), clock)
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_ends_while_the_machine_is_suspended_though_no_timer_moves() {
    let clock = Arc::new(Manual::at(0));
    let first = Lease::new(Uuid::new_v4(), Some(deadline(&*clock, 10_000)), clock.clone());
    let current = Mutex::new(first);
    let next = Mutex::new(Uuid::new_v4());
    let lease_keeper = LeaseKeeper { ttl: 10_000, name: None, clock: clock.clone(), current, next };
    let before = lease_keeper.current_lease().unwrap();
    clock.advance(7_999);
    assert!(lease_keeper.current_lease().is_some());
    clock.advance(1);
    assert!(lease_keeper.current_lease().is_none());
    assert!(before.ended.is_cancelled(), "what runs under it is told");
}
