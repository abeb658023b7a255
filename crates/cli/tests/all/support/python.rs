//! Programs in Python: the environments that `./check test` makes for them, and one that ends with the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The Python of an environment with one package of PyPI, or the one that a variable names. It is an error where it is missing.
pub fn python_with(package: &str, version: &str, variable: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let made = || cache.unwrap_or_else(home).join(format!("redrive/{package}-{version}/bin/python"));
    let python = std::env::var_os(variable).map_or_else(made, PathBuf::from);
    assert!(
        python.exists(),
        "{package} is not at {}: `./check test` installs it, or name a Python that has `{package}` with {variable}",
        python.display()
    );
    python
}

/// A program that runs.
pub struct Script(Child);

impl Script {
    /// Starts one with these variables.
    pub fn start(python: &Path, file: &Path, env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(python);
        command.arg(file).envs(env.iter().copied()).stdin(Stdio::null());
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("Python starts"))
    }

    /// Kills it at once.
    pub fn kill(self) {
        drop(self);
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("a child of ours").is_some()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
