//! Folders whose programs may be started, where not any program may.
//!
//! A program counts by where its file really is, after all links: a link that leads out of the folders leads nowhere. The
//! search path of the environment is not looked at.

use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Folders whose programs may be started; none of them by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folders(Vec<PathBuf>);

/// A program of an allowed folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its file; no link is in the path.
    pub program: PathBuf,
    /// The allowed folder that it is in, which it is started in.
    pub folder: PathBuf,
}

impl Folders {
    /// Takes these folders as they are now: what their names lead to later does not count.
    ///
    /// # Errors
    /// Which of them is no folder.
    pub fn new(named: &[PathBuf]) -> Result<Self, String> {
        let real = |named: &PathBuf| {
            let folder = std::fs::canonicalize(named).ok().filter(|folder| folder.is_dir());
            folder.ok_or_else(|| format!("{} is no folder", named.display()))
        };
        named.iter().map(real).collect::<Result<_, _>>().map(Self)
    }

    /// Finds a program by a name, a path below one of the folders, or a whole path. The first folder that has it counts.
    ///
    /// # Errors
    /// Why it may not be started, in words that name what would allow it.
    pub fn find(&self, program: &str) -> Result<Found, String> {
        if self.0.is_empty() {
            return Err(format!(
                "{program} is started only where --allow-commands DIR names its folder, and this process was given none"
            ));
        }
        if Path::new(program).components().any(|part| part == Component::ParentDir) {
            return Err(format!(
                "{program} has `..` in it, which no path into a folder of --allow-commands has"
            ));
        }
        // A whole path takes the place of the folder.
        let mut wrong = None;
        for place in self.0.iter().map(|folder| folder.join(program)) {
            let Ok(file) = std::fs::canonicalize(&place) else { continue };
            match self.judged(program, file) {
                Ok(found) => return Ok(found),
                Err(why) => wrong = wrong.or(Some(why)),
            }
        }
        Err(wrong.unwrap_or_else(|| {
            format!("{program} is in no folder that --allow-commands names, and is looked for nowhere else")
        }))
    }

    /// Looks at the file that a name led to.
    fn judged(&self, program: &str, file: PathBuf) -> Result<Found, String> {
        let Some(folder) = self.0.iter().find(|folder| file.starts_with(folder)) else {
            return Err(format!("{program} leads out of the folders that --allow-commands names"));
        };
        let may_run =
            std::fs::metadata(&file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
        match may_run {
            true => Ok(Found { folder: folder.clone(), program: file }),
            false => Err(format!("{program} is no program: `chmod +x` makes a file one")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn program(path: &Path) {
        std::fs::write(path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_program_counts_by_where_its_file_is() {
        let root = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(root.path()).unwrap();
        let (one, two, out) = (root.join("one"), root.join("two"), root.join("one-more"));
        for folder in [&one.join("sub"), &two, &out] {
            std::fs::create_dir_all(folder).unwrap();
        }
        for path in
            [one.join("tool"), one.join("sub/deep"), two.join("tool"), two.join("other"), out.join("evil")]
        {
            program(&path);
        }
        std::fs::write(one.join("plain"), "").unwrap();
        symlink("tool", one.join("alias")).unwrap();
        symlink(two.join("other"), one.join("across")).unwrap();
        symlink(out.join("evil"), one.join("leak")).unwrap();
        symlink(&out, one.join("folder")).unwrap();
        let folders = Folders::new(&[one.clone(), two.clone()]).unwrap();
        let whole = two.join("tool").display().to_string();
        for (name, file, folder) in [
            ("tool", one.join("tool"), &one),
            ("./tool", one.join("tool"), &one),
            ("alias", one.join("tool"), &one),
            ("sub/deep", one.join("sub/deep"), &one),
            ("other", two.join("other"), &two),
            ("across", two.join("other"), &two),
            (&whole, two.join("tool"), &two),
        ] {
            let found = Found { program: file, folder: folder.clone() };
            assert_eq!(folders.find(name), Ok(found), "{name}");
        }
        let outside = out.join("evil").display().to_string();
        for (name, why) in [
            ("sh", "in no folder"),
            ("deep", "in no folder"),
            ("/bin/sh", "leads out"),
            (&outside, "leads out"),
            ("leak", "leads out"),
            ("folder/evil", "leads out"),
            ("../one-more/evil", "`..`"),
            ("sub/../tool", "`..`"),
            ("plain", "chmod +x"),
            ("sub", "no program"),
            ("", "no program"),
            (".", "no program"),
        ] {
            let told = folders.find(name).expect_err(name);
            assert!(told.contains(why), "{name}: {told}");
        }
        let none = Folders::default().find("tool").expect_err("nothing is allowed");
        assert!(none.contains("--allow-commands DIR"), "{none}");
        let told = Folders::new(&[one.join("plain")]).expect_err("a file");
        assert!(told.ends_with("plain is no folder"), "{told}");
    }

    #[test]
    fn a_folder_whose_name_leads_elsewhere_later_allows_nothing_there() {
        let root = tempfile::tempdir().unwrap();
        let (kept, out) = (root.path().join("kept"), root.path().join("out"));
        for folder in [&kept, &out] {
            std::fs::create_dir(folder).unwrap();
            program(&folder.join("tool"));
        }
        let folders = Folders::new(std::slice::from_ref(&kept)).unwrap();
        assert!(folders.find("tool").is_ok());
        std::fs::rename(&kept, root.path().join("gone")).unwrap();
        symlink(&out, &kept).unwrap();
        assert!(folders.find("tool").is_err_and(|why| why.contains("leads out")));
    }
}
