use tokio::io::AsyncBufReadExt;

use super::*;

/// A program that is left after this time stays.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts the guard as we do, in a shell that can be killed. The input never ends, as if it were not read: its writer waits
/// for room in the pipes, and outlives the shell.
const OWNER: &str = r#"head -c 1000000 /dev/zero | sh -c "$1" mcp "$2" 64 0 $$ sh -c 'echo up; exec sleep 100'"#;

#[tokio::test]
async fn a_program_that_reads_nothing_ends_with_the_process_that_started_it() {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", OWNER, "owner", GUARD, &marker().unwrap()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut owner = command.spawn().unwrap();
    let mut output = BufReader::new(owner.stdout.take().unwrap());
    let ends = async {
        let mut line = String::new();
        output.read_line(&mut line).await.unwrap();
        owner.kill().await.unwrap();
        // The pipe is open as long as one of the processes is left.
        let more = output.read_to_end(&mut Vec::new()).await.unwrap();
        (line, more)
    };
    assert_eq!(timeout(PATIENCE, ends).await.expect("all have ended"), ("up\n".to_owned(), 0));
}
