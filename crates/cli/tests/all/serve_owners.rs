//! Tokens that somebody else makes than the user that the daemon runs as: nobody is locked out by that.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::support::guest::{guest, is_root};
use crate::support::{Place, wait};

/// The user and group that a service runs as here.
const SERVICE: u32 = 65_534;
/// Another user and group.
const OTHER: u32 = 65_533;

/// A service that runs as its own user, in a folder of its own.
struct Service {
    place: Place,
    child: Child,
    address: String,
}

impl Service {
    fn start() -> Self {
        let place = Place::new();
        std::fs::create_dir(place.path("state")).expect("made");
        chown(place.path("state"), Some(SERVICE), Some(SERVICE)).expect("given away");
        std::fs::set_permissions(place.path(""), PermissionsExt::from_mode(0o755)).expect("set");
        let (child, address) = serve(&place);
        Self { place, child, address }
    }

    /// Starts the daemon again.
    fn again(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("killed");
        (self.child, self.address) = serve(&self.place);
    }

    fn status(&self, token: &str) -> u16 {
        let asked = Command::new("curl")
            .args([
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "-H",
                &format!("Authorization: Bearer {token}"),
            ])
            .arg(format!("http://{}/v1/runs", self.address))
            .output()
            .expect("curl");
        String::from_utf8_lossy(&asked.stdout).parse().expect("a status")
    }

    /// `redrive token …` by this user, whom the file and its folder may belong to or not.
    fn token(&self, uid: u32, args: &[&str]) -> Output {
        use std::os::unix::process::CommandExt;
        guest(&self.place, &["token"])
            .args(args)
            .env("REDRIVE_STORE", "sqlite:state/state.db")
            .uid(uid)
            .gid(uid)
            .output()
            .expect("it runs")
    }

    fn owner(&self) -> (u32, u32, u32) {
        let file = std::fs::metadata(self.place.path("state/tokens.json")).expect("there");
        (file.uid(), file.gid(), file.mode() & 0o777)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the daemon as the service's user; where it listens.
fn serve(place: &Place) -> (Child, String) {
    let (out, log) = (place.path("out"), place.path("log"));
    let file = |path| std::fs::File::create(path).expect("made");
    let child = guest(place, &["serve", "--listen", "127.0.0.1:0", "--no-work"])
        .env("REDRIVE_STORE", "sqlite:state/state.db")
        .stdin(Stdio::null())
        .stdout(file(&out))
        .stderr(file(&log))
        .spawn()
        .expect("it starts");
    wait::until("it listens", || place.read("out").contains('\n'));
    let line = place.read("out");
    let address = line.trim().strip_prefix("listening at http://").unwrap_or_else(|| panic!("{line}"));
    (child, address.to_owned())
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_token_that_root_makes_beside_a_service_leaves_the_file_to_the_service() {
    if !is_root() {
        return only_ones_own();
    }
    let mut service = Service::start();
    let log = service.place.read("log");
    let first = log.split_whitespace().find(|word| word.starts_with("rdv_")).expect("shown once").to_owned();
    assert_eq!((service.status(&first), service.owner()), (200, (SERVICE, SERVICE, 0o600)));
    let made = service.token(0, &["create", "ann", "--role", "viewer"]);
    assert!(made.status.success(), "{made:?}");
    let ann = said(&made).0;
    assert_eq!(service.owner(), (SERVICE, SERVICE, 0o600), "it is still the service's");
    assert_eq!((service.status(&ann), service.status(&first)), (200, 200));
    service.again();
    assert_eq!((service.status(&ann), service.status(&first)), (200, 200), "it starts again with them");
    // A file that is gone is made anew for the user whose store it is.
    std::fs::remove_file(service.place.path("state/tokens.json")).expect("removed");
    let made = service.token(0, &["create", "bob", "--role", "viewer"]);
    assert_eq!((service.owner(), service.status(&said(&made).0)), ((SERVICE, SERVICE, 0o600), 200));
}

#[test]
fn whoever_cannot_leave_the_file_to_its_owner_changes_nothing_and_is_told_who_can() {
    if !is_root() {
        return only_ones_own();
    }
    let service = Service::start();
    let log = service.place.read("log");
    let first = log.split_whitespace().find(|word| word.starts_with("rdv_")).expect("shown once").to_owned();
    // Everybody may write into the folder and read the file, and only root may give a file away.
    std::fs::set_permissions(service.place.path("state"), PermissionsExt::from_mode(0o777)).expect("set");
    std::fs::set_permissions(service.place.path("state/tokens.json"), PermissionsExt::from_mode(0o644))
        .expect("set");
    let before = service.place.read("state/tokens.json");
    let made = service.token(OTHER, &["create", "eve", "--role", "viewer"]);
    assert_eq!(made.status.code(), Some(2), "{made:?}");
    assert!(said(&made).1.contains("hint: `sudo -u nobody redrive token …`"), "{made:?}");
    assert_eq!((service.place.read("state/tokens.json"), service.status(&first)), (before, 200));
    let beside = std::fs::read_dir(service.place.path("state")).expect("listed");
    let left = beside
        .filter(|entry| entry.as_ref().expect("listed").file_name().to_string_lossy().contains("json."));
    assert_eq!(left.count(), 0, "nothing is left beside it");
    // One that cannot be read is said so, with what to do.
    std::fs::set_permissions(service.place.path("state/tokens.json"), PermissionsExt::from_mode(0o600))
        .expect("set");
    let listed = service.token(OTHER, &["list"]);
    assert_eq!(listed.status.code(), Some(2), "{listed:?}");
    assert!(said(&listed).1.contains("it belongs to nobody"), "{listed:?}");
}

#[test]
fn a_daemon_that_cannot_read_a_changed_file_keeps_the_tokens_it_knows_and_says_so() {
    if !is_root() {
        return only_ones_own();
    }
    let service = Service::start();
    let log = service.place.read("log");
    let first = log.split_whitespace().find(|word| word.starts_with("rdv_")).expect("shown once").to_owned();
    assert_eq!(service.status(&first), 200);
    // As an earlier version left it.
    let text = service.place.read("state/tokens.json");
    std::fs::remove_file(service.place.path("state/tokens.json")).expect("removed");
    service.place.write("state/tokens.json", format!("{text} "));
    std::fs::set_permissions(service.place.path("state/tokens.json"), PermissionsExt::from_mode(0o600))
        .expect("set");
    assert_eq!((service.status(&first), service.status("rdv_0"), service.status(&first)), (200, 401, 200));
    let log = service.place.read("log");
    assert_eq!(log.matches("those that were known before are let in").count(), 1, "{log}");
    assert!(log.contains("belongs to root"), "{log}");
}

#[test]
fn tokens_for_a_folder_that_cannot_be_written_are_refused_with_a_hint() {
    let place = Place::new();
    place.write("file", "");
    let made = place
        .run_with(
            &["token", "create", "ann", "--role", "viewer"],
            &[("REDRIVE_STORE", "sqlite:file/state.db")],
        )
        .expect(2);
    assert!(made.stderr.contains("hint: "), "{}", made.stderr);
}

/// What can be said without being root: a file that is replaced has the mode it had.
fn only_ones_own() {
    let place = Place::new();
    place.run(&["token", "create", "ann", "--role", "viewer"]).expect(0);
    let file = place.path(".redrive/tokens.json");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("set");
    place.run(&["token", "create", "bob", "--role", "viewer"]).expect(0);
    assert_eq!(std::fs::metadata(&file).expect("there").mode() & 0o777, 0o640);
    assert_eq!(place.json(&["token", "list"])["items"].as_array().map_or(0, Vec::len), 2);
    let _: Value = serde_json::from_str(&place.read(".redrive/tokens.json")).expect("JSON");
}
