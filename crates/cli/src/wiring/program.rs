//! Where the program of a command is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Where programs are looked for when `PATH` is not set, as the system does.
const USUAL_PATH: &str = "/bin:/usr/bin";

/// The folder that a command runs in: `cwd`, below the folder of its pipeline.
pub fn command_folder(cwd: Option<&str>, folder: &Path) -> PathBuf {
    cwd.map_or_else(|| folder.to_owned(), |cwd| folder.join(cwd))
}

/// Finds the program of a command that runs in `place`, as it is found when it is started: a name with a slash is a path
/// below `place`, any other is looked for in `PATH`.
///
/// # Errors
/// Why it cannot be started.
pub fn find_program(program: &str, place: &Path) -> Result<PathBuf, String> {
    find_in(program, place, std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into()))
}

fn find_in(program: &str, place: &Path, path: OsString) -> Result<PathBuf, String> {
    if !place.is_dir() {
        return Err(format!("there is no folder {} to run {program} in", place.display()));
    }
    if program.contains('/') {
        let whole = place.join(program);
        return match () {
            () if may_be_run(&whole) => Ok(whole),
            () if whole.is_file() => {
                Err(format!("{} is not executable; `chmod +x` makes it so", whole.display()))
            }
            () => Err(format!("there is no program {}", whole.display())),
        };
    }
    // A relative folder of `PATH` is one below the place, too.
    let mut found = std::env::split_paths(&path).map(|folder| place.join(folder).join(program));
    found.find(|whole| may_be_run(whole)).ok_or_else(|| format!("there is no program {program} in PATH"))
}

fn may_be_run(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn executable(path: &Path) {
        std::fs::write(path, "#!/bin/sh\n").expect("written");
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("changed");
    }

    #[test]
    fn a_program_is_found_where_it_is_started_from() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path();
        std::fs::create_dir_all(place.join("bin/tool")).expect("made");
        executable(&place.join("bin/run"));
        executable(&place.join("here"));
        std::fs::write(place.join("plain"), "").expect("written");
        let find = |program: &str, path: &str| find_in(program, place, path.into());
        assert_eq!(find("./here", ""), Ok(place.join("./here")));
        assert_eq!(find("bin/run", ""), Ok(place.join("bin/run")));
        assert_eq!(find("run", "/no-such-folder:bin"), Ok(place.join("bin/run")));
        let whole = place.join("bin/run").display().to_string();
        assert_eq!(find(&whole, ""), Ok(place.join("bin/run")));
        for (program, path, why) in [
            ("here", "bin", "there is no program here in PATH"),
            ("tool", "bin", "there is no program tool in PATH"),
            ("./run", "bin", "there is no program "),
            ("bin/tool", "", "there is no program "),
            ("./plain", "", "plain is not executable; `chmod +x`"),
        ] {
            let told = find(program, path).expect_err(program);
            assert!(told.contains(why), "{program}: {told}");
        }
        let told = find_in("sh", &place.join("gone"), "/bin".into()).expect_err("no folder");
        assert!(told.contains("gone to run sh in"), "{told}");
    }
}
