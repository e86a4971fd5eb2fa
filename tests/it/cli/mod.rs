//! The binary as people start it, and the configuration it starts with.

mod as_json;
mod authorities;
mod binary;
mod client;
mod compressed_log;
mod config;
mod doctor;
mod first_keys;
mod folders;
mod json_log;
mod leaving;
mod long;
mod open_files;
mod questions;
mod refused;
mod resized;
mod serving;
mod shown;
mod tenants;
mod terminal;
mod told;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(60);

/// The binary in a folder, without this process's environment. Its demo model makes no pauses unless a variable says so.
fn command(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pes"));
    command.args(arguments).current_dir(folder).env_clear().env("PES_DEMO_PACE", "0").envs(variables.iter().copied());
    command
}

/// Its output until it ends, which must be soon.
fn run(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = command(folder, arguments, variables);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let (said, output) = mpsc::channel();
    std::thread::spawn(move || said.send(child.wait_with_output()));
    output
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| {
            kill_process(pid, Signal::KILL).unwrap();
            panic!("{arguments:?} does not end");
        })
        .unwrap()
}

/// Takes one connection, reads the head of its request, and writes these bytes.
fn answer_once(listener: TcpListener, answer: String) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            asked.extend_from_slice(&byte);
        }
        stream.write_all(answer.as_bytes()).unwrap();
    })
}
