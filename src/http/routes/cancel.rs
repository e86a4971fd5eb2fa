//! `POST …/cancel`: a barrier. Answered when the run's effects can no longer start.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::caller::MayRun;
use crate::http::front::Front;
use crate::http::idempotency::IdempotencyKey;
use crate::http::ids::Ids;
use crate::http::json::{MaybeSent, Nothing};
use crate::http::params::NoParams;
use crate::http::problem::Answer;
use crate::runtime::CancelReceipt;

type Cancelled = Answer<(StatusCode, Json<CancelReceipt>)>;

/// Cancel everything on a thread, queued runs too. Again: 200.
#[utoipa::path(post, path = "/threads/{thread}/cancel", tag = "runs",
    responses((status = 202, body = CancelReceipt), (status = 200, body = CancelReceipt)))]
pub(crate) async fn thread(
    MayRun(caller): MayRun,
    State(front): State<Front>,
    ids: Ids,
    _: NoParams,
    _: IdempotencyKey,
    _: MaybeSent<Nothing>,
) -> Cancelled {
    Ok(told(front.runtime.cancel_thread(&caller, &ids.thread()?).await?))
}

/// Cancel one run. Again: 200.
#[utoipa::path(post, path = "/runs/{run}/cancel", tag = "runs",
    responses((status = 202, body = CancelReceipt), (status = 200, body = CancelReceipt)))]
pub(crate) async fn run(
    MayRun(caller): MayRun,
    State(front): State<Front>,
    ids: Ids,
    _: NoParams,
    _: IdempotencyKey,
    _: MaybeSent<Nothing>,
) -> Cancelled {
    Ok(told(front.runtime.cancel_run(&caller, &ids.get("run")?).await?))
}

fn told(receipt: CancelReceipt) -> (StatusCode, Json<CancelReceipt>) {
    let status = if receipt.already { StatusCode::OK } else { StatusCode::ACCEPTED };
    (status, Json(receipt))
}
