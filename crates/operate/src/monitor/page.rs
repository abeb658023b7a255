//! The text format of Prometheus, version 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::families::{ALL, Family, Kind};

/// The content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Clone, Default)]
struct Sample {
    value: f64,
    /// Of a histogram: how many were counted at each bound, and above the last.
    buckets: Vec<u64>,
}

/// One value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Told<'a> {
    /// The values of its labels.
    pub labels: &'a [String],
    /// The value; of a histogram, the sum.
    pub value: f64,
    /// Of a histogram: how many there were up to each bound, and above the last.
    pub buckets: &'a [u64],
}

/// What is told, added up by labels.
#[derive(Debug, Clone, Default)]
pub struct Page(BTreeMap<&'static str, BTreeMap<Vec<String>, Sample>>);

impl Page {
    fn sample(&mut self, family: &Family, labels: &[&str]) -> &mut Sample {
        debug_assert_eq!(family.labels.len(), labels.len(), "{}", family.name);
        let key = labels.iter().map(|label| (*label).to_owned()).collect();
        let samples = self.0.entry(family.name).or_default();
        let sample = samples.entry(key).or_default();
        if let Kind::Histogram(bounds) = family.kind {
            sample.buckets.resize(bounds.len() + 1, 0);
        }
        sample
    }

    /// Adds to a value; adding nothing has it told as 0.
    pub fn add(&mut self, family: &Family, labels: &[&str], n: f64) {
        self.sample(family, labels).value += n;
    }

    /// Raises a value to at least this.
    pub fn raise(&mut self, family: &Family, labels: &[&str], n: f64) {
        let sample = self.sample(family, labels);
        sample.value = sample.value.max(n);
    }

    /// Counts so many of at most this size in a histogram.
    pub fn observe(&mut self, family: &Family, labels: &[&str], size: f64, n: u64) {
        let Kind::Histogram(bounds) = family.kind else { return };
        let at = bounds.iter().position(|bound| size <= *bound).unwrap_or(bounds.len());
        if let Some(bucket) = self.sample(family, labels).buckets.get_mut(at) {
            *bucket += n;
        }
    }

    /// What is told of every metric, those left out of which nothing is.
    pub fn told(&self) -> impl Iterator<Item = (&'static Family, Vec<Told<'_>>)> {
        ALL.iter().filter_map(|family| {
            let samples = self.0.get(family.name)?.iter();
            let told = samples.map(|(labels, sample)| Told {
                labels,
                value: sample.value,
                buckets: &sample.buckets,
            });
            Some((family, told.collect()))
        })
    }

    /// The text: every metric with its help and its type, also where nothing is told of it.
    #[must_use]
    pub fn text(&self) -> String {
        self.text_of("")
    }

    /// The same of the metrics whose names begin so.
    #[must_use]
    pub fn text_of(&self, beginning: &str) -> String {
        let mut text = String::new();
        for family in ALL.iter().filter(|family| family.name.starts_with(beginning)) {
            // Writing into a text cannot fail.
            let _ = writeln!(text, "# HELP {} {}", family.name, family.help);
            let _ = writeln!(text, "# TYPE {} {}", family.name, family.kind.word());
            for (labels, sample) in self.0.get(family.name).into_iter().flatten() {
                match family.kind {
                    Kind::Counter | Kind::Gauge => {
                        let _ =
                            writeln!(text, "{}{} {}", family.name, named(family, labels, None), sample.value);
                    }
                    Kind::Histogram(bounds) => histogram(&mut text, family, bounds, labels, sample),
                }
            }
        }
        text
    }
}

fn histogram(text: &mut String, family: &Family, bounds: &[f64], labels: &[String], sample: &Sample) {
    let name = family.name;
    let mut all = 0;
    let ends = bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
    for (end, n) in ends.zip(&sample.buckets) {
        all += n;
        let _ = writeln!(text, "{name}_bucket{} {all}", named(family, labels, Some(&end)));
    }
    let labels = named(family, labels, None);
    let _ = writeln!(text, "{name}_sum{labels} {}", sample.value);
    let _ = writeln!(text, "{name}_count{labels} {all}");
}

fn named(family: &Family, values: &[String], le: Option<&str>) -> String {
    let values = family.labels.iter().copied().zip(values.iter().map(String::as_str));
    let pairs: Vec<String> = values
        .chain(le.map(|le| ("le", le)))
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::families::{BUILD, HEALED, ITEMS};
    use super::*;

    fn told(page: &Page, name: &str) -> Vec<String> {
        let text = page.text();
        text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
    }

    #[test]
    fn labels_are_escaped_and_values_added_up() {
        let mut page = Page::default();
        page.add(&BUILD, &["a\"b\\c\nd"], 1.0);
        page.add(&ITEMS, &["p", "s", "dead"], 2.0);
        page.add(&ITEMS, &["p", "s", "dead"], 3.0);
        assert_eq!(told(&page, "redrive_build"), [r#"redrive_build_info{version="a\"b\\c\nd"} 1"#]);
        assert_eq!(
            told(&page, "redrive_items{"),
            [r#"redrive_items{pipeline="p",stage="s",state="dead"} 5"#]
        );
    }

    #[test]
    fn the_buckets_of_a_histogram_hold_those_below_them() {
        let mut page = Page::default();
        page.observe(&HEALED, &["p", "s"], 5.0, 2);
        page.observe(&HEALED, &["p", "s"], 1e9, 1);
        page.add(&HEALED, &["p", "s"], 7.5);
        let lines = told(&page, "redrive_time_to");
        assert_eq!(
            lines[0],
            r#"redrive_time_to_successful_retry_seconds_bucket{pipeline="p",stage="s",le="1"} 0"#
        );
        assert_eq!(
            lines[1],
            r#"redrive_time_to_successful_retry_seconds_bucket{pipeline="p",stage="s",le="5"} 2"#
        );
        let end = &lines[lines.len() - 3..];
        assert_eq!(
            end[0],
            r#"redrive_time_to_successful_retry_seconds_bucket{pipeline="p",stage="s",le="+Inf"} 3"#
        );
        assert_eq!(end[1], r#"redrive_time_to_successful_retry_seconds_sum{pipeline="p",stage="s"} 7.5"#);
        assert_eq!(end[2], r#"redrive_time_to_successful_retry_seconds_count{pipeline="p",stage="s"} 3"#);
    }

    #[test]
    fn every_metric_has_a_name_of_its_own_and_counters_say_so() {
        let names: std::collections::BTreeSet<_> = ALL.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), ALL.len());
        for family in ALL {
            assert_eq!(family.kind == Kind::Counter, family.name.ends_with("_total"), "{}", family.name);
        }
    }
}
