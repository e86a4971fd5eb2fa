use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use super::*;

/// A program that ends by itself when its input closes.
fn program(change: impl FnOnce(&mut Command) -> &mut Command) -> Child {
    let mut command = Command::new("/bin/cat");
    let mut program = change(&mut command).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    program.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    program.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    program
}

fn was_killed(mut program: Child) -> bool {
    program.wait().unwrap().signal() == Some(9)
}

fn look(program: &Child, mark: &str) -> ScanResult {
    let pid = i32::try_from(program.id()).unwrap();
    let variable = format!("{MARKER_VARIABLE}={mark}");
    kill_if_marked(Pid::from_raw(pid).unwrap(), Path::new(&format!("/proc/{pid}")), variable.as_bytes())
}

/// The `/proc/PID/stat` of a process with memory whose environment lies between these addresses.
fn stat(begin: u64, end: u64) -> String {
    let mut fields = vec!["0".to_owned(); 53];
    fields[1] = "(a) R (b)".to_owned();
    (fields[22], fields[49], fields[50]) = ("4096".to_owned(), begin.to_string(), end.to_string());
    fields.join(" ")
}

/// A process that is examined during `exec`: its environment is empty at the first read and filled at the second.
#[rstest::rstest]
#[case::not_yet_made(stat(0, 0))]
#[case::made_between_the_two_files(stat(16, 64))]
fn a_process_that_is_becoming_another_program_is_looked_at_again(#[case] stat: String) {
    let mut program = program(|command| command);
    let processes = tempfile::tempdir().unwrap();
    let folder = processes.path().join(program.id().to_string());
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("environ"), "").unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("stat")).status().unwrap().success());
    let (input, at_stat) = (program.stdin.take(), folder.join("stat"));
    let other = thread::spawn(move || {
        // Opening blocks until the other end is opened: then the empty environment was read, and the reason is being
        // checked.
        let mut end = fs::OpenOptions::new().write(true).open(folder.join("stat")).unwrap();
        fs::write(folder.join("new"), "A=1\0PES_MCP_PROCESS=this\0").unwrap();
        fs::rename(folder.join("new"), folder.join("environ")).unwrap();
        end.write_all(stat.as_bytes()).unwrap();
        drop(end);
        let was_killed = was_killed(program);
        fs::remove_dir_all(folder).unwrap();
        was_killed
    });
    kill_marked_in(processes.path(), "this");
    // If nothing was read there, this unblocks the other thread, and the program ends with its input.
    let _held = fs::OpenOptions::new().read(true).write(true).open(at_stat);
    drop(input);
    assert!(other.join().unwrap());
}

#[test]
fn a_process_with_the_mark_is_killed_and_one_without_is_not() {
    let programs = ["this", "that"].map(|mark| program(|command| command.env(MARKER_VARIABLE, mark)));
    kill_marked("this");
    assert_eq!(
        programs.map(|mut program| {
            drop(program.stdin.take());
            was_killed(program)
        }),
        [true, false]
    );
}

#[test]
fn nobody_waits_for_a_process_that_has_no_environment_or_has_ended() {
    // A marker that only this test uses: a shared one would kill the processes of other tests.
    const MARK: &str = "nobody waits";
    let bare = program(Command::env_clear);
    assert_eq!(look(&bare, MARK), ScanResult::Other);
    let mut ended = program(|command| command.env(MARKER_VARIABLE, MARK));
    assert_eq!(look(&ended, MARK), ScanResult::Killed);
    let mut rest = Vec::new();
    ended.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
    let has_ended = |program: &Child| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", program.id())).unwrap();
        stat.contains(") Z ")
    };
    while !has_ended(&ended) {
        thread::yield_now();
    }
    assert_eq!(look(&ended, MARK), ScanResult::Other);
    for mut program in [bare, ended] {
        drop(program.stdin.take());
        program.wait().unwrap();
    }
}
