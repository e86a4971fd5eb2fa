//! The files that operators install name only existing metrics, runbooks and settings, and the build of the image gets
//! all that it reads.

use std::collections::BTreeSet;

use super::{Source, all_sources, root};

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn families() -> BTreeSet<&'static str> {
    [pes::http::COUNTED, pes::http::LOOKED_UP].concat().iter().map(|family| family.0).collect()
}

/// Names of metrics that are in no list, without the suffixes that Prometheus adds to a histogram.
fn unknown(text: &str) -> Vec<&str> {
    let known = families();
    let is_known = |name: &str| {
        ["", "_bucket", "_sum", "_count"]
            .iter()
            .any(|end| name.strip_suffix(end).is_some_and(|name| known.contains(name)))
    };
    let is_name = |c: char| c == '_' || c.is_ascii_lowercase();
    let words = text.split(|c| !is_name(c)).filter(|word| word.starts_with("pes_") || word.starts_with("process_"));
    words.filter(|word| !is_known(word)).collect()
}

#[test]
fn alerts_and_panels_are_about_metrics_that_there_are() {
    let none: [&str; 0] = [];
    for path in [
        "deploy/prometheus/alerts.yml",
        "deploy/prometheus/alerts.test.yml",
        "deploy/prometheus/unaligned.test.yml",
        "deploy/grafana/dashboard.json",
    ] {
        assert_eq!(unknown(&read(path)), none, "{path}");
    }
    assert_eq!(
        unknown("rate(pes_runs_finished_total[5m]) + pes_run_duration_seconds_bucket + pes_runs_ended"),
        ["pes_runs_ended"]
    );
}

/// A title that names several figures has a query for each, and their lines have names.
#[test]
fn a_panel_shows_each_figure_of_its_title() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("deploy/grafana/dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("a list");
    let mut several = 0;
    for panel in panels {
        let title = panel["title"].as_str().expect("a text");
        // `Tokens/s` and the like are one figure, by the second, minute or hour.
        let rate_of = |unit: &str| title.contains(&format!("/{unit}"));
        let figures =
            1 + title.matches([',', '/']).count() - ["s", "min", "h"].into_iter().filter(|unit| rate_of(unit)).count();
        let targets = panel["targets"].as_array().expect("a list");
        assert_eq!(targets.len(), figures, "{title}");
        let is_named = targets.iter().all(|target| target["legendFormat"].is_string());
        assert!(figures == 1 || is_named, "{title}");
        several += usize::from(figures > 1);
    }
    assert_eq!(several, 6);
}

#[test]
fn every_alert_has_a_test_and_a_runbook() {
    let (alerts, tests, operations) =
        (read("deploy/prometheus/alerts.yml"), read("deploy/prometheus/alerts.test.yml"), read("docs/OPERATIONS.md"));
    let names: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() >= 21, "{names:?}");
    for name in names {
        assert!(tests.contains(&format!("- name: {name}\n")), "{name} has no test");
        assert!(alerts.contains(&format!("docs/OPERATIONS.md#{}\"", name.to_lowercase())), "{name} names no runbook");
        assert!(operations.contains(&format!("\n### {name}\n")), "{name} has no runbook");
    }
}

/// Prometheus scrapes the path at which the metrics are served.
#[test]
fn metrics_are_scraped_where_they_are_served() {
    let (manifest, unit) = (read("deploy/kubernetes/pes.yaml"), read("deploy/systemd/pes.service"));
    let (scrape, in_cluster) = (read("deploy/prometheus/prometheus.yml"), read("deploy/prometheus/kubernetes.yml"));
    assert!(in_cluster.contains("[__meta_kubernetes_pod_container_port_name], regex: metrics, action: keep"));
    assert!(in_cluster.contains("[__meta_kubernetes_pod_label_app], regex: pes, action: keep"));
    let shown = "    static_configs: [{targets: [\"127.0.0.1:9464\"]}]       # PES_METRICS_LISTEN\n";
    assert!(scrape.contains(shown) && read("docs/METRICS.md").contains(shown));
    assert!(unit.contains("\nEnvironment=PES_METRICS_LISTEN=127.0.0.1:9464\n"));
    for part in [
        "{name: PES_METRICS_LISTEN, value: \"0.0.0.0:9464\"}",
        "prometheus.io/port: \"9464\"",
        "{name: metrics, containerPort: 9464}",
        "monitoring}}}], ports: [{port: 9464}]}",
    ] {
        assert!(manifest.contains(part), "{part}");
    }
}

/// A secret's files belong to root. Where others may not read them, the group of the image's user must.
#[test]
fn the_user_of_the_image_can_read_the_secrets_of_the_manifests() {
    assert!(
        read("Dockerfile").contains("\nFROM gcr.io/distroless/cc-debian12:nonroot\n"),
        "its user and group are 65532"
    );
    for path in ["deploy/kubernetes/pes.yaml", "deploy/kubernetes/migrate.yaml"] {
        let manifest = read(path);
        let modes: Vec<u32> = manifest
            .split("defaultMode: ")
            .skip(1)
            .map(|rest| u32::from_str_radix(&rest[..4], 8).expect("four octal digits"))
            .collect();
        assert_eq!(modes.len(), 1, "{path}");
        let is_open = modes[0] & 0o004 != 0;
        assert!(is_open || manifest.contains("securityContext: {runAsNonRoot: true, fsGroup: 65532,"), "{path}");
    }
}

/// The values of a setting of the unit, in the order of its lines.
fn values_of<'u>(unit: &'u str, name: &str) -> Vec<&'u str> {
    unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).collect()
}

/// A database that recovers for minutes after a power failure must not leave the unit failed for good.
#[test]
fn the_unit_starts_again_however_often_a_start_fails() {
    let unit = read("deploy/systemd/pes.service");
    let settings =
        ["Restart", "RestartSec", "StartLimitIntervalSec", "StartLimitBurst"].map(|name| values_of(&unit, name));
    assert_eq!(settings, [vec!["always"], vec!["5"], vec!["0"], vec![]]);
}

/// The programs of MCP servers need a folder for their caches, and the metrics of the process `/proc/stat`.
#[test]
fn the_unit_leaves_programs_a_folder_and_the_server_its_metrics() {
    let unit = read("deploy/systemd/pes.service");
    assert_eq!((values_of(&unit, "StateDirectory"), values_of(&unit, "ProcSubset")), (vec!["pes"], vec![]));
    assert!(values_of(&unit, "Environment").contains(&"HOME=/var/lib/pes"));
}

#[test]
fn a_command_beside_the_unit_has_its_settings_and_secrets() {
    let (unit, script) = (read("deploy/systemd/pes.service"), read("deploy/systemd/pes-command"));
    let shared = ["DynamicUser", "UMask", "StateDirectory", "StateDirectoryMode", "LoadCredential"];
    let properties = shared
        .iter()
        .flat_map(|name| values_of(&unit, name).into_iter().map(move |value| format!("--property={name}={value}")));
    let variables = values_of(&unit, "Environment").into_iter().flat_map(str::split_whitespace);
    let variables = variables.map(|variable| format!("--setenv=\"{}\"", variable.replace("%d", "$credentials")));
    let expected: BTreeSet<String> = properties.chain(variables).collect();
    assert!(expected.len() >= 20, "{expected:?}");
    let given: BTreeSet<String> = script
        .split_whitespace()
        .filter(|word| word.starts_with("--property=") || word.starts_with("--setenv="))
        .map(str::to_owned)
        .collect();
    // The user of the unit is named after it.
    let user: BTreeSet<String> = ["--property=User=pes".to_owned()].into();
    assert_eq!(given, &expected | &user);
}

/// PesDown selects the job `pes`, and fires also if Prometheus has no target of this job.
#[test]
fn every_scrape_is_of_the_job_that_the_alert_is_about() {
    for path in ["deploy/prometheus/prometheus.yml", "deploy/prometheus/kubernetes.yml"] {
        let text = read(path);
        let jobs: Vec<&str> =
            text.split("job_name: ").skip(1).filter_map(|rest| rest.split_whitespace().next()).collect();
        assert!(!jobs.is_empty() && jobs.iter().all(|job| *job == "pes"), "{path}: {jobs:?}");
    }
    let alerts = read("deploy/prometheus/alerts.yml");
    assert!(alerts.contains("expr: up{job=\"pes\"} == 0 or absent(up{job=\"pes\"})\n"));
}

/// Whether `.dockerignore` lets this path through. It leaves out everything, and lists what comes back.
fn is_let_through(ignore: &str, path: &str) -> bool {
    let mut patterns = ignore.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(patterns.next(), Some("*"), "everything is left out first");
    let kept = |pattern: &str| {
        let kept = pattern.strip_prefix('!').unwrap_or_else(|| panic!("`{pattern}` takes something away again"));
        path.strip_prefix(kept).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    patterns.map(kept).collect::<Vec<bool>>().contains(&true)
}

/// The files that a source embeds but in its tests, from the root of the repository; a folder if a macro names the files in it.
fn embedded(source: &Source) -> Vec<String> {
    let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let lines: Vec<&str> = source.text.lines().collect();
    let code = lines[..lines.len() - source.test_lines()].join("\n");
    ["include_str!(\"", "include_bytes!(\"", "include!(\"", "include_str!(concat!(\""]
        .into_iter()
        .flat_map(|start| code.split(start).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)))
        .map(|target| {
            let mut parts: Vec<&str> = folder.split('/').collect();
            target.split('/').for_each(|part| match part {
                ".." => drop(parts.pop()),
                part => parts.push(part),
            });
            parts.join("/")
        })
        .collect()
}

/// The image is built from what `.dockerignore` lets through, so that is all that the build reads.
#[test]
fn the_image_is_built_with_all_that_the_build_reads() {
    let (ignore, script, manifest) = (read(".dockerignore"), read("build.rs"), read("Cargo.toml"));
    let embedded_files: Vec<String> = all_sources("src").into_iter().flat_map(embedded).collect();
    assert!(embedded_files.len() >= 15 && embedded_files.contains(&"migrations/".to_owned()), "{embedded_files:?}");
    let watched: Vec<&str> =
        script.split("cargo::rerun-if-changed=").skip(1).filter_map(|rest| rest.split(['"', '\\']).next()).collect();
    assert_eq!(watched, ["console"]);
    let named = manifest.lines().filter_map(|line| line.strip_prefix("path = \"")?.split('"').next());
    let members = manifest.split("members = [").nth(1).unwrap().split(']').next().unwrap();
    let members = members.split(',').map(|member| member.trim().trim_matches('"'));
    let cargo = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", "build.rs", "src/main.rs"];
    let needed: Vec<&str> = cargo.into_iter().chain(watched).chain(named).chain(members).collect();
    for path in needed.into_iter().chain(embedded_files.iter().map(String::as_str)) {
        assert!(root().join(path).exists(), "{path} is not there");
        assert!(is_let_through(&ignore, path), "{path} is not in the image's build: add it to .dockerignore");
    }
    assert!(!is_let_through("# None.\n*\n!src\n!config/default.toml\n", "config"));
    assert!(!is_let_through("*\n!console\n", "console.rs") && is_let_through("*\n!src\n", "src/main.rs"));
}
