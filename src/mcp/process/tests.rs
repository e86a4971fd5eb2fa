use super::*;

/// A program that is left after this time stays.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_program_that_reads_nothing_ends_with_the_process_that_started_it() {
    let settings = McpServer {
        command: Some("sh".into()),
        args: vec!["-c".into(), "exec sleep 100".into()],
        ..McpServer::default()
    };
    let (mut process, _pipes) = Process::start("deaf", &settings).unwrap();
    // What the end of this process does. The input of the program stays open.
    drop(process.running.as_mut().unwrap().watch.stdin.take().unwrap());
    // Its standard error ends with the last of its processes.
    timeout(PATIENCE, &mut process.drained).await.expect("all have ended").unwrap();
}
