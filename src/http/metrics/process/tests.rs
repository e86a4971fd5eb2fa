use super::*;

/// A process that began ten seconds after the system, used three seconds of processor time, and has two files open.
fn system() -> tempfile::TempDir {
    let proc = tempfile::tempdir().unwrap();
    let ticks = rustix::param::clock_ticks_per_second();
    fs::create_dir_all(proc.path().join("self/fd")).unwrap();
    for file in ["0", "1"] {
        fs::write(proc.path().join("self/fd").join(file), "").unwrap();
    }
    // Fields 3 to 24; 14 and 15 are processor time, 22 is the start, 24 is memory in pages.
    let (user, system, start) = (2 * ticks, ticks, 10 * ticks);
    let stat = format!("7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 {user} {system} 0 0 20 0 9 0 {start} 4096 5\n");
    fs::write(proc.path().join("self/stat"), stat).unwrap();
    proc
}

fn named(values: &[MetricValue]) -> Vec<(&str, f64)> {
    // The limit of open files is that of this test process.
    values.iter().filter(|(name, ..)| *name != "process_max_fds").map(|(name, _, value)| (*name, *value)).collect()
}

#[test]
fn a_process_is_described_by_the_files_of_the_system() {
    let proc = system();
    fs::write(proc.path().join("stat"), "cpu 1 2\nbtime 1000\nprocesses 9\n").unwrap();
    let values = read(proc.path()).unwrap();
    let memory = 5.0 * rustix::param::page_size() as f64;
    let expected = [
        ("process_cpu_seconds_total", 3.0),
        ("process_resident_memory_bytes", memory),
        ("process_open_fds", 2.0),
        ("process_start_time_seconds", 1010.0),
    ];
    assert_eq!(named(&values), expected);
}

#[test]
fn where_only_processes_are_shown_all_but_the_start_is_known() {
    let proc = system();
    let names: Vec<&str> = read(proc.path()).unwrap().iter().map(|(name, ..)| *name).collect();
    let expected =
        ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"];
    assert_eq!(names, expected);
}

#[test]
fn without_a_process_in_it_nothing_is_reported() {
    assert!(read(tempfile::tempdir().unwrap().path()).is_none());
}
