//! Where the broker is, and who we are to it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use lapin::uri::{AMQPScheme, AMQPUri};
use redrive_core::secret::Secret;

use crate::tls::{self, Authorities};

/// What an address looks like.
const FORM: &str = "an address looks like amqp://USER:PASSWORD@HOST:5672/VHOST, or amqps://… for TLS";

/// The address of a broker. Its password is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Everything but the password.
    uri: AMQPUri,
    password: Secret,
    authorities: Option<Authorities>,
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

    /// The same, trusted by the authorities whose certificates are in a file (PEM), in place of the system's.
    ///
    /// # Errors
    /// When the file cannot be used, or nothing would be encrypted all the same.
    pub fn trusting(self, file: &Path) -> Result<Self, String> {
        match self.uri.scheme {
            AMQPScheme::AMQP => Err("amqp:// is not encrypted; say amqps://".to_owned()),
            AMQPScheme::AMQPS => Ok(Self { authorities: Some(tls::authorities(file)?), ..self }),
        }
    }

    pub(crate) fn authorities(&self) -> Option<&Authorities> {
        self.authorities.as_ref()
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
        if !["amqp", "amqps"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err(FORM.to_owned());
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
        Ok(Self { uri, password, authorities: None })
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
        assert_eq!(read("amqps://me:s3cret@h").expect("valid").to_string(), "amqps://h:5671");
        assert_eq!(read("AMQP://me:s3cret@h").expect("valid").to_string(), "amqp://h:5672");
    }

    #[test]
    fn an_authority_is_named_only_where_something_is_encrypted() {
        let file = Path::new("/no/such/file");
        assert!(
            read("amqp://h").expect("valid").trusting(file).expect_err("in the clear").contains("amqps://")
        );
        let told = read("amqps://h").expect("valid").trusting(file).expect_err("no file");
        assert!(told.contains("/no/such/file"), "{told}");
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
    }
}
