//! Names are looked up, and what they lead to is looked at before anybody connects to it.

use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::{Reach, Refused};

/// Looks names up for one service.
pub(crate) struct Looking {
    pub(crate) reach: Reach,
    /// The port that is called, which a name does not say.
    pub(crate) port: u16,
}

impl Resolve for Looking {
    fn resolve(&self, name: Name) -> Resolving {
        let (reach, port, host) = (self.reach.clone(), self.port, name.as_str().to_owned());
        Box::pin(async move {
            let found = tokio::net::lookup_host((host.as_str(), port)).await?;
            let allowed = allowed(&reach, &host, port, found)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Those that may be called; or why there is none.
fn allowed(
    reach: &Reach,
    host: &str,
    port: u16,
    found: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, Refused> {
    let (mut allowed, mut refused) = (Vec::new(), None);
    for address in found {
        match reach.check(host, port, address.ip()) {
            Ok(()) => allowed.push(address),
            Err(why) => refused = Some(why),
        }
    }
    match refused {
        Some(why) if allowed.is_empty() => Err(why),
        _ => Ok(allowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_addresses_only_those_are_left_that_may_be_called() {
        let sent = Reach { public_only: true, ..Reach::default() };
        let found = |all: &[&str]| {
            let all: Vec<SocketAddr> = all.iter().map(|text| text.parse().expect("an address")).collect();
            allowed(&sent, "rebinding.example", 80, all.into_iter())
        };
        assert_eq!(found(&["127.0.0.1:80", "1.1.1.1:80"]).expect("one").len(), 1);
        let told = found(&["127.0.0.1:80", "[::1]:80"]).expect_err("none").to_string();
        assert!(told.starts_with("rebinding.example leads to ::1, a loopback address"), "{told}");
        assert!(found(&[]).expect("nothing was refused").is_empty());
    }
}
