//! Where the broker is, and who we are to it.

use std::fmt;
use std::str::FromStr;

use lapin::uri::{AMQPScheme, AMQPUri};
use redrive_core::secret::Secret;

/// What an address looks like.
const FORM: &str = "an address looks like amqp://USER:PASSWORD@HOST:5672/VHOST";

/// The address of a broker. Its password is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Everything but the password.
    uri: AMQPUri,
    password: Secret,
}

impl Address {
    /// What a connection is opened with, the password in it.
    pub(crate) fn with_password(&self) -> AMQPUri {
        let mut uri = self.uri.clone();
        self.password.expose().clone_into(&mut uri.authority.userinfo.password);
        uri
    }

    /// The virtual host.
    pub(crate) fn vhost(&self) -> &str {
        &self.uri.vhost
    }

    /// The machine.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.uri.authority.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.uri.authority.port
    }

    /// A text without the password, in whatever spelling it is there.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let password = self.password.expose();
        // One that is usual hides nothing, and is a word.
        if password.len() < 4 || password == "guest" {
            text.to_owned()
        } else {
            text.replace(password, "***")
        }
    }
}

impl FromStr for Address {
    type Err = String;

    /// Reads an address. What is wrong is said without repeating it: it holds a password.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((scheme, rest)) = text.split_once("://") else { return Err(FORM.to_owned()) };
        match scheme {
            "amqp" => {}
            // Without a library for it, the one that speaks AMQP would go on in the clear.
            "amqps" => {
                return Err(
                    "amqps:// cannot be spoken here yet; lead amqp:// through a tunnel that encrypts"
                        .to_owned(),
                );
            }
            _ => return Err(FORM.to_owned()),
        }
        let mut uri: AMQPUri = text.parse().map_err(|_| FORM.to_owned())?;
        let host = rest.split(['/', '?']).next().unwrap_or_default().rsplit('@').next().unwrap_or_default();
        // An address in brackets would be taken for this machine.
        if let Some(inside) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            uri.authority.host = inside.0.to_owned();
        }
        if uri.authority.host.is_empty() || host.is_empty() || host.starts_with(':') {
            return Err(format!("the address names no machine; {FORM}"));
        }
        // What comes after the port is the virtual host; none means the usual one.
        if uri.vhost.is_empty() {
            uri.vhost = "/".to_owned();
        }
        let password = Secret::from(std::mem::take(&mut uri.authority.userinfo.password));
        Ok(Self { uri, password })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.uri.scheme {
            AMQPScheme::AMQP => "amqp",
            AMQPScheme::AMQPS => "amqps",
        };
        write!(f, "{scheme}://{}:{}", self.host(), self.port())?;
        if self.uri.vhost != "/" {
            write!(f, "/{}", self.uri.vhost)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Address, String> {
        text.parse()
    }

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        let address = read("amqp://me:s3cret%21@bus.example:5673/jobs").expect("valid");
        assert_eq!(address.to_string(), "amqp://bus.example:5673/jobs");
        assert_eq!(format!("{address:?}"), "Address(amqp://bus.example:5673/jobs)");
        assert_eq!(address.with_password().authority.userinfo.password, "s3cret!");
        assert_eq!(address.redacted("login s3cret! refused"), "login *** refused");
        assert_eq!(read("amqp://h").expect("valid").to_string(), "amqp://h:5672");
        assert_eq!(read("amqp://h/").expect("valid").vhost(), "/");
        assert_eq!(read("amqp://[::1]:5673").expect("valid").host(), "::1");
    }

    #[test]
    fn what_is_wrong_is_told_without_repeating_it() {
        for text in [
            "s3cret",
            "http://me:s3cret@h",
            "amqp://me:s3cret@",
            "amqp://me:s3cret@:5672",
            "amqp://me:s3cret@h:port",
        ] {
            let told = read(text).expect_err(text);
            assert!(
                told.contains("amqp://USER:PASSWORD@HOST:5672/VHOST") && !told.contains("s3cret"),
                "{text}: {told}"
            );
        }
        assert!(read("amqps://h").expect_err("no TLS").contains("tunnel"));
    }
}
