use std::sync::mpsc;

use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::*;

fn long() -> Vec<u8> {
    format!("\"{}\"", "x".repeat(LONG_BYTES)).into_bytes()
}

fn expected() -> ExpectedBody {
    let limits = BodyLimits { most: LONG_BYTES + 2, setting: None, within_ms: 30_000, json_depth: 64 };
    ExpectedBody { limits, announced: None, tenant: None }
}

fn collecting(body: Vec<u8>, budget: &'static TenantBudget) -> impl Future<Output = Result<ReceivedBody, Fault>> {
    collect(Body::from(body), expected(), budget)
}

#[tokio::test]
async fn there_is_room_for_so_much_and_what_is_larger_has_it_alone() {
    static ROOM: MemoryBudget = MemoryBudget::of(64 << 10);
    let forty = ROOM.reserve(40 << 20).await;
    assert!(ROOM.reserve(40 << 20).now_or_never().is_none());
    assert!(ROOM.reserve(20 << 20).now_or_never().is_some());
    drop(forty);
    let all = ROOM.reserve(usize::MAX).await;
    assert!(ROOM.reserve(1).now_or_never().is_none());
    drop(all);
    assert!(ROOM.reserve(1).now_or_never().is_some());
}

#[tokio::test]
async fn a_long_body_waits_for_room_in_the_parser_and_a_short_one_does_not() {
    let all = PARSING.reserve(usize::MAX).await;
    let arrived = |bytes: Vec<u8>| ReceivedBody { bytes: bytes.into(), reservation: None };
    assert_eq!(parsed(arrived(b"[]".to_vec()), 4, Ok).await.unwrap(), Value::Array(Vec::new()));
    assert!(parsed(arrived(long()), 4, Ok).now_or_never().is_none(), "it has no room yet");
    drop(all);
    assert!(parsed(arrived(long()), 4, Ok).await.is_ok());
}

#[tokio::test]
async fn a_long_body_is_converted_on_the_thread_that_parses_it() {
    let thread_of = async |bytes: Vec<u8>| {
        let arrived = ReceivedBody { bytes: bytes.into(), reservation: None };
        parsed(arrived, 4, |_| Ok(std::thread::current().id())).await.unwrap()
    };
    assert_eq!(thread_of(b"[]".to_vec()).await, std::thread::current().id());
    assert_ne!(thread_of(long()).await, std::thread::current().id());
}

#[tokio::test]
async fn hanging_up_gives_no_room_back_while_the_body_is_parsed() {
    static ROOM: MemoryBudget = MemoryBudget::of(1);
    let (begun, has_begun) = oneshot::channel();
    let (end, ends) = mpsc::channel::<()>();
    let mut parsing = Box::pin(parse_blocking(&ROOM, 1 << 10, move || (begun.send(()), ends.recv())));
    assert!((&mut parsing).now_or_never().is_none());
    has_begun.await.unwrap();
    drop(parsing);
    assert!(ROOM.reserve(1).now_or_never().is_none(), "it is still parsed");
    drop(end);
    drop(ROOM.reserve(1).await);
}

/// Slow bodies of one tenant use up its share. Its further bodies wait without blocking other tenants.
#[tokio::test]
async fn a_tenant_has_a_share_of_the_room_and_the_others_find_the_rest() {
    static ROOM: TenantBudget = TenantBudget::of(256 << 10);
    let of = |tenant: i64| ROOM.reserve(Some(TenantPk(tenant)), 32 << 20);
    let slow = [of(1).now_or_never().unwrap(), of(1).now_or_never().unwrap()];
    let mut waiting: Vec<_> = (0..7).map(|_| Box::pin(of(1))).collect();
    assert!(waiting.iter_mut().all(|waits| waits.now_or_never().is_none()), "the share is taken");
    for tenant in 2..5 {
        assert!(of(tenant).now_or_never().is_some(), "of tenant {tenant}");
    }
    assert!(ROOM.reserve(None, 32 << 20).now_or_never().is_some());
    drop(slow);
    assert!((&mut waiting[0]).now_or_never().is_some(), "the first that waited");
}

#[tokio::test(start_paused = true)]
async fn long_bodies_that_arrive_have_a_bound_together() {
    static ROOM: TenantBudget = TenantBudget::of(800);
    let first = collecting(long(), &ROOM).await.unwrap();
    let refused = collecting(long(), &ROOM).await.err().unwrap();
    assert_eq!((refused.code, refused.code.status()), (Code::TooManyConnections, 503));
    assert!(collecting(b"{}".to_vec(), &ROOM).await.is_ok(), "a short one needs no room");
    drop(first);
    assert!(collecting(long(), &ROOM).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_waited_for_so_long() {
    let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let late = collect(never, expected(), &ARRIVING).await.err().unwrap();
    assert_eq!(late.code, Code::RequestTimeout);
}

#[tokio::test]
async fn a_body_that_is_too_long_names_the_setting() {
    let limits = BodyLimits::from(&Limits { body_bytes: 4, ..Limits::default() });
    let (parts, _) = Request::new(()).into_parts();
    for (limits, detail) in [
        (limits, "The body is longer than 4 bytes, the limit that `limits.body_bytes` sets."),
        (limits.with_length(5, None), "The body is longer than 5 bytes."),
    ] {
        let refused = receive(&parts, Body::from("123456"), limits).await.err().unwrap();
        assert_eq!((refused.code, refused.detail.as_str()), (Code::BodyTooLarge, detail));
    }
}
