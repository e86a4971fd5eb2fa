use std::cell::Cell;

use super::*;

const WORKED: Duration = Duration::from_millis(20);
const HELD: Duration = Duration::from_millis(10);
const SHORT: Duration = Duration::from_millis(80);

/// The length of the pause while each check finds this many more commits and transactions.
async fn rest(chores: &Chores, commits: u64, transactions: u64) -> Duration {
    let (begun, so_far) = (Instant::now(), Cell::new(Traffic::default()));
    let looks = || {
        let Traffic { commits: before, transactions: of_them } = so_far.get();
        so_far.replace(Traffic { commits: before + commits, transactions: of_them + transactions })
    };
    chores.held(HELD);
    chores.rest(WORKED, looks).await;
    begun.elapsed()
}

/// After a long step that delayed nobody.
async fn slow_rest(chores: &Chores, commits: u64) -> Duration {
    let begun = Instant::now();
    let so_far = Cell::new(0);
    let looks = || Traffic { commits: so_far.replace(so_far.get() + commits), transactions: 0 };
    chores.rest(WORKED * 50, looks).await;
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn beside_commits_one_of_two_hundred_may_be_held_up() {
    let rested = rest(&Chores::new(), 1, 1).await;
    assert!(rested >= HELD * 199 && rested < HELD * 200, "{rested:?}");
}

#[tokio::test(start_paused = true)]
async fn where_commits_share_transactions_more_may_be_held_up() {
    let rested = rest(&Chores::new(), 100, 4).await;
    assert!(rested >= HELD * 199 / 4 && rested < HELD * 200 / 4 + SHORT, "{rested:?}");
}

#[tokio::test(start_paused = true)]
async fn where_nobody_commits_a_rest_is_four_times_the_work() {
    assert_eq!(rest(&Chores::new(), 0, 0).await, SHORT);
}

#[tokio::test(start_paused = true)]
async fn who_falls_behind_holds_up_more_until_it_has_caught_up() {
    const DAY: Millis = 24 * 3_600_000;
    let (chores, logs) = (Chores::new(), ("logs", TenantPk(1)));
    let mut hurries = Vec::new();
    for overdue in [DAY, DAY, DAY + 1, DAY + 2, DAY + 3, DAY + 4, DAY + 3, DAY + 2, DAY - 1] {
        chores.overdue(logs, overdue, DAY);
        chores.overdue(("logs", TenantPk(2)), DAY - 1, DAY);
        hurries.push(chores.hurry());
        sleep(Duration::from_secs(3_600)).await;
    }
    assert_eq!(hurries, [1, 2, 4, 8, 16, 16, 16, 16, 1]);
}

#[test]
fn the_most_overdue_of_all_tenants_is_known_until_each_has_caught_up() {
    let chores = Chores::new();
    let told = |tenant, overdue| chores.overdue(("logs", TenantPk(tenant)), overdue, 24);
    assert_eq!(chores.most_overdue("logs"), 0);
    told(1, 30);
    told(2, 10);
    chores.overdue(("threads", TenantPk(1)), 50, 24);
    assert_eq!(chores.most_overdue("logs"), 30);
    told(1, 20);
    assert_eq!(chores.most_overdue("logs"), 20, "what it is now");
    chores.caught_up(("logs", TenantPk(1)));
    assert_eq!(chores.most_overdue("logs"), 10);
    chores.all_caught_up("logs");
    assert_eq!((chores.most_overdue("logs"), chores.most_overdue("threads")), (0, 50));
}

/// Also where most of a step's time is spent waiting.
#[tokio::test(start_paused = true)]
async fn who_hurries_rests_less() {
    let (chores, logs) = (Chores::new(), ("logs", TenantPk(1)));
    let mut rests = Vec::new();
    for _ in 0..5 {
        chores.overdue(logs, 24, 24);
        rests.push(rest(&chores, 1, 1).await);
    }
    let long = [1, 2, 4, 8, 16].map(|hurry| HELD * 199 / hurry);
    assert!(rests.iter().zip(long).all(|(rest, long)| *rest >= long && *rest < long + SHORT), "{rests:?}");
    assert_eq!(slow_rest(&chores, 0).await, WORKED * 50);
    assert_eq!(slow_rest(&Chores::new(), 0).await, WORKED * 50 * 4);
}

#[tokio::test(start_paused = true)]
async fn chores_rest_one_after_another_beside_commits_and_side_by_side_without() {
    let chores = Chores::new();
    for (commits, at_least, at_most) in [(1, HELD * 199 * 3, HELD * 200 * 3), (0, SHORT * 5, SHORT * 5)] {
        let begun = Instant::now();
        let later = async |part: u32| {
            sleep(SHORT * 2 * part).await;
            rest(&chores, commits, 1).await
        };
        tokio::join!(later(0), later(1), later(2));
        let rested = begun.elapsed();
        assert!((at_least..=at_most).contains(&rested), "{rested:?}");
    }
}
