//! A request that was let in, taken apart.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use axum::body::Bytes;
use redrive_operate::{Error, Floor, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::app::App;
use crate::guard::Bearer;
use crate::limits;
use crate::pages;
use crate::route::{Kind, Param};

/// A request that was let in.
pub struct Call {
    /// The floor, with who asks.
    pub floor: Floor,
    /// Everything else.
    pub app: Arc<App>,
    /// The path of its route, with names in braces.
    pub route: &'static str,
    /// The values in its path, by name.
    pub path: BTreeMap<String, String>,
    /// The values in its query, by name.
    pub query: Query,
    /// Its body.
    pub body: Bytes,
    /// What the request shows of who asks.
    pub bearer: Option<Bearer>,
    /// The number of the last event that a follower has seen.
    pub last_event: Option<String>,
}

impl Call {
    /// A value in the path.
    ///
    /// # Errors
    /// When it is not what it should be.
    pub fn part<T: FromStr>(&self, name: &str) -> Result<T>
    where
        T::Err: std::fmt::Display,
    {
        self.text(name).parse().map_err(|error| Error::wrong(format!("`{name}` in the path: {error}")))
    }

    /// A value in the path, as it is.
    pub fn text(&self, name: &str) -> &str {
        self.path.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Where a list goes on, as the floor says it; `None`: from its beginning.
    ///
    /// # Errors
    /// When what is given is no cursor of this list.
    pub fn after(&self) -> Result<Option<String>> {
        self.query.text("after").map(|cursor| pages::opened(self.route, &cursor)).transpose()
    }

    /// The same where the floor goes on after a number.
    ///
    /// # Errors
    /// When what is given is no cursor of this list.
    pub fn after_id<T: FromStr>(&self) -> Result<Option<T>> {
        self.after()?.map(|place| place.parse().map_err(|_| pages::no_cursor())).transpose()
    }

    /// A cursor of this list, made of where the floor goes on.
    pub fn next(&self, place: Option<impl std::fmt::Display>) -> Option<String> {
        place.map(|place| pages::sealed(self.route, &place.to_string()))
    }

    /// The body, as what it has to be.
    ///
    /// # Errors
    /// When it is no such JSON.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T> {
        let body: &[u8] = if self.body.is_empty() { b"{}" } else { &self.body };
        // By serde's rules a list would do for an object.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(Error::wrong("the body has to be a JSON object"));
        }
        serde_json::from_slice(body).map_err(|error| Error::wrong(format!("the body: {error}")))
    }
}

/// The parameters of a query: each once, and none that the route does not know.
#[derive(Debug, Clone, Default)]
pub struct Query(BTreeMap<&'static str, String>);

impl Query {
    /// Takes a query apart.
    ///
    /// # Errors
    /// When it is not what the route knows.
    pub fn read(text: &str, known: &[Param]) -> Result<Self> {
        if text.len() > limits::QUERY {
            return Err(Error::wrong(format!("a query has at most {} bytes", limits::QUERY)));
        }
        let mut found = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            let Some(param) = known.iter().find(|param| param.name == name) else {
                let names: Vec<&str> = known.iter().map(|param| param.name).collect();
                let error = Error::wrong(format!("there is no parameter {name:?}"));
                return Err(match names.is_empty() {
                    true => error.hint("this route has no parameters"),
                    false => error.hint(format!("known parameters: {}", names.join(", "))),
                });
            };
            check(param, &value)?;
            if found.insert(param.name, value).is_some() {
                return Err(Error::wrong(format!("the parameter {name:?} is there twice")));
            }
        }
        if let Some(param) = known.iter().find(|param| param.required && !found.contains_key(param.name)) {
            return Err(Error::wrong(format!("the parameter {:?} has to be given", param.name)));
        }
        Ok(Self(found))
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    /// A number.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.0.get(name)?.parse().ok()
    }

    /// A flag.
    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| value == "true")
    }

    /// Something that is written as a text.
    ///
    /// # Errors
    /// When it is none of those there are.
    pub fn one<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        self.0.get(name).map(|value| word(name, value)).transpose()
    }

    /// Several that are written as texts, parted by commas.
    ///
    /// # Errors
    /// When one is none of those there are.
    pub fn several<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>> {
        let Some(all) = self.0.get(name) else { return Ok(Vec::new()) };
        all.split(',').map(|value| word(name, value)).collect()
    }
}

fn word<T: DeserializeOwned>(name: &str, value: &str) -> Result<T> {
    serde_json::from_value(Value::String(value.to_owned()))
        .map_err(|error| Error::wrong(format!("the parameter {name:?}: {error}")))
}

fn check(param: &Param, value: &str) -> Result<()> {
    let fits = match param.kind {
        Kind::Text | Kind::Schema(_) => !value.is_empty(),
        Kind::Count(most) => value.parse().is_ok_and(|count: usize| (1..=most).contains(&count)),
        Kind::Number => value.parse().is_ok_and(|number: i64| (0..=limits::NUMBER).contains(&number)),
        Kind::Share => value.parse().is_ok_and(|share: f64| (0.0..=1.0).contains(&share)),
        Kind::Flag => ["true", "false"].contains(&value),
    };
    match (fits, param.kind) {
        (true, _) => Ok(()),
        (false, Kind::Count(most)) => {
            Err(Error::wrong(format!("the parameter {:?} is a number from 1 to {most}", param.name)))
        }
        (false, Kind::Number) => Err(Error::wrong(format!(
            "the parameter {:?} is a number from 0 to {}: {}",
            param.name,
            limits::NUMBER,
            param.about
        ))),
        (false, Kind::Share) => {
            Err(Error::wrong(format!("the parameter {:?} is a share from 0 to 1", param.name)))
        }
        (false, Kind::Flag) => {
            Err(Error::wrong(format!("the parameter {:?} is `true` or `false`", param.name)))
        }
        (false, Kind::Text | Kind::Schema(_)) => {
            Err(Error::wrong(format!("the parameter {:?} is empty", param.name)))
        }
    }
}

/// A part of a query without its escapes.
fn decoded(text: &str) -> Result<String> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = text.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
                out.push(digits.ok_or_else(|| Error::wrong("the query has a broken escape"))?);
                at += 2;
            }
            other => out.push(other),
        }
    }
    String::from_utf8(out).map_err(|_| Error::wrong("the query is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::param;

    const KNOWN: &[Param] = &[
        param("limit", Kind::Count(500), "how many"),
        param("text", Kind::Text, "what"),
        param("all", Kind::Flag, "whether"),
        param("since", Kind::Number, "within so many milliseconds"),
    ];

    #[test]
    fn what_a_route_knows_is_taken() {
        let query = Query::read("limit=20&text=a%2Fb+c%C3%A9&all=true", KNOWN).expect("fine");
        assert_eq!((query.number("limit"), query.text("text")), (Some(20), Some("a/b cé".to_owned())));
        assert!(query.flag("all"));
        assert_eq!(Query::read("", KNOWN).expect("fine").text("text"), None);
    }

    #[test]
    fn what_it_does_not_know_is_refused() {
        for (text, why) in [
            ("limit=0", "from 1 to 500"),
            ("limit=501", "from 1 to 500"),
            ("limit=-1", "from 1 to 500"),
            ("all=yes", "`true` or `false`"),
            ("since=24h", "within so many milliseconds"),
            ("text=", "is empty"),
            ("text=a&text=b", "there twice"),
            ("colour=red", "there is no parameter"),
            ("text=%zz", "broken escape"),
            ("text=%", "broken escape"),
            ("text=%ff", "not UTF-8"),
        ] {
            let told = Query::read(text, KNOWN).expect_err(text).message;
            assert!(told.contains(why), "{text}: {told}");
        }
        assert!(Query::read(&"a".repeat(9_000), KNOWN).is_err());
    }
}
