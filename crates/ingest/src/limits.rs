//! Limits for the process that parses: what a bomb may take before the kernel ends it.
#![expect(unsafe_code, reason = "resource limits and prctl(2) have no safe interface in std")]

use std::io;

/// What the parsing process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Bytes of address space. Default: 1 GiB. Sixteen times the largest file is a fair measure.
    pub address_space: u64,
    /// Seconds of processor time for one request; see [`grant_cpu`]. Default: 20.
    pub cpu_seconds: u64,
    /// Open files. Default: 16.
    pub open_files: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self { address_space: 1 << 30, cpu_seconds: 20, open_files: 16 }
    }
}

/// Puts limits on this process, for good: memory, processor time, open files; no written files, no core files.
///
/// On Linux it also gives up gaining privileges and asks to be killed when the thread that started it ends (`parent`
/// is the id of the process that did; if it is gone already, that is an error).
///
/// # Errors
///
/// What the system answered when it refused.
pub fn apply(limits: &ProcessLimits, parent: Option<u32>) -> io::Result<()> {
    set(libc::RLIMIT_CORE, 0, 0)?;
    set(libc::RLIMIT_FSIZE, 0, 0)?;
    set(libc::RLIMIT_NOFILE, limits.open_files, limits.open_files)?;
    set(libc::RLIMIT_AS, limits.address_space, limits.address_space)?;
    #[cfg(target_os = "linux")]
    bind(parent)?;
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
    grant_cpu(limits.cpu_seconds)
}

/// More seconds than this are as good as no limit.
const MOST_SECONDS: u64 = 1_000_000_000;

/// Allows so many seconds of processor time from now on; past them the process is killed (`SIGXCPU`).
///
/// # Errors
///
/// What the system answered when it refused.
pub fn grant_cpu(seconds: u64) -> io::Result<()> {
    // The kernel counts in billionths of a second and does not mind that more than this overflows.
    let limit = used_cpu()?.saturating_add(seconds.min(MOST_SECONDS)).saturating_add(1);
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a valid value that outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_CPU, &raw mut now) } != 0 {
        return Err(io::Error::last_os_error());
    }
    set(libc::RLIMIT_CPU, limit.min(now.rlim_max), now.rlim_max)
}

/// Whole seconds of processor time that this process has used.
fn used_cpu() -> io::Result<u64> {
    // SAFETY: all-zero bytes are a valid value of this plain C structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a valid value that outlives the call.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec).unwrap_or(0))
}

#[cfg(target_os = "linux")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_os = "linux"))]
type Resource = libc::c_int;

/// Sets a limit; never above the hard one that is there.
fn set(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a valid value that outlives the call.
    if unsafe { libc::getrlimit(resource, &raw mut now) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let wanted = libc::rlimit { rlim_cur: soft.min(now.rlim_max), rlim_max: hard.min(now.rlim_max) };
    // SAFETY: the pointer is to a valid value that outlives the call.
    if unsafe { libc::setrlimit(resource, &raw const wanted) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn bind(parent: Option<u32>) -> io::Result<()> {
    // SAFETY: prctl with these options takes numbers only.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1 as libc::c_ulong, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::prctl(libc::PR_SET_DUMPABLE, 0 as libc::c_ulong, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // The parent may have died before the signal was asked for.
    // SAFETY: getppid takes nothing and cannot fail.
    let now = unsafe { libc::getppid() }.unsigned_abs();
    match parent {
        Some(parent) if parent != now => Err(io::Error::other("the process that started this one is gone")),
        _ => Ok(()),
    }
}
