//! What threads cost: the sum over their runs. Of runs that ended it is cached, because a thread that is used for years has a
//! great many, and lists of threads are read often.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::domain::ids::ThreadPk;
use crate::domain::usage::Nanos;
use crate::service::Service;
use crate::store::{self, EndedCost};

/// For how many threads it is cached. Beyond that the cache is emptied and filled again.
const MAX_CACHED: usize = 10_000;

/// What the ended runs of threads cost.
#[derive(Default)]
pub(in crate::service) struct RunCostCache(Mutex<HashMap<ThreadPk, EndedCost>>);

/// What these threads cost. Those without a price are left out.
pub(super) async fn of(service: &Service, pks: &[ThreadPk]) -> store::Result<HashMap<ThreadPk, Nanos>> {
    let known = service.run_costs.known(pks);
    let costs = service.reads.run_costs(pks, &known).await?;
    let ended = costs.iter().filter_map(|costs| Some((costs.pk, costs.ended.clone()?)));
    service.run_costs.keep(ended.collect());
    Ok(costs.into_iter().filter_map(|costs| Some((costs.pk, costs.nanos?))).collect())
}

impl RunCostCache {
    fn known(&self, pks: &[ThreadPk]) -> HashMap<ThreadPk, EndedCost> {
        let cached = self.0.lock();
        pks.iter().filter_map(|pk| Some((*pk, cached.get(pk)?.clone()))).collect()
    }

    fn keep(&self, ended: Vec<(ThreadPk, EndedCost)>) {
        let mut cached = self.0.lock();
        if cached.len() + ended.len() > MAX_CACHED {
            cached.clear();
        }
        cached.extend(ended);
    }
}
