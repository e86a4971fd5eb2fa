//! A server that may open few files.

use std::net::TcpStream;
use std::process::Command;

use super::serving::{started, text};
use super::{command, run};

/// Otherwise connections could use them all, and no health check would be accepted.
#[test]
fn connections_leave_a_quarter_of_the_open_files_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let plain = command(folder.path(), &["--port", "0"], &[]);
    let mut with_few_files = Command::new("/bin/sh");
    with_few_files.args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""]);
    with_few_files.arg(plain.get_program()).args(plain.get_args()).current_dir(folder.path()).env_clear();
    let served = started(with_few_files);
    let address = served.url.strip_prefix("http://").unwrap();
    let idle: Vec<TcpStream> = (0..196).map(|_| TcpStream::connect(address).unwrap()).collect();
    let health = run(folder.path(), &["health"], &[("PES_URL", &served.url)]);
    assert_eq!(text(&health.stdout), "ready\n", "{}", text(&health.stderr));
    drop(idle);
    let (_, log) = served.stop();
    let told = "fewer connections than limits.connections are accepted";
    let line = log.lines().find(|line| line.contains(told)).expect(told);
    assert!(line.contains("files=256 connections=192 configured=10000"), "{line}");
}
