//! Who is let in: by the host that was meant, by the page that asks, by the token.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use redrive_operate::{Asker, Code, Error};

use crate::limits;
use crate::problem::Problem;
use crate::tokens::Tokens;

/// Refuses a head that is longer than is taken. Whoever reads it off the connection stops only where a buffer is full, which
/// may be as much again.
pub fn refuse_long_head(target: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let target = target.path().len() + target.query().map_or(0, str::len);
    let lines = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    match target + lines.sum::<usize>() > limits::HEAD {
        true => {
            let error = Error::wrong(format!("a head has at most {} KiB", limits::HEAD >> 10))
                .code(Code::TooLarge)
                .hint("send fewer or shorter headers");
            Err(Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, error))
        }
        false => Ok(()),
    }
}

/// Names that mean this server.
#[derive(Debug, Clone)]
pub struct Hosts {
    names: Vec<String>,
    /// Whether it listens at whatever addresses this machine has.
    at_all: bool,
}

impl Hosts {
    /// The names of the loopback, the address it listens at, and further ones.
    pub fn of(listens: SocketAddr, further: &[String]) -> Self {
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        if !listens.ip().is_unspecified() {
            names.push(listens.ip().to_string());
        }
        names.extend(further.iter().map(|name| name.to_ascii_lowercase()));
        Self { names, at_all: listens.ip().is_unspecified() }
    }

    /// Whether a host, with or without a port, is one of them, or the address that the connection was made to: what is bent to
    /// lead here is a name, never an address.
    fn has(&self, host: &str, made_to: Option<IpAddr>) -> bool {
        let Some(name) = without_port(host) else { return false };
        let name = name.to_ascii_lowercase();
        // One address has several spellings.
        let address = name.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        if self.at_all && address.is_some() && address == made_to.map(|made_to| made_to.to_canonical()) {
            return true;
        }
        let spelled = address.map_or(name, |address| address.to_string());
        self.names.contains(&spelled)
    }

    /// Refuses a request that meant another host, as one that a name was bent to does. `made_to` is the address of this machine
    /// that the connection was made to.
    pub fn check(&self, target: &Uri, headers: &HeaderMap, made_to: Option<IpAddr>) -> Result<(), Problem> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = text(headers, "host").is_some_and(|host| self.has(host, made_to));
        if hosts.next().is_none() || hosts.next().is_some() || !host {
            return Err(misdirected("the Host header names another server"));
        }
        match target.authority() {
            Some(named) if !self.has(named.as_str(), made_to) => {
                Err(misdirected("the request names another server"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a request that a page of another site made.
pub fn refuse_other_pages(headers: &HeaderMap) -> Result<(), Problem> {
    let host = text(headers, "host");
    // Of two, somebody else may go by the other one.
    let once = |name: &str| headers.get_all(name).iter().count() <= 1;
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let of_host = |origin: &HeaderValue| {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        origin.map(|(_, of)| of) == host
    };
    match once("origin")
        && once("sec-fetch-site")
        && sites.all(|site| site == "same-origin" || site == "none")
        && origins.all(of_host)
    {
        true => Ok(()),
        false => {
            let error = Error::forbidden("pages of other sites may not ask").hint(
                "ask without a browser, or through a server of the page's own site; a gateway has to pass on `Host` as it came",
            );
            Err(Problem::new(StatusCode::FORBIDDEN, error))
        }
    }
}

/// The name of a host, with or without a port; `None` when it is not written as one.
fn without_port(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    port.then_some(name)
}

fn misdirected(why: &str) -> Problem {
    Problem::new(StatusCode::MISDIRECTED_REQUEST, Error::forbidden(why))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// What a request shows of who asks. It is never printed.
#[derive(Clone)]
pub struct Bearer(String);

impl Bearer {
    /// Whose token it is now; `None`: nobody's, or nobody's any more.
    pub fn asker(&self, tokens: &Tokens) -> Option<Asker> {
        tokens.asker(&self.0)
    }
}

/// Who asks, by the token.
pub fn asker(tokens: &Tokens, headers: &HeaderMap) -> Result<Asker, Problem> {
    bearer(headers).and_then(|bearer| bearer.asker(tokens)).ok_or_else(Problem::unauthenticated)
}

/// The token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<Bearer> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (given.next(), given.next());
    let value = first.filter(|_| second.is_none()).and_then(|value| value.to_str().ok());
    let (scheme, token) = value?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Bearer(token.trim().to_owned()))
}

/// Refuses a body that is not JSON. One that is empty may say nothing about itself.
pub fn json_only(headers: &HeaderMap, empty: bool) -> Result<(), Problem> {
    let kind = text(headers, "content-type");
    let essence = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    match essence.as_deref() {
        Some("application/json") => Ok(()),
        None if empty && !headers.contains_key(header::CONTENT_TYPE) => Ok(()),
        _ => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Error::wrong("what changes something is `Content-Type: application/json`"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value)))
            .collect()
    }

    fn check(hosts: &Hosts, headers: &HeaderMap) -> Result<(), Problem> {
        hosts.check(&Uri::from_static("/v1/runs"), headers, None)?;
        refuse_other_pages(headers)
    }

    #[test]
    fn where_it_listens_at_all_addresses_the_one_that_was_asked_at_means_it_and_names_do_not() {
        let at = |listens: &str, host: &'static str, made_to: &str| {
            let hosts = Hosts::of(listens.parse().expect("an address"), &[]);
            let given = headers(&[("host", host)]);
            hosts.check(&Uri::from_static("/"), &given, made_to.parse().ok()).is_ok()
        };
        for (listens, host, made_to, is_let_in) in [
            ("0.0.0.0:7300", "192.0.2.7:7300", "192.0.2.7", true),
            ("0.0.0.0:7300", "192.0.2.7", "192.0.2.7", true),
            ("[::]:7300", "192.0.2.7:7300", "::ffff:192.0.2.7", true),
            ("[::]:7300", "[2001:db8::7]:7300", "2001:db8::7", true),
            ("0.0.0.0:7300", "192.0.2.8:7300", "192.0.2.7", false),
            ("0.0.0.0:7300", "evil.example:7300", "192.0.2.7", false),
            ("0.0.0.0:7300", "192.0.2.7.evil.example", "192.0.2.7", false),
            ("0.0.0.0:7300", "0.0.0.0:7300", "192.0.2.7", false),
            ("0.0.0.0:7300", "evil.example", "", false),
            ("192.0.2.9:7300", "192.0.2.7:7300", "192.0.2.7", false),
        ] {
            assert_eq!(at(listens, host, made_to), is_let_in, "{listens} {host} {made_to}");
        }
    }

    #[test]
    fn only_what_means_this_server_and_no_other_page_is_let_in() {
        let hosts = Hosts::of("127.0.0.1:7300".parse().expect("an address"), &["redrive.lan".to_owned()]);
        for host in ["localhost:7300", "127.0.0.1", "[::1]:7300", "LOCALHOST", "redrive.lan:1"] {
            let given = headers(&[]);
            let mut given = given;
            given.insert(header::HOST, HeaderValue::from_static(host));
            assert!(check(&hosts, &given).is_ok(), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "",
            "0.0.0.0",
            "localhost.evil.example:7300",
            "127.0.0.1:9000@evil.example",
            "127.0.0.1:99999",
            "[::1]evil.example",
            "[::1",
        ] {
            let mut given = headers(&[]);
            given.insert(header::HOST, HeaderValue::from_static(host));
            assert!(check(&hosts, &given).is_err(), "{host}");
        }
        assert!(check(&hosts, &headers(&[])).is_err());
        let with = |more: &[(&'static str, &'static str)]| {
            check(&hosts, &headers(&[&[("host", "localhost:7300")], more].concat())).is_ok()
        };
        assert!(with(&[("sec-fetch-site", "same-origin")]) && with(&[("origin", "http://localhost:7300")]));
        for more in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:7301"),
        ] {
            assert!(!with(&[more]), "{more:?}");
        }
    }

    #[test]
    fn a_host_or_an_origin_that_is_said_twice_is_refused() {
        let hosts = Hosts::of("127.0.0.1:7300".parse().expect("an address"), &[]);
        let (own, other) = (("origin", "http://localhost:7300"), ("origin", "http://evil.example"));
        let (here, there) = (("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site"));
        let (host, alias) = (("host", "localhost:7300"), ("host", "127.0.0.1:7300"));
        let is_let_in = |pairs: &[(&'static str, &'static str)]| {
            let mut given = HeaderMap::new();
            pairs.iter().for_each(|(name, value)| {
                given.append(*name, HeaderValue::from_static(value));
            });
            check(&hosts, &given).is_ok()
        };
        assert!(is_let_in(&[host, own, here]));
        for twice in [[own, other], [other, own], [own, own], [here, there], [there, here], [host, alias]] {
            assert!(!is_let_in(&[&[host], &twice[..]].concat()), "{twice:?}");
        }
    }

    #[test]
    fn a_form_is_no_json() {
        let kind = |kind| headers(&[("content-type", kind)]);
        assert!(json_only(&kind("application/json; charset=utf-8"), false).is_ok());
        assert!(json_only(&headers(&[]), true).is_ok());
        assert!(json_only(&headers(&[]), false).is_err());
        for other in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
            assert!(json_only(&kind(other), true).is_err(), "{other}");
        }
    }
}
