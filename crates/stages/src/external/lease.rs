//! Tokens of leases: what a worker shows to say anything about the batch that it holds.
//!
//! A token names the process that made it, the call and its items, and is signed by a key that only this process has and
//! never writes down. One of a process that is gone is told apart from one that was made up, without a list of old ones.

use redrive_engine::external::Refused;
use redrive_engine::handler::Input;

/// What every token begins with, so that it is known for one where it should not be.
const BEGINNING: &str = "rdl";
/// Hexadecimal digits of each part behind the number of the call.
const DIGITS: usize = 32;

/// Makes tokens and tells whether one was made here.
pub(super) struct Signer {
    key: [u8; 32],
    /// Names the process among those before it and beside it; no secret.
    process: String,
}

/// What a token says that was made here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) call: u64,
    pub(super) items: String,
}

impl Signer {
    pub(super) fn new(key: [u8; 32]) -> Self {
        let process = cut(&blake3::keyed_hash(&key, b"the process"));
        Self { key, process }
    }

    /// A token for a call, good for this holder.
    pub(super) fn token(&self, call: u64, items: &str, holder: &str) -> String {
        format!("{BEGINNING}_{}_{call:x}_{items}_{}", self.process, self.sign(call, items, holder))
    }

    /// Reads a token.
    pub(super) fn read(&self, token: &str, holder: &str) -> Result<Lease, Refused> {
        let mut parts = token.split('_');
        let mut next = || parts.next().unwrap_or_default();
        let (beginning, process, call, items, signed) = (next(), next(), next(), next(), next());
        let whole = beginning == BEGINNING && [process, items, signed].iter().all(|part| is_hex(part));
        let call = u64::from_str_radix(call, 16).ok().filter(|_| whole && parts.next().is_none());
        let call = call.ok_or(Refused::Foreign)?;
        if process != self.process {
            return Err(Refused::Gone);
        }
        match is_same(&self.sign(call, items, holder), signed) {
            true => Ok(Lease { call, items: items.to_owned() }),
            false => Err(Refused::Foreign),
        }
    }

    fn sign(&self, call: u64, items: &str, holder: &str) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        // The only part of any length is the last one.
        hasher.update(self.process.as_bytes()).update(&call.to_be_bytes());
        hasher.update(items.as_bytes()).update(holder.as_bytes());
        cut(&hasher.finalize())
    }
}

/// What tells the items of a batch from those of any other.
pub(super) fn digest(items: &[Input]) -> String {
    let mut hasher = blake3::Hasher::new();
    for item in items {
        hasher.update(item.idempotency_key.as_bytes()).update(&item.attempt.to_be_bytes());
    }
    cut(&hasher.finalize())
}

fn cut(hash: &blake3::Hash) -> String {
    hash.to_hex()[..DIGITS].to_owned()
}

fn is_hex(part: &str) -> bool {
    part.len() == DIGITS && part.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Compares without telling by its time where the difference is.
fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len()
        && std::hint::black_box(a.bytes().zip(b.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b))) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_token_that_was_made_here_for_whoever_shows_it_is_good() {
        let (signer, items) = (Signer::new([7; 32]), "0".repeat(DIGITS));
        let token = signer.token(11, &items, "ann");
        assert_eq!(signer.read(&token, "ann"), Ok(Lease { call: 11, items }));
        assert_eq!(signer.read(&token, "bob"), Err(Refused::Foreign), "of somebody else");
        let before = Signer::new([8; 32]);
        assert_eq!(before.read(&token, "ann"), Err(Refused::Gone), "of another process");
        for part in 1..5 {
            let mut parts: Vec<String> = token.split('_').map(str::to_owned).collect();
            parts[part] = parts[part].chars().rev().chain(['1']).skip(1).collect();
            let forged = parts.join("_");
            assert_ne!(forged, token);
            assert!(signer.read(&forged, "ann").is_err(), "{forged}");
        }
        for nonsense in ["", "rdl", "rdl_", "rdl____", "x", &format!("{token}_0"), &token[1..]] {
            assert_eq!(signer.read(nonsense, "ann"), Err(Refused::Foreign), "{nonsense}");
        }
    }
}
