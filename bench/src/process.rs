//! What the kernel says of this process and of the machine.

use std::fs;

/// CPU time of all threads of this process, in seconds (ticks of 10 ms).
pub fn cpu_seconds() -> f64 {
    cpu_seconds_of("self")
}

/// CPU time of all threads of a process, by its number; 0 when there is none.
pub fn cpu_seconds_of(pid: &str) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Bytes that this process has caused to be written to disk.
pub fn bytes_written() -> f64 {
    field("/proc/self/io", "write_bytes:")
}

/// Highest resident memory of this process so far, in MB.
pub fn peak_rss_mb() -> f64 {
    field("/proc/self/status", "VmHWM:") / 1024.0
}

/// Load of the last minute.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

fn field(file: &str, name: &str) -> f64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or(0.0)
}
