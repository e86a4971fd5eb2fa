use super::*;

/// A program that is left after this time stays.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts a program that reads nothing, and waits for its end after this.
async fn ends_after(left: impl FnOnce(&mut Process)) {
    let (command, args) = (Some("sh".into()), vec!["-c".into(), "exec sleep 100".into()]);
    let server = McpServer { command, args, ..McpServer::default() };
    let (mut process, _pipes) = Process::start("deaf", &server, LastLines::default()).unwrap();
    left(&mut process);
    // Its standard error ends with the last of its processes.
    timeout(PATIENCE, &mut process.drained).await.expect("all have ended").unwrap();
}

/// The end of this process ends the input of the watch, and nothing else here.
#[tokio::test]
async fn a_program_that_reads_nothing_ends_with_the_process_that_started_it() {
    ends_after(|process| drop(process.running.as_mut().unwrap().watch.stdin.take().unwrap())).await;
}

/// As when no thread can be started for it.
#[tokio::test]
async fn a_program_that_is_not_killed_by_us_is_killed_by_its_watch() {
    ends_after(|process| drop(process.running.take().unwrap())).await;
}
