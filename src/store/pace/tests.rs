use std::cell::Cell;

use super::*;

const WORKED: Duration = Duration::from_millis(20);
const HELD: Duration = Duration::from_millis(10);
const SHORT: Duration = Duration::from_millis(80);

/// How long the rest takes while each look finds so many more commits and transactions.
async fn rest(chores: &Chores, commits: u64, transactions: u64) -> Duration {
    let (begun, so_far) = (Instant::now(), Cell::new(Traffic::default()));
    let looks = || {
        let Traffic { commits: before, transactions: of_them } = so_far.get();
        so_far.replace(Traffic { commits: before + commits, transactions: of_them + transactions })
    };
    chores.rest(WORKED, HELD, looks).await;
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn beside_commits_one_of_two_hundred_may_be_held_up() {
    let rested = rest(&Chores::default(), 1, 1).await;
    assert!(rested >= HELD * 199 && rested < HELD * 200 + 2 * SHORT, "{rested:?}");
}

#[tokio::test(start_paused = true)]
async fn where_commits_share_transactions_more_may_be_held_up() {
    let rested = rest(&Chores::default(), 100, 4).await;
    assert!(rested >= HELD * 199 / 4 && rested < HELD * 200 / 4 + 2 * SHORT, "{rested:?}");
}

#[tokio::test(start_paused = true)]
async fn where_nobody_commits_a_rest_is_four_times_the_work() {
    assert_eq!(rest(&Chores::default(), 0, 0).await, SHORT);
}

#[tokio::test(start_paused = true)]
async fn who_falls_behind_holds_up_more_until_it_catches_up() {
    const DAY: Millis = 24 * 3_600_000;
    let chores = Chores::default();
    let mut hurries = Vec::new();
    for overdue in [DAY, DAY, DAY + 1, DAY + 2, DAY + 3, DAY + 4, DAY + 3, DAY + 2, DAY - 1] {
        chores.overdue("logs", overdue);
        chores.overdue("threads", DAY - 1);
        hurries.push(chores.hurry());
        sleep(LOOKED_AT_EVERY).await;
    }
    assert_eq!(hurries, [1, 2, 4, 8, 16, 16, 8, 4, 1]);
    chores.overdue("logs", DAY);
    sleep(LOOKED_AT_EVERY).await;
    chores.overdue("logs", DAY);
    let rested = rest(&chores, 1, 1).await;
    assert!(rested >= HELD * 199 / 2 && rested < HELD * 200 / 2 + 2 * SHORT, "{rested:?}");
}

#[tokio::test(start_paused = true)]
async fn chores_rest_one_after_another_beside_commits_and_side_by_side_without() {
    let chores = Chores::default();
    for (commits, at_least, at_most) in [(1, HELD * 199 * 3, HELD * 200 * 3 + 4 * SHORT), (0, SHORT, SHORT)] {
        let begun = Instant::now();
        tokio::join!(rest(&chores, commits, 1), rest(&chores, commits, 1), rest(&chores, commits, 1));
        let rested = begun.elapsed();
        assert!((at_least..=at_most).contains(&rested), "{rested:?}");
    }
}
