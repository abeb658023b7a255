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

/// A process as the kernel counts it. One that has ended keeps this until its parent has asked for its end.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// Whether it has ended.
    pub ended: bool,
    /// The process that started it.
    pub parent: u32,
    /// Its own CPU time, in seconds (ticks of 10 ms).
    pub own: f64,
    /// CPU time of those of its children whose end it has asked for.
    pub children: f64,
}

/// How a process stands; `None` when there is none.
pub fn standing(pid: u32) -> Option<Standing> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0) / 100.0;
    Some(Standing {
        ended: fields.first() == Some(&"Z"),
        parent: fields.get(1)?.parse().ok()?,
        own: ticks(11) + ticks(12),
        children: ticks(13) + ticks(14),
    })
}

/// The processes that this one started.
pub fn children_of(pid: u32) -> Vec<u32> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|one| standing(*one).is_some_and(|standing| standing.parent == pid)).collect()
}

/// What a process was told, from its first argument on.
pub fn told(pid: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    text.split('\0').skip(1).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Highest resident memory of a process so far, in MB; 0 when it has ended.
pub fn peak_rss_mb_of(pid: u32) -> f64 {
    field(&format!("/proc/{pid}/status"), "VmHWM:") / 1024.0
}

/// Resident memory of a process now, in MB; 0 when it has ended.
pub fn rss_mb_of(pid: u32) -> f64 {
    field(&format!("/proc/{pid}/status"), "VmRSS:") / 1024.0
}
