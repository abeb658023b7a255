//! Python packages that others are measured with, each set in an environment of its own in the user's cache.

use std::fs;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::Failure;

/// Where the scripts are.
pub const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The Python of an environment that has what `requirements.txt` in the folder of this name says.
pub async fn environment(name: &str) -> Result<PathBuf, Failure> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache =
        cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache"))).ok_or("no home folder")?;
    let place = cache.join("redrive").join(format!("bench-{}", name.replace('/', "-")));
    let wanted = Path::new(HERE).join(name).join("requirements.txt");
    let (mark, python) = (place.join("installed"), place.join("bin").join("python"));
    let text = fs::read_to_string(&wanted)?;
    if fs::read_to_string(&mark).is_ok_and(|had| had == text) {
        return Ok(python);
    }
    ran(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place)).await?;
    ran(Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(&wanted)).await?;
    fs::write(mark, text)?;
    Ok(python)
}

/// Runs a command; its last words are the error when it fails.
pub async fn ran(command: &mut Command) -> Result<(), Failure> {
    let output = command.output().await?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(said.lines().last().unwrap_or("it failed").to_owned().into())
}
