//! Alerts, dashboard and scrape as they are shipped, with the real Prometheus and its promtool.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use regex_lite::Regex;
use serde_json::{Value, json};

use crate::monitor::thirds;
use crate::support::daemon::TOKEN;
use crate::support::tools::{Service, free_port, needed, quoted};
use crate::support::{Daemon, Place, array, one_stage, quick_retry, samples, text, wait};

fn deploy(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(file)
        .canonicalize()
        .expect("it is shipped")
}

fn shipped(file: &str) -> String {
    std::fs::read_to_string(deploy(file)).expect("read")
}

fn found(pattern: &str, text: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).expect("a pattern");
    pattern.captures_iter(text).map(|found| found.get(1).expect("a group").as_str().to_owned()).collect()
}

fn promtool(args: &[&str]) {
    needed("promtool", "prometheus");
    let ran =
        Command::new("promtool").args(args).current_dir(deploy("prometheus")).output().expect("it starts");
    let told = [ran.stdout, ran.stderr].concat();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&told));
}

/// Every query of the dashboard.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&shipped("grafana/redrive.json")).expect("JSON");
    let of_panel = |panel: &Value| {
        let title = text(&panel["title"]);
        array(&panel["targets"])
            .iter()
            .map(move |target| (title.clone(), text(&target["expr"])))
            .collect::<Vec<_>>()
    };
    array(&dashboard["panels"]).iter().flat_map(of_panel).collect()
}

#[test]
fn every_alert_fires_and_clears() {
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts_test.yml"]);
    promtool(&["test", "rules", "alerts_instances_test.yml"]);
    let (alerts, tests) = (shipped("prometheus/alerts.yml"), shipped("prometheus/alerts_test.yml"));
    let names = found(r"- alert: (\w+)", &alerts);
    assert!(names.len() >= 20, "{names:?}");
    for name in &names {
        let of = tests.split("  - name: ").find(|test| test.starts_with(&format!("{name}\n")));
        let of = of.unwrap_or_else(|| panic!("{name} is not tested"));
        assert!(of.contains("- exp_labels:"), "{name} is not seen firing");
        assert!(of.trim_end().ends_with("exp_alerts: []"), "{name} is not seen clearing");
    }
}

#[test]
fn every_alert_has_its_paragraph_in_the_runbook_and_every_tier_an_alert() {
    let alerts = shipped("prometheus/alerts.yml");
    let runbook = std::fs::read_to_string(deploy("..").join("docs/runbook.md")).expect("read");
    let titles = found(r"(?m)^### (\w+)$", &runbook);
    assert_eq!(titles, found(r"- alert: (\w+)", &alerts));
    let links =
        found(r"runbook_url: '\{\{ \$externalLabels\.redrive_docs \}\}docs/runbook\.md#(\w+)'", &alerts);
    assert_eq!(links, titles.iter().map(|title| title.to_lowercase()).collect());
    for title in &titles {
        let paragraph = runbook.split(&format!("### {title}\n\n")).nth(1).unwrap_or_default();
        assert!(paragraph.lines().next().is_some_and(|line| line.len() > 60), "{title}");
    }
    assert_eq!(found(r#"tier: "(\d)""#, &alerts), ["2", "3", "4"].map(str::to_owned).into());
}

#[test]
fn every_metric_that_alerts_and_dashboard_name_is_told() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(1));
    place.run(&["run", "p.toml", "--quiet"]).expect(0);
    let told = place.run(&["stats", "--prometheus"]).expect(0).stdout;
    let mut names = BTreeSet::new();
    for line in told.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a kind");
        names.insert(name.to_owned());
        if kind == "histogram" {
            names.extend(["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")));
        }
    }
    let pattern = r"\b((?:redrive|retry_job)_[a-z_]+)\b";
    let mut named = found(pattern, &queries().into_iter().map(|(_, query)| query + "\n").collect::<String>());
    let alerts = shipped("prometheus/alerts.yml");
    named.extend(found(
        pattern,
        &alerts.lines().filter(|line| line.contains("expr:")).collect::<Vec<_>>().join("\n"),
    ));
    assert!(named.len() > 30, "{named:?}");
    let missing: Vec<&String> = named.difference(&names).collect();
    assert!(missing.is_empty(), "{missing:?} are told by nobody");
}

/// The configuration as it is shipped, for these targets and the files of this place.
fn configured(place: &Place, daemons: &[&Daemon], gateway: &str) {
    place.write("redrive.token", TOKEN);
    let targets: Vec<String> = daemons.iter().map(|daemon| format!("\"{}\"", daemon.address())).collect();
    let shipped = shipped("prometheus/prometheus.yml");
    let mut text = shipped.clone();
    for (was, is) in [
        ("\"redrive:7300\"", targets.join(", ")),
        ("pushgateway:9091", gateway.to_owned()),
        ("/etc/prometheus/redrive.token", place.path("redrive.token").display().to_string()),
        ("/etc/prometheus/alerts.yml", deploy("prometheus/alerts.yml").display().to_string()),
        ("scrape_interval: 15s", "scrape_interval: 1s".to_owned()),
        ("evaluation_interval: 15s", "evaluation_interval: 1s".to_owned()),
    ] {
        assert!(text.contains(was), "{was} is not in what is shipped");
        text = text.replace(was, &is);
    }
    place.write("prometheus.yml", text);
}

fn pushgateway(place: &Place) -> Service {
    needed("prometheus-pushgateway", "prometheus-pushgateway");
    let port = free_port();
    let args = [format!("--web.listen-address=127.0.0.1:{port}")];
    Service::start(place, "prometheus-pushgateway", &args, port, "/-/ready")
}

fn prometheus(place: &Place) -> Service {
    needed("prometheus", "prometheus");
    promtool(&["check", "config", &place.path("prometheus.yml").display().to_string()]);
    let port = free_port();
    let args = [
        format!("--config.file={}", place.path("prometheus.yml").display()),
        format!("--storage.tsdb.path={}", place.path("tsdb").display()),
        format!("--web.listen-address=127.0.0.1:{port}"),
    ];
    Service::start(place, "prometheus", &args, port, "/-/ready")
}

/// What a query gives, by labels.
fn ask(prometheus: &Service, query: &str) -> BTreeMap<String, f64> {
    let answer = prometheus.json(&format!("/api/v1/query?query={}", quoted(query)));
    assert_eq!(answer["status"], "success", "{query}: {answer}");
    let number = |one: &Value| text(&one["value"][1]).parse().expect("a number");
    array(&answer["data"]["result"]).iter().map(|one| (one["metric"].to_string(), number(one))).collect()
}

#[test]
fn a_real_prometheus_answers_every_query_of_the_dashboard_and_counts_nothing_once_for_each_target() {
    let server = thirds();
    let place = Place::with(&one_stage(&format!("{}\n{}", server.stage(), quick_retry(3))), &samples(30));
    place.run(&["run", "p.toml", "--quiet"]).expect(3);
    let gateway = pushgateway(&place);
    place.run(&["retry-job", "--once", "--pushgateway", &format!("http://{}", gateway.address())]).expect(0);
    let daemons = [Daemon::start(&place, &[]), Daemon::start(&place, &[])];
    configured(&place, &[&daemons[0], &daemons[1]], gateway.address());
    let prometheus = prometheus(&place);
    let told = |query: &str| ask(&prometheus, query);
    // Two samples of each, for what grows; the daemons have swept and looked at the laws by then.
    wait::until("scrapes", || {
        let scrapes = told("count_over_time(redrive_build_info[1m])");
        scrapes.len() == 2 && scrapes.values().all(|n| *n >= 3.0)
    });
    wait::until("sweeps", || told("count(retry_job_runs_total{status=\"success\"} > 0)") == one(3.0));
    assert_eq!(told("sum(up)"), one(3.0));
    let queries = queries();
    assert!(queries.len() >= 25);
    let names = Regex::new(r"\b(?:redrive|retry_job)_[a-z_]+\b").expect("a pattern");
    let mine = format!("$0{{instance=\"{}\"}}", daemons[0].address());
    for (title, query) in &queries {
        let (all, alone) = (told(query), told(&names.replace_all(query, mine.as_str())));
        assert!(!all.is_empty(), "{title} shows nothing");
        if title == "Scrape" {
            assert_eq!(all.len(), 2, "each process tells its own");
            continue;
        }
        assert_eq!(all.keys().collect::<Vec<_>>(), alone.keys().collect::<Vec<_>>(), "{title}");
        for (labels, n) in &all {
            let near = (n - alone[labels]).abs() <= 0.2 * n.abs() + 5.0 * f64::from(title == "Audit");
            assert!(near || n.is_nan(), "{title} {labels}: {n}, by one daemon {}", alone[labels]);
        }
    }
    let rules = prometheus.json("/api/v1/rules");
    let rules = array(&rules["data"]["groups"][0]["rules"]);
    assert!(rules.len() >= 20 && rules.iter().all(|rule| rule["health"] != "err"), "{rules:?}");
    daemons.into_iter().for_each(|daemon| drop(daemon.stop().expect(0)));
}

#[test]
fn the_first_burst_of_a_new_pipeline_is_seen_to_grow() {
    let server = thirds();
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let stage = format!("[[stage]]\nname = \"work\"\n{}\n{}", server.stage(), quick_retry(3));
    place.write(
        "pipelines/p.toml",
        format!("name = \"test\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n{stage}"),
    );
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    configured(&place, &[&daemon], "127.0.0.1:1");
    let prometheus = prometheus(&place);
    let told = |query: &str| ask(&prometheus, query);
    wait::until("two scrapes", || {
        told("count_over_time(redrive_deaths_total{stage=\"work\",reason=\"final\"}[1m])")
            .values()
            .any(|n| *n >= 2.0)
    });
    let items: Vec<Value> = (0..90).map(|n| json!({"payload": {"id": n.to_string(), "n": n}})).collect();
    daemon.post("/v1/pipelines/test/items", &json!({"items": items})).expect(200);
    let grown = "sum by (pipeline) (max by (pipeline, stage, reason) (increase(redrive_deaths_total[1h])))";
    wait::until("the deaths", || told(grown).get("{\"pipeline\":\"test\"}").is_some_and(|n| *n >= 30.0));
    daemon.stop().expect(0);
}

fn one(n: f64) -> BTreeMap<String, f64> {
    [("{}".to_owned(), n)].into()
}
