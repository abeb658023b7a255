//! Tokens that give access: made once, shown once, kept as hashes in a file beside the store.
//!
//! A token is 256 random bits, so that one round of BLAKE3 is enough to keep it by. The file is written whole, beside itself,
//! and put in place, and stays whose it was, a new one with access for its owner only; a process that serves sees a change at the
//! next request, and keeps to what it knows where it cannot read it.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use redrive_core::secret::Secret;
use redrive_engine::env::{Env, secret};
use redrive_operate::{Asker, Code, Error, Result, Role};
use serde::{Deserialize, Serialize};

use crate::replace::{Refused, replace, user};

/// What every token begins with, so that it is known for one where it should not be.
const BEGINNING: &str = "rdv_";
/// Most tokens.
const MOST: usize = 1_000;
/// Longest name.
const LONGEST: usize = 64;
/// Most bytes of a token that is looked at.
const LONGEST_TOKEN: usize = 4_096;
/// The name of the administrator whose token the environment gives, or who is made first.
const FIRST: &str = "admin";

/// The tokens that are known.
pub struct Tokens {
    file: PathBuf,
    store: PathBuf,
    /// The hash of the token that the environment gives.
    given: Option<[u8; 32]>,
    known: Mutex<Known>,
}

/// What is known of the file.
#[derive(Default)]
struct Known {
    seen: Option<Seen>,
    tokens: Vec<Token>,
    /// Whether it is logged when they change.
    tells: bool,
    /// Whether it was logged that the file cannot be read, and has not been read since.
    unread: bool,
}

/// What tells one version of the file from another: it is replaced, never changed.
#[derive(PartialEq, Eq, Clone, Copy)]
struct Seen {
    inode: u64,
    modified: (i64, i64),
    bytes: u64,
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    tokens: Vec<Token>,
}

/// A token as it is kept.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    name: String,
    role: Role,
    payloads_hidden: bool,
    hash: String,
    created_at: String,
}

/// Who a token is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The name.
    pub name: String,
    /// What that one may do.
    pub role: Role,
    /// Whether contents of items are kept from that one.
    pub payloads_hidden: bool,
}

/// A token that was made. It cannot be read anywhere again.
#[derive(Debug)]
pub struct Made {
    /// Whose it is.
    pub name: String,
    /// What that one may do.
    pub role: Role,
    /// Whether contents of items are kept from that one.
    pub payloads_hidden: bool,
    /// The token.
    pub token: Secret,
}

/// The tokens there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenList {
    /// Each of them, by name.
    pub items: Vec<TokenView>,
}

/// What is known of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenView {
    /// Whose it is.
    pub name: String,
    /// What that one may do.
    pub role: Role,
    /// Whether contents of items are kept from that one.
    pub payloads_hidden: bool,
    /// When it was made.
    pub created_at: String,
}

impl Tokens {
    /// The tokens beside a store's file. `given` is one that the environment gives to an administrator.
    ///
    /// # Errors
    /// When there is a file that cannot be read.
    pub fn beside(store: &Path, given: Option<&Secret>) -> Result<Self> {
        let tokens = Self {
            file: store.with_file_name("tokens.json"),
            store: store.to_owned(),
            given: given.map(|token| hash(token.expose())),
            known: Mutex::default(),
        };
        tokens.refresh()?;
        Ok(tokens)
    }

    /// Makes the first administrator where nobody could be let in; `None` where somebody can.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn first(&self, env: &Env) -> Result<Option<Made>> {
        if self.given.is_some() || !self.refresh()?.is_empty() {
            return Ok(None);
        }
        let new = NewToken { name: FIRST.to_owned(), role: Role::Admin, payloads_hidden: false };
        self.create(new, env).map(Some)
    }

    /// Has changes logged from now on.
    pub(crate) fn tell_changes(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).tells = true;
    }

    /// Who a token is of.
    pub(crate) fn asker(&self, token: &str) -> Option<Asker> {
        if token.is_empty() || token.len() > LONGEST_TOKEN {
            return None;
        }
        let asked = hash(token);
        let known = self.refresh().unwrap_or_else(|error| self.as_before(&error));
        let mut found = None;
        for token in &known {
            if is_same(&asked, &unhex(&token.hash)) {
                found = Some(Asker {
                    name: token.name.clone(),
                    role: token.role,
                    payloads_hidden: token.payloads_hidden,
                });
            }
        }
        if self.given.is_some_and(|given| is_same(&asked, &given)) {
            found = Some(Asker::admin(FIRST));
        }
        found
    }

    /// Lists the tokens.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn list(&self) -> Result<TokenList> {
        let view = |token: Token| TokenView {
            name: token.name,
            role: token.role,
            payloads_hidden: token.payloads_hidden,
            created_at: token.created_at,
        };
        Ok(TokenList { items: self.refresh()?.into_iter().map(view).collect() })
    }

    /// Makes a token.
    ///
    /// # Errors
    /// When the name is none or taken, or it cannot be written.
    pub fn create(&self, new: NewToken, env: &Env) -> Result<Made> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
        if new.name.is_empty() || new.name.len() > LONGEST || !new.name.chars().all(is_name) {
            return Err(Error::wrong(format!("{:?} is no name for a token", new.name))
                .hint("letters, digits and any of - _ . @, at most 64"));
        }
        let mut tokens = self.refresh()?;
        if tokens.iter().any(|known| known.name == new.name) {
            return Err(Error::refused(format!("there is a token of {} already", new.name))
                .hint(format!("`redrive token rotate {}` replaces it", new.name)));
        }
        if tokens.len() >= MOST {
            return Err(Error::refused(format!("there are {MOST} tokens already")));
        }
        let token = make()?;
        tokens.push(Token {
            name: new.name.clone(),
            role: new.role,
            payloads_hidden: new.payloads_hidden,
            hash: hex(&hash(token.expose())),
            created_at: env.clock.now().to_string(),
        });
        tokens.sort_by(|a, b| a.name.cmp(&b.name));
        self.write(tokens)?;
        Ok(Made { name: new.name, role: new.role, payloads_hidden: new.payloads_hidden, token })
    }

    /// Makes a token in place of another, which is worth nothing from then on.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be written.
    pub fn rotate(&self, name: &str, env: &Env) -> Result<Made> {
        let mut tokens = self.refresh()?;
        let found = tokens.iter_mut().find(|token| token.name == name).ok_or_else(|| unknown(name))?;
        let token = make()?;
        (found.hash, found.created_at) = (hex(&hash(token.expose())), env.clock.now().to_string());
        let (role, payloads_hidden) = (found.role, found.payloads_hidden);
        self.write(tokens)?;
        Ok(Made { name: name.to_owned(), role, payloads_hidden, token })
    }

    /// Forgets a token.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be written.
    pub fn revoke(&self, name: &str) -> Result<TokenList> {
        let mut tokens = self.refresh()?;
        let before = tokens.len();
        tokens.retain(|token| token.name != name);
        if tokens.len() == before {
            return Err(unknown(name));
        }
        self.write(tokens)?;
        self.list()
    }

    /// The tokens as the file has them now.
    fn refresh(&self) -> Result<Vec<Token>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = self.version().map_err(|error| self.unreadable(&error.to_string()))?;
        if known.seen != seen {
            let tokens = match seen {
                None => Vec::new(),
                Some(_) => {
                    let text = std::fs::read_to_string(&self.file);
                    let text = text.map_err(|error| self.unreadable(&error.to_string()))?;
                    let kept: Kept =
                        serde_json::from_str(&text).map_err(|error| self.unreadable(&error.to_string()))?;
                    kept.tokens
                }
            };
            if known.tells {
                told(&known.tokens, &tokens);
            }
            *known = Known { seen, tokens, tells: known.tells, unread: false };
        }
        Ok(known.tokens.clone())
    }

    /// The tokens as they were before the file was made so that it cannot be read: whoever was let in is not locked out by that.
    fn as_before(&self, error: &Error) -> Vec<Token> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut known.unread, true) {
            let hint = error.hint.as_deref().unwrap_or_default();
            tracing::error!(target: "redrive::tokens", %error, hint, "tokens cannot be read; those that were known before are let in");
        }
        known.tokens.clone()
    }

    /// Which version of the file there is; `None`: there is none.
    fn version(&self) -> std::io::Result<Option<Seen>> {
        match std::fs::metadata(&self.file) {
            Ok(file) => Ok(Some(Seen {
                inode: file.ino(),
                modified: (file.mtime(), file.mtime_nsec()),
                bytes: file.len(),
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn unreadable(&self, why: &str) -> Error {
        let error = Error::wrong(format!("cannot read the tokens in {}: {why}", self.file.display()))
            .code(Code::UnreadableFile);
        match std::fs::metadata(&self.file) {
            Ok(file) => {
                let owner = user(file.uid());
                error.hint(format!(
                    "it belongs to {owner}: run this as that user (`sudo -u {owner} redrive …`), or give it to the user that runs \
                     `redrive serve` (`sudo chown USER {}`)",
                    self.file.display()
                ))
            }
            Err(_) => error
                .hint("the user that runs this needs the folder and the file; `ls -l` shows whose they are"),
        }
    }

    fn write(&self, tokens: Vec<Token>) -> Result<()> {
        let text = serde_json::to_string_pretty(&Kept { tokens });
        let text = text.map_err(|error| Error::internal(error.to_string()))?;
        replace(&self.file, &self.store, &text).map_err(|refused| self.unwritten(refused))?;
        self.refresh().map(|_| ())
    }

    /// Why the tokens are as they were.
    fn unwritten(&self, refused: Refused) -> Error {
        let file = self.file.display();
        match refused {
            Refused::Owner(uid) => {
                let owner = user(uid);
                Error::wrong(format!("{file} would no longer belong to {owner}, and nothing was changed"))
                    .hint(format!("`sudo -u {owner} redrive token …` does it as that user"))
            }
            Refused::System(error) => {
                let message = format!("cannot write the tokens into {file}: {error}");
                match error.kind() {
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotADirectory => {
                        Error::wrong(message).hint("run it as the user that `redrive serve` runs as (`sudo -u USER redrive token …`); --store says where the store is")
                    }
                    _ => Error::internal(message).hint("nothing was changed; look at the disk of the store"),
                }
            }
        }
        .code(Code::OutputFailed)
    }
}

/// Tells, where whoever looks after this process reads it, which tokens came, changed and went. They are made and revoked beside the store, by
/// whoever may write there.
fn told(before: &[Token], now: &[Token]) {
    for token in now {
        let (name, role, hidden) = (&token.name, token.role.name(), token.payloads_hidden);
        match before.iter().find(|known| known.name == token.name) {
            None => {
                tracing::warn!(target: "redrive::tokens", name, role, payloads_hidden = hidden, "token made")
            }
            Some(known) if known.hash != token.hash => {
                tracing::warn!(target: "redrive::tokens", name, role, payloads_hidden = hidden, "token rotated")
            }
            Some(_) => {}
        }
    }
    for token in before.iter().filter(|token| !now.iter().any(|left| left.name == token.name)) {
        tracing::warn!(target: "redrive::tokens", name = &token.name, role = token.role.name(), "token revoked");
    }
}

fn unknown(name: &str) -> Error {
    Error::not_found(format!("there is no token of {name:?}")).hint("`redrive token list` lists them")
}

fn make() -> Result<Secret> {
    let bits =
        secret().map_err(|error| Error::internal(format!("the system gives no random bits: {error}")))?;
    Ok(Secret::from(format!("{BEGINNING}{}", hex(&bits))))
}

fn hash(token: &str) -> [u8; 32] {
    *blake3::hash(token.as_bytes()).as_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = text.get(2 * at..2 * at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or(0);
    }
    bytes
}

/// Compares without telling by its time where the difference is.
fn is_same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b))) == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn new(name: &str, role: Role) -> NewToken {
        NewToken { name: name.to_owned(), role, payloads_hidden: false }
    }

    #[test]
    fn a_token_is_shown_once_and_kept_as_a_hash() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("state.db");
        let env = Env::system();
        let tokens = Tokens::beside(&store, None).expect("none yet");
        let first = tokens.first(&env).expect("made").expect("the first");
        assert!(tokens.first(&env).expect("looked").is_none(), "only once");
        let text = std::fs::read_to_string(folder.path().join("tokens.json")).expect("written");
        assert!(!text.contains(first.token.expose()) && text.contains("\"admin\""), "{text}");
        let mode = std::fs::metadata(folder.path().join("tokens.json")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(tokens.asker(first.token.expose()), Some(Asker::admin("admin")));
        assert_eq!((tokens.asker("rdv_0"), tokens.asker("")), (None, None));
    }

    #[test]
    fn a_process_that_serves_sees_what_another_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("state.db");
        let env = Env::system();
        let serving = Tokens::beside(&store, None).expect("none yet");
        let other = Tokens::beside(&store, None).expect("none yet");
        let made = other.create(new("ann", Role::Viewer), &env).expect("made");
        assert_eq!(serving.asker(made.token.expose()).map(|asker| asker.role), Some(Role::Viewer));
        let rotated = other.rotate("ann", &env).expect("rotated");
        assert_eq!(serving.asker(made.token.expose()), None);
        assert!(serving.asker(rotated.token.expose()).is_some());
        other.revoke("ann").expect("revoked");
        assert_eq!(serving.asker(rotated.token.expose()), None);
        assert!(other.revoke("ann").is_err() && other.create(new("a b", Role::Admin), &env).is_err());
    }

    #[test]
    fn a_change_that_cannot_be_read_locks_nobody_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("state.db");
        let tokens = Tokens::beside(&store, None).expect("none yet");
        let made = tokens.create(new("ann", Role::Viewer), &Env::system()).expect("made");
        std::fs::write(folder.path().join("tokens.json"), "{").expect("written");
        assert!(tokens.asker(made.token.expose()).is_some() && tokens.asker("rdv_0").is_none());
        let told = tokens.list().expect_err("whoever looks is told");
        assert!(told.hint.is_some_and(|hint| hint.contains("chown")));
        std::fs::remove_file(folder.path().join("tokens.json")).expect("removed");
        assert!(tokens.asker(made.token.expose()).is_none(), "what is gone is read as gone");
    }

    #[test]
    fn the_environment_gives_one_to_an_administrator() {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = Tokens::beside(&folder.path().join("state.db"), Some(&Secret::from("from outside")))
            .expect("none yet");
        assert!(tokens.first(&Env::system()).expect("looked").is_none());
        assert_eq!(tokens.asker("from outside").map(|asker| asker.role), Some(Role::Admin));
        assert!(!folder.path().join("tokens.json").exists());
    }
}
