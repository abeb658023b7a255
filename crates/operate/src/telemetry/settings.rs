//! The variables of OpenTelemetry, as its specification names them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use redrive_core::secret::Secret;
use redrive_core::trace::Sampler;

use crate::error::{Error, Result};

/// What the names of the exporter's variables begin with.
const PREFIX: &str = "OTEL_EXPORTER_OTLP_";
/// Those of logs, which are not sent.
const LOGS: &str = "OTEL_EXPORTER_OTLP_LOGS_";
/// The one encoding that is sent.
const JSON: &str = "http/json";
/// Most attributes that are told of the process.
const MOST_ATTRIBUTES: usize = 64;
/// Most bytes of such an attribute.
const MOST_BYTES: usize = 1_024;

/// What is sent, where, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Where spans go; `None`: they are not made.
    pub traces: Option<Endpoint>,
    /// Where metrics go; `None`: they are not read.
    pub metrics: Option<Endpoint>,
    /// What is told of the process, by name.
    pub resource: BTreeMap<String, String>,
    /// Which traces are kept.
    pub sampler: Sampler,
    /// Whether services are told which trace they are called in.
    pub tells_services: bool,
    /// How often metrics are sent.
    pub interval: Duration,
    /// How long a span waits for others at most.
    pub delay: Duration,
    /// Most spans that wait.
    pub queue: usize,
    /// Most spans of one request.
    pub batch: usize,
}

/// Where one kind of signal goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The whole address.
    pub url: String,
    /// Headers, whose values are secret.
    pub headers: Vec<(String, Secret)>,
    /// How long a request may take.
    pub timeout: Duration,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads the settings from these variables of the environment; `None` when nothing is to be sent.
    ///
    /// # Errors
    /// With every variable that cannot be taken, unless nothing is to be sent.
    pub fn read(variables: impl Iterator<Item = (String, String)>) -> Result<Option<Self>> {
        let own = variables.filter(|(name, value)| name.starts_with("OTEL_") && !value.trim().is_empty());
        let mut given = Given { own: own.collect(), problems: Vec::new() };
        let settings = given.settings();
        match given.problems.as_slice() {
            [] => Ok(settings),
            problems if settings.is_some() => Err(Error::wrong(problems.join("; ")).hint(
                "docs/monitoring.md has the variables; without OTEL_EXPORTER_OTLP_ENDPOINT nothing is sent",
            )),
            _ => Ok(None),
        }
    }
}

/// The variables that have a value, and what is wrong with them.
struct Given {
    own: BTreeMap<String, String>,
    problems: Vec<String>,
}

/// What a signal's own variables have in place of the general ones.
#[derive(Clone, Copy)]
struct Signal {
    word: &'static str,
    path: &'static str,
}

const TRACES: Signal = Signal { word: "TRACES", path: "v1/traces" };
const METRICS: Signal = Signal { word: "METRICS", path: "v1/metrics" };

impl Given {
    fn get(&self, name: &str) -> Option<&str> {
        self.own.get(name).map(|value| value.trim())
    }

    fn settings(&mut self) -> Option<Settings> {
        match self.one_of("OTEL_SDK_DISABLED", &["true", "false"], "false").as_str() {
            "true" => return None,
            _ => self.strangers(),
        }
        let (traces, metrics) = (self.endpoint(TRACES), self.endpoint(METRICS));
        let settings = Settings {
            resource: self.resource(),
            sampler: self.sampler(),
            tells_services: self.propagates(),
            interval: self.millis("OTEL_METRIC_EXPORT_INTERVAL", 60_000, 100),
            delay: self.millis("OTEL_BSP_SCHEDULE_DELAY", 1_000, 10),
            queue: self.number("OTEL_BSP_MAX_QUEUE_SIZE", 16_384, 1, 1_000_000),
            batch: self.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512, 1, 10_000),
            traces,
            metrics,
        };
        (settings.traces.is_some() || settings.metrics.is_some()).then_some(settings)
    }

    /// Variables of the exporter that would be passed over in silence.
    fn strangers(&mut self) {
        let known = |name: &str| {
            let rest = name.strip_prefix(PREFIX).unwrap_or(name);
            let rest = rest.strip_prefix("TRACES_").or_else(|| rest.strip_prefix("METRICS_")).unwrap_or(rest);
            match rest {
                "ENDPOINT" | "HEADERS" | "TIMEOUT" | "PROTOCOL" | "COMPRESSION" | "INSECURE" => true,
                "TEMPORALITY_PREFERENCE" | "DEFAULT_HISTOGRAM_AGGREGATION" => name.contains("METRICS_"),
                _ => false,
            }
        };
        let strange = |name: &&String| name.starts_with(PREFIX) && !name.starts_with(LOGS) && !known(name);
        let told = self.own.keys().filter(strange).map(|name| match name.ends_with("CERTIFICATE") || name.ends_with("KEY") {
            true => format!("{name}: certificates of one's own are not supported; a collector beside this process can have them"),
            false => format!("{name}: there is no such variable"),
        });
        let told: Vec<String> = told.collect();
        self.problems.extend(told);
        self.only("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative");
        self.only("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "explicit_bucket_histogram");
    }

    fn endpoint(&mut self, signal: Signal) -> Option<Endpoint> {
        let Signal { word, path } = signal;
        if self.one_of(&format!("OTEL_{word}_EXPORTER"), &["otlp", "none"], "otlp") == "none" {
            return None;
        }
        let own = format!("{PREFIX}{word}_ENDPOINT");
        let (name, url) = match (self.get(&own), self.get("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            (Some(own_url), _) => (own, own_url.to_owned()),
            (None, Some(base)) => {
                ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), format!("{}/{path}", base.trim_end_matches('/')))
            }
            (None, None) => return None,
        };
        if !["http://", "https://"].iter().any(|scheme| url.to_ascii_lowercase().starts_with(scheme)) {
            self.problems.push(format!("{name}: expected an address like http://127.0.0.1:4318"));
        }
        let of = |given: &Self, what: &str| {
            let own = format!("{PREFIX}{word}_{what}");
            if given.get(&own).is_some() { own } else { format!("{PREFIX}{what}") }
        };
        let (protocol, compression) = (of(self, "PROTOCOL"), of(self, "COMPRESSION"));
        self.only(&protocol, JSON);
        self.only(&compression, "none");
        let timeout = of(self, "TIMEOUT");
        let timeout = self.millis(&timeout, 10_000, 1);
        let headers = of(self, "HEADERS");
        let headers = self.pairs(&headers, true);
        let headers = headers.into_iter().map(|(name, value)| (name, Secret::from(value))).collect();
        Some(Endpoint { url, headers, timeout })
    }

    fn resource(&mut self) -> BTreeMap<String, String> {
        let mut resource: BTreeMap<String, String> = BTreeMap::from([
            ("service.name".to_owned(), "redrive".to_owned()),
            ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        let given = self.pairs("OTEL_RESOURCE_ATTRIBUTES", false);
        if given.len() > MOST_ATTRIBUTES
            || given.iter().any(|(name, value)| name.len() + value.len() > MOST_BYTES)
        {
            let most = format!("at most {MOST_ATTRIBUTES} attributes of {MOST_BYTES} bytes");
            self.problems.push(format!("OTEL_RESOURCE_ATTRIBUTES: {most}"));
        }
        resource.extend(given);
        if let Some(name) = self.get("OTEL_SERVICE_NAME") {
            resource.insert("service.name".to_owned(), name.chars().take(MOST_BYTES).collect());
        }
        resource
    }

    fn sampler(&mut self) -> Sampler {
        let known = [
            "parentbased_always_on",
            "parentbased_always_off",
            "parentbased_traceidratio",
            "always_on",
            "always_off",
            "traceidratio",
        ];
        // An item is called for by nobody who has a trace, so that those that go by a parent go by what they say without one.
        let chosen = self.one_of("OTEL_TRACES_SAMPLER", &known, "always_on");
        match chosen.trim_start_matches("parentbased_") {
            "always_off" => Sampler::NONE,
            "traceidratio" => {
                let share = self.get("OTEL_TRACES_SAMPLER_ARG").unwrap_or("1").to_owned();
                share.parse().ok().and_then(Sampler::share).unwrap_or_else(|| {
                    self.problems
                        .push(format!("OTEL_TRACES_SAMPLER_ARG={share:?}: expected a share from 0 to 1"));
                    Sampler::NONE
                })
            }
            _ => Sampler::ALL,
        }
    }

    fn propagates(&mut self) -> bool {
        let told = self.get("OTEL_PROPAGATORS").unwrap_or("tracecontext,baggage").to_owned();
        let told: Vec<&str> = told.split(',').map(str::trim).collect();
        if let Some(other) = told.iter().find(|one| !["tracecontext", "baggage", "none"].contains(one)) {
            let problem = format!("OTEL_PROPAGATORS: {other:?} is not supported; tracecontext is, and none");
            self.problems.push(problem);
        }
        told.contains(&"tracecontext")
    }

    /// `NAME=VALUE,NAME=VALUE`, the values as in an address. Of what is secret nothing is repeated.
    fn pairs(&mut self, name: &str, secret: bool) -> Vec<(String, String)> {
        let text = self.get(name).unwrap_or_default().to_owned();
        let mut pairs = Vec::new();
        for (at, part) in text.split(',').map(str::trim).filter(|part| !part.is_empty()).enumerate() {
            let pair = part.split_once('=').and_then(|(name, value)| {
                let name = name.trim();
                (!name.is_empty()).then_some(())?;
                Some((name.to_owned(), unescaped(value.trim())?))
            });
            match pair {
                Some(pair) => pairs.push(pair),
                None if secret => self.problems.push(format!(
                    "{name}: part {} is not NAME=VALUE (special characters of a value are written as in an address: %20)",
                    at + 1
                )),
                None => self.problems.push(format!("{name}: {part:?} is not NAME=VALUE")),
            }
        }
        pairs
    }

    /// One of these words; with none said, the usual one.
    fn one_of(&mut self, name: &str, known: &[&str], usual: &str) -> String {
        let said = self.get(name).unwrap_or(usual).to_ascii_lowercase();
        if !known.contains(&said.as_str()) {
            self.problems.push(format!("{name}={said:?}: expected {}", known.join(", ")));
        }
        said
    }

    /// A variable for which there is one value that can be done.
    fn only(&mut self, name: &str, value: &str) {
        if let Some(said) = self.get(name).filter(|said| !said.eq_ignore_ascii_case(value)) {
            let hint = match value {
                JSON => "; the same collector takes it at the same port as http/protobuf, 4318",
                _ => "",
            };
            let problem = format!("{name}={said:?}: not supported; {value} is{hint}");
            // Traces and metrics go by the same variable where neither has one of its own.
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
    }

    fn millis(&mut self, name: &str, usual: u64, least: u64) -> Duration {
        const MOST: u64 = 3_600_000;
        Duration::from_millis(self.whole(name, usual, least, MOST))
    }

    fn number(&mut self, name: &str, usual: u64, least: u64, most: u64) -> usize {
        usize::try_from(self.whole(name, usual, least, most)).unwrap_or(usize::MAX)
    }

    fn whole(&mut self, name: &str, usual: u64, least: u64, most: u64) -> u64 {
        let Some(said) = self.get(name).map(str::to_owned) else { return usual };
        let number = said.parse().ok().filter(|number| (least..=most).contains(number));
        number.unwrap_or_else(|| {
            let problem = format!("{name}={said:?}: expected a whole number from {least} to {most}");
            self.problems.push(problem);
            usual
        })
    }
}

/// A text with `%20` and its like in it, as it is meant.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");

    fn read(given: &[(&str, &str)]) -> Result<Option<Settings>> {
        Settings::read(given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    fn configured(more: &[(&str, &str)]) -> Settings {
        let all: Vec<_> = [THERE].iter().chain(more).copied().collect();
        read(&all).expect("good").expect("configured")
    }

    fn refused(more: &[(&str, &str)]) -> String {
        let all: Vec<_> = [THERE].iter().chain(more).copied().collect();
        read(&all).expect_err("refused").message
    }

    #[test]
    fn nothing_is_sent_unless_an_address_is_there() {
        for given in [
            &[][..],
            &[("OTEL_SERVICE_NAME", "x"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[THERE, ("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            &[THERE, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")],
        ] {
            assert_eq!(read(given), Ok(None), "{given:?}");
        }
    }

    #[test]
    fn addresses_are_made_as_the_specification_says() {
        let settings = configured(&[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://m.example/in")]);
        assert_eq!(settings.traces.expect("traces").url, "http://127.0.0.1:4318/v1/traces");
        assert_eq!(settings.metrics.expect("metrics").url, "https://m.example/in");
        let only = read(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:1/v1/traces")]);
        assert_eq!(only.expect("good").expect("configured").metrics, None);
    }

    #[test]
    fn what_one_signal_says_goes_before_what_both_do() {
        let settings = configured(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc, x-a=1"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-b=2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
        ]);
        let traces = settings.traces.expect("traces");
        assert_eq!(traces.headers[0], ("authorization".to_owned(), Secret::from("Bearer abc")));
        assert_eq!(traces.timeout, Duration::from_millis(250));
        assert_eq!(settings.metrics.expect("metrics").headers, [("x-b".to_owned(), Secret::from("2"))]);
        assert!(!format!("{traces:?}").contains("abc"));
    }

    #[test]
    fn the_process_is_named_as_it_is_told() {
        let usual = configured(&[]).resource;
        assert_eq!(usual["service.name"], "redrive");
        let told = configured(&[
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,deployment.environment.name=te%20st"),
            ("OTEL_SERVICE_NAME", "b"),
        ]);
        assert_eq!(told.resource["service.name"], "b");
        assert_eq!(told.resource["deployment.environment.name"], "te st");
    }

    #[test]
    fn samplers_are_those_of_the_specification() {
        let of = |name, arg| {
            configured(&[("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", arg)]).sampler
        };
        assert_eq!(configured(&[]).sampler, Sampler::ALL);
        assert_eq!(of("parentbased_always_off", "1"), Sampler::NONE);
        assert_eq!(Some(of("traceidratio", "0.25")), Sampler::share(0.25));
        assert_eq!(Some(of("parentbased_traceidratio", "0.5")), Sampler::share(0.5));
        assert!(
            refused(&[("OTEL_TRACES_SAMPLER", "jaeger_remote")]).contains("expected parentbased_always_on")
        );
        let wrong = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")];
        assert!(refused(&wrong).contains("a share from 0 to 1"));
    }

    #[test]
    fn what_cannot_be_done_is_refused_by_name() {
        let table = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/json is; the same collector takes it"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf", "not supported"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "none is"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem", "certificates of one's own are not supported"),
            ("OTEL_EXPORTER_OTLP_ENDPIONT", "http://x", "there is no such variable"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta", "cumulative is"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "localhost:4317", "an address like"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "a whole number from 1"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0", "a whole number from 100"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a", "is not NAME=VALUE"),
            ("OTEL_PROPAGATORS", "b3", "tracecontext is, and none"),
            ("OTEL_SDK_DISABLED", "perhaps", "expected true, false"),
            ("OTEL_METRICS_EXPORTER", "prometheus", "expected otlp, none"),
        ];
        for (name, value, why) in table {
            let told = refused(&[(name, value)]);
            assert!(told.contains(name) && told.contains(why), "{name}: {told}");
        }
        let secret = refused(&[("OTEL_EXPORTER_OTLP_HEADERS", "a=b, hunter2-hunter2")]);
        assert!(secret.contains("part 2 is not NAME=VALUE") && !secret.contains("hunter2"), "{secret}");
        assert!(!refused(&[("OTEL_EXPORTER_OTLP_HEADERS", "a=hunter2%zz")]).contains("hunter2"));
    }

    #[test]
    fn variables_of_other_signals_are_passed_over() {
        configured(&[("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc"), ("OTEL_PYTHON_LOG_LEVEL", "x")]);
        assert!(!configured(&[("OTEL_PROPAGATORS", "none")]).tells_services);
    }
}
