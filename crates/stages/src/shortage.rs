//! What the machine, not a service or an item, has too little of: files, memory, processes, ports, room.
//!
//! It is nobody's fault and passes. Nothing is spent by it: it is told as a throttle, which waits and comes again.

use std::io;

/// Whether starting a process or a connection failed for want of something of the machine's own.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    let codes = [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOMEM,
        libc::EAGAIN,
        libc::ENOSPC,
        libc::ENOBUFS,
        libc::EADDRNOTAVAIL,
    ];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
        || error.kind() == io::ErrorKind::OutOfMemory
}
