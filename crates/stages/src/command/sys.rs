//! The calls to the operating system that need `unsafe`.
#![expect(
    unsafe_code,
    reason = "process groups, parent-death signals and poll(2) have no safe interface in std"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use tokio::process::Command;

/// Gives the command a process group of its own, and ends it when the thread that starts it ends.
pub(super) fn isolate(command: &mut Command) {
    command.process_group(0);
    #[cfg(target_os = "linux")]
    {
        let parent = std::process::id();
        let die_with_parent = move || {
            // SAFETY: prctl and getppid are plain system calls, allowed between fork and exec; nothing is allocated.
            unsafe {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) != 0 {
                    return Err(io::Error::last_os_error());
                }
                // The parent may have died before the signal was asked for.
                if libc::getppid().unsigned_abs() != parent {
                    libc::_exit(1);
                }
            }
            Ok(())
        };
        // SAFETY: the closure keeps to what is allowed between fork and exec.
        unsafe { command.pre_exec(die_with_parent) };
    }
}

/// Kills a process group. That it is gone already is no error.
pub(super) fn kill_group(leader: u32) {
    let Some(group) = libc::pid_t::try_from(leader).ok().filter(|group| *group > 1) else { return };
    // SAFETY: kill takes numbers only; the number is that of a group and not one with a special meaning.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// Tells, without waiting, whether a read would return at once: with data, or with the end.
pub(super) fn has_input(fd: BorrowedFd<'_>) -> bool {
    let mut asked = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry is passed and outlives the call; a timeout of zero does not wait.
    unsafe { libc::poll(&raw mut asked, 1, 0) > 0 }
}
