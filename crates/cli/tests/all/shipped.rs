//! What is shipped for deploying: it parses, its units are valid, and every command line in it is one that the binary takes.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::tools::{needed, needed_for};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").canonicalize().expect("it is shipped")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(deploy().join(file)).expect("read")
}

/// The documents of a YAML file. Python reads them, with the package of Debian.
fn yaml(file: &str) -> Vec<Value> {
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    needed_for("python3 -c 'import yaml'", "python3-yaml");
    let ran =
        Command::new("python3").args(["-c", script]).arg(deploy().join(file)).output().expect("python3");
    assert!(ran.status.success(), "{file}: {}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).expect("JSON")
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

/// The binary takes these words. Asked for help after them, it reads all of them first.
fn takes(words: &[String]) {
    let ran =
        Command::new(env!("CARGO_BIN_EXE_redrive")).args(words).arg("--help").output().expect("it starts");
    assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    let wrong =
        Command::new(env!("CARGO_BIN_EXE_redrive")).args(words).args(["--no-such-option", "--help"]).output();
    assert!(!wrong.expect("it starts").status.success(), "a wrong one would be seen");
}

#[test]
fn every_command_line_that_is_shipped_is_one_that_the_binary_takes() {
    let mut lines: Vec<Vec<String>> = Vec::new();
    for line in read("Dockerfile").lines().filter_map(|line| line.strip_prefix("CMD ")) {
        lines.push(words(&serde_json::from_str(line).expect("a list")));
    }
    let compose = yaml("compose.yaml").remove(0);
    for (name, service) in compose["services"].as_object().expect("services") {
        let own = service["image"] == "redrive";
        lines.extend(own.then(|| words(&service["command"])));
        assert!(own || service["command"].is_null(), "{name}");
    }
    for document in yaml("kubernetes/redrive.yaml") {
        for container in document["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten() {
            lines.push(words(&container["args"]));
        }
    }
    for unit in ["systemd/redrive.service", "systemd/redrive-retry-job.service"] {
        let text = read(unit);
        let start = text
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/redrive "))
            .expect("a command");
        lines.push(start.split(' ').map(str::to_owned).collect());
    }
    assert_eq!(lines.len(), 6, "{lines:?}");
    lines.iter().for_each(|words| takes(words));
}

#[test]
fn settings_of_the_retry_job_that_are_shipped_are_known_and_pipelines_are_valid() {
    let pattern = regex_lite::Regex::new(r"RETRY_JOB_[A-Z_]+").expect("a pattern");
    let place = crate::support::Place::new();
    place.write("p.toml", read("pipelines/greet.toml"));
    place.run(&["submit", "p.toml", "--item", "{\"id\": \"1\"}"]).expect(0);
    for file in ["compose.yaml", "kubernetes/redrive.yaml"] {
        let text = read(file);
        let names: Vec<&str> = pattern.find_iter(&text).map(|found| found.as_str()).collect();
        assert!(!names.is_empty(), "{file}");
        for name in names {
            place.run_with(&["retry-job", "--once"], &[(name, "900")]).expect(0);
        }
    }
    let pipelines =
        yaml("kubernetes/redrive.yaml").into_iter().find(|one| one["kind"] == "ConfigMap").expect("one");
    place.write("k.toml", pipelines["data"]["greet.toml"].as_str().expect("a text"));
    place.run(&["submit", "k.toml", "--item", "{\"id\": \"2\"}"]).expect(0);
}

#[test]
fn every_file_of_yaml_parses_and_containers_are_not_run_by_root() {
    for file in [
        "compose.yaml",
        "kubernetes/redrive.yaml",
        "prometheus/prometheus.yml",
        "prometheus/alerts.yml",
        "prometheus/alerts_test.yml",
        "prometheus/alerts_instances_test.yml",
        "grafana/provisioning/datasources/prometheus.yaml",
        "grafana/provisioning/dashboards/redrive.yaml",
    ] {
        assert!(yaml(file).iter().all(Value::is_object), "{file}");
    }
    assert!(read("Dockerfile").lines().any(|line| line == "USER 65532:65532"));
    let compose = yaml("compose.yaml").remove(0);
    for service in compose["services"].as_object().expect("services").values() {
        for mount in words(&service["volumes"]).iter().filter(|mount| mount.starts_with("./")) {
            let file = mount.split(':').next().unwrap_or_default().trim_start_matches("./");
            // The token is made by whoever starts it.
            assert!(
                file == "redrive.token" || deploy().join(file).exists(),
                "{file} is mounted, and is not there"
            );
        }
    }
}

#[test]
fn units_are_valid() {
    needed("systemd-analyze", "systemd");
    let place = crate::support::Place::new();
    for unit in ["redrive.service", "redrive-retry-job.service", "redrive-retry-job.timer"] {
        // The binary is where it is here.
        let text =
            read(&format!("systemd/{unit}")).replace("/usr/bin/redrive", env!("CARGO_BIN_EXE_redrive"));
        place.write(unit, text);
    }
    for unit in ["redrive.service", "redrive-retry-job.service", "redrive-retry-job.timer"] {
        let ran =
            Command::new("systemd-analyze").arg("verify").arg(place.path(unit)).output().expect("it starts");
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        let own: Vec<&str> = told.lines().filter(|line| line.contains("redrive")).collect();
        assert!(ran.status.success() && own.is_empty(), "{unit}: {told}");
    }
}

#[test]
fn what_compose_says_before_its_first_start_is_all_that_it_asks_for() {
    let text = read("compose.yaml");
    let told: String = text.lines().filter(|line| line.trim_start().starts_with('#')).collect();
    let needed = regex_lite::Regex::new(r"\$\{([A-Z_]+):\?").expect("a pattern");
    let needed: Vec<&str> =
        needed.captures_iter(&text).filter_map(|one| one.get(1)).map(|one| one.as_str()).collect();
    assert_eq!(needed, ["REDRIVE_TOKEN", "GRAFANA_PASSWORD"]);
    for name in needed.into_iter().chain(["RABBITMQ_PASSWORD"]) {
        assert!(told.contains(&format!("{name}=")), "{name} is not set");
    }
    let starts = told.matches("docker compose ").count();
    assert_eq!(starts, told.matches("docker compose -f deploy/compose.yaml ").count());
    assert!(starts >= 4 && told.contains("--role viewer > deploy/redrive.token"), "{told}");
}
