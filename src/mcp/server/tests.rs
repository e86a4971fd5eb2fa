use std::future::ready;

use super::*;

/// A server that answers nobody.
fn server(timeout_ms: u32) -> Arc<Server> {
    let profile = Profile {
        name: "far".into(),
        owner: None,
        settings: McpServer { timeout_ms, ..McpServer::default() },
        start: Duration::from_secs(20),
        message_bytes: 1 << 20,
        most_tools: 1,
    };
    let server = Server::start(profile, Arc::new(Egress::new(Duration::from_secs(1))), ChangeCounts::new());
    server.end();
    server
}

/// How long a call waits, in tenths of a second, and why it was not sent.
async fn refused(server: &Server) -> (u128, ToolError) {
    let began = Instant::now();
    let error = server.connection().await.err().expect("there is no connection");
    (began.elapsed().as_millis() / 100, error)
}

#[tokio::test(start_paused = true)]
async fn beyond_a_thousand_calls_another_waits_for_half_of_its_own_time_and_was_not_sent() {
    let server = server(4_000);
    let in_flight = server.call_permits.permits.acquire_many(1_000).await.unwrap();
    let (waited, error) = refused(&server).await;
    assert_eq!((waited, error.code.as_str()), (20, "unavailable"));
    assert!(error.message.ends_with("it has not answered the calls before this one"), "{}", error.message);
    drop(in_flight);
    let (waited, error) = refused(&server).await;
    assert_eq!((waited, error.code.as_str()), (20, "unavailable"), "as long for a connection");
    assert!(!error.message.contains("the calls before this one"), "{}", error.message);
}

/// The seventh listing shows a change.
#[tokio::test(start_paused = true)]
async fn a_server_that_announces_all_the_time_is_asked_every_five_seconds() {
    let (announced, waits, last) = (Notify::new(), Mutex::new(Vec::new()), Mutex::new(Instant::now()));
    let refresh = || {
        announced.notify_one();
        let before = std::mem::replace(&mut *last.lock(), Instant::now());
        waits.lock().push(before.elapsed().as_millis() / 100);
        ready(Ok(waits.lock().len() == 7))
    };
    announced.notify_one();
    let limit = Duration::from_secs(1);
    timeout(Duration::from_secs(60), refresh_when_announced("far", &announced, limit, refresh)).await.unwrap_err();
    assert_eq!(*waits.lock(), [2, 4, 8, 16, 32, 50, 50, 2, 4, 8, 16, 32, 50, 50, 50, 50, 50, 50, 50]);
}

/// It may do its calls all the same. Only one that cannot be reached is down.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_list_its_tools_is_asked_again_after_a_minute() {
    let (announced, began, asked) = (Notify::new(), Instant::now(), Mutex::new(Vec::new()));
    let failed = |is_unreachable| Err(ListingError { is_unreachable, ..ListingError::new("HTTP 503") });
    let refresh = || async {
        asked.lock().push(began.elapsed().as_millis() / 100);
        let count = asked.lock().len();
        match count {
            1 => failed(false),
            2 => std::future::pending().await,
            3 => {
                announced.notify_one();
                Ok(true)
            }
            _ => failed(true),
        }
    };
    announced.notify_one();
    let why = refresh_when_announced("far", &announced, Duration::from_secs(1), refresh).await;
    assert_eq!((why.as_str(), &*asked.lock()), ("HTTP 503", &vec![2, 606, 1_224, 1_226]));
}

#[test]
fn a_server_that_answers_calls_is_started_again_at_once_however_often_it_ends() {
    let mut backoff = Backoff::default();
    let mut pause = |up_s, answers| backoff.pause_after(Duration::from_secs(up_s), answers).as_millis();
    assert_eq!([0; 9].map(|up_s| pause(up_s, 2)), [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    assert_eq!([pause(1, 3), pause(1, 30), pause(1, 0), pause(1, 3)], [500, 500, 1_000, 500]);
    assert_eq!([pause(1, 0), pause(60, 0), pause(61, 0)], [1_000, 2_000, 500]);
}
