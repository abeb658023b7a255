//! The binary run by somebody whom permissions mean something to.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::Place;

/// The user and group that own nothing.
const NOBODY: u32 = 65_534;

/// Whether these tests run as root, whom permissions mean nothing to.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").expect("Linux").uid() == 0
}

/// The binary, in a place: root becomes nobody; others are somebody already.
pub fn guest(place: &Place, args: &[&str]) -> Command {
    // The way to the usual binary may be closed to others.
    let program = place.path("redrive");
    if !program.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_redrive"), &program).expect("copied");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
    }
    let mut command = Command::new(program);
    command.args(args).current_dir(place.path("")).env_remove("REDRIVE_STORE").env_remove("REDRIVE_LOG");
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
