//! Observations, read back by number, type and run.

use pes::domain::observation::ObservationType::{Intent, Plan, RunFinished, RunStarted};
use pes::store::{Commit, ObservationAsk};

use super::bed::{Bed, record};

super::on_every_store!(observations_are_read_in_windows, observations_are_filtered);

async fn ten(bed: &Bed) -> pes::domain::ids::ThreadPk {
    let pk = bed.thread("t1").await;
    for run in ["run_1", "run_2"] {
        let records = [RunStarted, Intent, Plan, Intent, RunFinished].map(|kind| record("o", kind, run)).into();
        bed.done(Commit { records, ..bed.next(pk).await }).await;
    }
    pk
}

async fn seqs(bed: &Bed, pk: pes::domain::ids::ThreadPk, ask: ObservationAsk) -> Vec<i64> {
    bed.store.observations(pk, &ask).await.unwrap().into_iter().map(|o| o.seq).collect()
}

async fn observations_are_read_in_windows(bed: Bed) {
    let pk = ten(&bed).await;
    let all = ObservationAsk { limit: 100, ..Default::default() };
    assert_eq!(seqs(&bed, pk, all.clone()).await, (1..=10).collect::<Vec<_>>());
    assert_eq!(seqs(&bed, pk, ObservationAsk { after: 7, ..all.clone() }).await, [8, 9, 10]);
    assert_eq!(seqs(&bed, pk, ObservationAsk { after: 2, until: Some(4), ..all.clone() }).await, [3, 4]);
    assert_eq!(seqs(&bed, pk, ObservationAsk { after: 3, limit: 2, ..all.clone() }).await, [4, 5]);
    assert_eq!(seqs(&bed, pk, ObservationAsk { after: 10, ..all.clone() }).await, [] as [i64; 0]);
    let elsewhere = bed.thread("t2").await;
    assert_eq!(seqs(&bed, elsewhere, all).await, [] as [i64; 0]);
}

async fn observations_are_filtered(bed: Bed) {
    let pk = ten(&bed).await;
    let all = ObservationAsk { limit: 100, ..Default::default() };
    let types = vec![Plan, RunFinished];
    assert_eq!(seqs(&bed, pk, ObservationAsk { types: types.clone(), ..all.clone() }).await, [3, 5, 8, 10]);
    let run = Some("run_2".into());
    assert_eq!(seqs(&bed, pk, ObservationAsk { run: run.clone(), ..all.clone() }).await, [6, 7, 8, 9, 10]);
    assert_eq!(seqs(&bed, pk, ObservationAsk { types, run, after: 8, ..all }).await, [10]);
}
