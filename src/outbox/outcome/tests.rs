use std::time::Duration;

use super::*;
use crate::config;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::outbox::DeliveryStatus;

const DAY: Millis = 24 * 3_600_000;

#[test]
fn a_push_that_nobody_takes_is_tried_for_a_day_and_then_given_up() {
    let config = config::Outbox::default();
    let timing = DeliveryTiming {
        backoff: config.backoff_ms,
        push_backoff: config.push_backoff_ms,
        push_retry_for: config.push_for_ms,
        attempt_timeout: Duration::from_secs(15),
        retention: config.kept_ms,
    };
    let mut delivery = Delivery {
        id: "dlv_1".into(),
        tenant: TenantPk(1),
        thread: ThreadPk(1),
        kind: TargetKind::Push,
        target: "here".to_owned(),
        ordering_key: None,
        event: "task".to_owned(),
        body: String::new(),
        status: DeliveryStatus::Pending,
        due_at: None,
        attempts: 1,
        said: None,
        created_at: 0,
        finished_at: None,
    };
    let (mut now, mut longest) = (0, 0);
    while let Some(pause) = timing.retry_pause(&delivery, now) {
        longest = longest.max(pause);
        now += pause;
        delivery.attempts += 1;
    }
    assert!((DAY..DAY + longest).contains(&now), "the last attempt is made after {now} ms");
    assert_eq!((longest, delivery.attempts), (900_000, 106));
}
