//! How many bodies are waited for at a time, by who sends them: one client that sends slowly takes no place from the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_operate::{Error, Result};

use crate::limits;

/// Bodies that are waited for, by the name of who sends them.
#[derive(Debug, Clone, Default)]
pub struct Bodies(Arc<Mutex<BTreeMap<String, usize>>>);

impl Bodies {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for one more of somebody.
    ///
    /// # Errors
    /// When as many of that one are waited for as may be.
    pub fn begin(&self, who: &str) -> Result<Waited> {
        let mut waited = self.lock();
        let of_one = waited.entry(who.to_owned()).or_default();
        if *of_one >= limits::BODIES_OF_ONE {
            let most = limits::BODIES_OF_ONE;
            return Err(Error::busy(format!("{most} bodies that {who} sends are waited for already"))
                .hint("send bodies at once, or fewer of them at a time"));
        }
        *of_one += 1;
        Ok(Waited { bodies: self.clone(), who: who.to_owned() })
    }
}

/// A body that is waited for.
#[derive(Debug)]
pub struct Waited {
    bodies: Bodies,
    who: String,
}

impl Drop for Waited {
    fn drop(&mut self) {
        let mut waited = self.bodies.lock();
        if let Some(of_one) = waited.get_mut(&self.who) {
            *of_one -= 1;
            if *of_one == 0 {
                waited.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_has_its_share_and_gives_it_back() {
        let bodies = Bodies::default();
        let mut all: Vec<Waited> =
            (0..limits::BODIES_OF_ONE).map(|_| bodies.begin("ann").expect("a place")).collect();
        assert!(bodies.begin("ann").is_err());
        assert!(bodies.begin("bob").is_ok(), "others are not kept out");
        all.pop();
        assert!(bodies.begin("ann").is_ok());
        all.clear();
        assert!(bodies.lock().is_empty(), "nobody is remembered who sends nothing");
    }
}
