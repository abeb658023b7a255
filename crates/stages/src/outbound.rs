//! Which addresses stages may call.
//!
//! A name is looked up when a connection is made, and what it leads to is looked at then: only those addresses are connected
//! to that were looked at, so that a name that leads elsewhere a moment later leads nowhere.

mod address;
mod resolve;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use reqwest::Url;

pub(crate) use resolve::Looking;

use address::Block;

/// Somebody who may be called: `HOST`, `HOST:PORT`, an address, or a block of addresses as `10.0.0.0/8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    who: Who,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    Name(String),
    Block(Block),
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no HOST, HOST:PORT, address or block of addresses like 10.0.0.0/8");
        if let Some((first, prefix)) = text.split_once('/') {
            let block = first.parse().ok().zip(prefix.parse().ok());
            let block = block.and_then(|(first, prefix)| Block::new(first, prefix)).ok_or_else(wrong)?;
            return Ok(Self { who: Who::Block(block), port: None });
        }
        if let Ok(address) = text.parse() {
            return Ok(Self { who: Who::Block(Block::one(address)), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => {
                (host, Some(port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?))
            }
            None => (text, None),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse() {
            return Ok(Self { who: Who::Block(Block::one(address)), port });
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        match !host.is_empty() && host.bytes().all(fits) {
            true => Ok(Self { who: Who::Name(folded(host)), port }),
            false => Err(wrong()),
        }
    }
}

impl Peer {
    fn is(&self, host: &str, port: u16, address: IpAddr) -> bool {
        let named = match &self.who {
            Who::Name(name) => *name == folded(host),
            Who::Block(block) => block.has(address),
        };
        named && self.port.is_none_or(|own| own == port)
    }
}

/// A name as it is compared.
fn folded(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// What whoever runs the process says of calls to the outside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outbound {
    /// Nobody else is called, whatever the pipeline; `None`: anybody.
    pub only: Option<Vec<Peer>>,
    /// Who may be called by pipelines that reach public addresses only, though they are not.
    pub also: Vec<Peer>,
}

/// Whom a stage may call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// What holds for every stage of the process.
    pub outbound: Arc<Outbound>,
    /// Whether only public addresses are called, and those that are named besides.
    pub public_only: bool,
}

impl Reach {
    /// Whether anybody at all may be called.
    pub(crate) fn is_free(&self) -> bool {
        !self.public_only && self.outbound.only.is_none()
    }

    /// Looks whether an address may be called that a host led to.
    fn check(&self, host: &str, port: u16, address: IpAddr) -> Result<(), Refused> {
        let listed = |list: &[Peer]| list.iter().any(|peer| peer.is(host, port, address));
        let at = if host.parse() == Ok(address) { String::new() } else { format!("{host} leads to ") };
        if self.outbound.only.as_deref().is_some_and(|only| !listed(only)) {
            let why = "is not among those that --outbound-only names";
            return Err(Refused(format!("{at}{address}, which {why}")));
        }
        match address::not_public(address).filter(|_| self.public_only && !listed(&self.outbound.also)) {
            None => Ok(()),
            Some(what) => Err(Refused(format!(
                "{at}{address}, {what}, which a pipeline with outbound = \"public\" does not call, as those that are sent \
                 do not; --allow-outbound {host}:{port} allows it"
            ))),
        }
    }

    /// Looks whether an address may be called that is written in a URL. What a name leads to is looked at when it is called.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check_url(&self, url: &str) -> Result<(), String> {
        let Ok(url) = Url::parse(url) else { return Ok(()) };
        self.check_literal(&url).map_err(|refused| refused.to_string())
    }

    pub(crate) fn check_literal(&self, url: &Url) -> Result<(), Refused> {
        let Some(host) = url.host_str() else { return Ok(()) };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match bare.parse() {
            Ok(address) => self.check(bare, url.port_or_known_default().unwrap_or(0), address),
            Err(_) => Ok(()),
        }
    }
}

/// Why somebody is not called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(all: &[&str]) -> Vec<Peer> {
        all.iter().map(|text| text.parse().expect(text)).collect()
    }

    fn reach(only: Option<&[&str]>, also: &[&str], public_only: bool) -> Reach {
        Reach { outbound: Arc::new(Outbound { only: only.map(peers), also: peers(also) }), public_only }
    }

    #[test]
    fn peers_are_hosts_addresses_and_blocks() {
        for text in ["10.0.0.0/8", "fd00::/8", "::1", "[::1]:80", "127.0.0.1:9", "api.example", "A.B.:443"] {
            assert!(text.parse::<Peer>().is_ok(), "{text}");
        }
        for text in
            ["", "10.0.0.0/33", "x/8", "a b", "host:", "host:0", "host:70000", "http://host", "[::1", "*"]
        {
            let told = text.parse::<Peer>().expect_err(text);
            assert!(told.contains("is no HOST"), "{told}");
        }
    }

    #[test]
    fn a_literal_address_is_looked_at_however_it_is_written() {
        let sent = reach(None, &[], true);
        for url in [
            "http://127.0.0.1/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://017700000001/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::1]:9000/",
            "http://169.254.169.254/latest/meta-data",
            "http://user:pass@10.0.0.1/",
        ] {
            let told = sent.check_url(url).expect_err(url);
            assert!(told.contains("--allow-outbound"), "{told}");
        }
        assert_eq!(sent.check_url("http://1.1.1.1/"), Ok(()));
        assert_eq!(sent.check_url("http://localhost/"), Ok(()), "a name is looked at when it is called");
        assert_eq!(Reach::default().check_url("http://127.0.0.1/"), Ok(()));
    }

    #[test]
    fn what_is_named_may_be_called_and_nothing_else() {
        let also = reach(None, &["127.0.0.1:9000", "10.1.0.0/16", "models.lan"], true);
        let check = |reach: &Reach, host: &str, port, address: &str| {
            reach.check(host, port, address.parse().expect("an address")).is_ok()
        };
        assert!(
            check(&also, "127.0.0.1", 9000, "127.0.0.1") && !check(&also, "127.0.0.1", 9001, "127.0.0.1")
        );
        assert!(check(&also, "box.lan", 80, "10.1.2.3") && !check(&also, "box.lan", 80, "10.2.2.3"));
        assert!(check(&also, "MODELS.lan.", 80, "192.168.0.1") && check(&also, "x.example", 80, "1.1.1.1"));
        let only = reach(Some(&["api.example:443", "10.0.0.0/8"]), &[], false);
        assert!(check(&only, "api.example", 443, "1.1.1.1") && check(&only, "x", 80, "10.0.0.1"));
        assert!(!check(&only, "api.example", 80, "1.1.1.1") && !check(&only, "x", 80, "1.1.1.1"));
        // Both have to hold: a list for every pipeline is no word for those that are sent.
        let both = reach(Some(&["10.0.0.0/8"]), &[], true);
        assert!(!check(&both, "x", 80, "10.0.0.1") && !check(&both, "x", 80, "1.1.1.1"));
    }
}
