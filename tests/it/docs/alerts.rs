//! The alerts and the unit file of `deploy/` are checked by the programs that read them.

mod faults;
mod panels;
mod series;

use std::process::Command;

fn deploy(program: &str, arguments: &[&str]) -> String {
    let output =
        Command::new(program).args(arguments).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy")).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}: run scripts/test --peers"));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    said
}

#[test]
#[ignore = "needs promtool: scripts/test --peers"]
fn peer_prometheus_fires_each_alert_in_its_fault_alone() {
    assert!(deploy("promtool", &["check", "rules", "prometheus/alerts.yml"]).contains("23 rules found"));
    assert!(deploy("promtool", &["test", "rules", "prometheus/alerts.test.yml"]).contains("SUCCESS"));
}

#[test]
#[ignore = "needs promtool: scripts/test --peers"]
fn peer_prometheus_extrapolates_no_single_loss_to_an_alert() {
    assert!(deploy("promtool", &["test", "rules", "prometheus/unaligned.test.yml"]).contains("SUCCESS"));
}

#[test]
#[ignore = "needs systemd-analyze: scripts/test --peers"]
fn peer_systemd_finds_the_unit_hardly_exposed() {
    let arguments = ["security", "--offline=true", "--threshold=15", "systemd/pes.service"];
    assert!(deploy("systemd-analyze", &arguments).contains("Overall exposure level"));
}
