//! A stage that takes items out by an expression in the Common Expression Language.
//!
//! The expression sees `payload` and `key`. True lets an item through as it is, false takes it out; anything else is
//! the item's failure, and another try could not help.

mod expression;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use cel::objects::{Key, Map};
use cel::{Context, Env, ExecutionError, Program, Value};
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_engine::handler::{Answer, Handler, Input, Reply, Request};
use serde_json::Value as Json;

use crate::protocol::Decoder;
use expression::unpanicked;

/// Lets items through for which an expression is true.
pub struct FilterHandler {
    expression: String,
    env: Arc<Env>,
    program: Program,
    decoder: Decoder,
}

impl FilterHandler {
    /// Reads the expression.
    ///
    /// # Errors
    /// Says what is wrong with it, and where.
    pub fn new(expression: &str) -> Result<Self, String> {
        let program = expression::read(expression)?;
        let (env, decoder) = (Arc::new(Env::stdlib()), Decoder::default());
        Ok(Self { expression: expression.trim().to_owned(), env, program, decoder })
    }

    /// The same, and what is let through has the verdict that stands at a JSON pointer in its payload.
    #[must_use]
    pub fn judging(self, verdict: Option<String>) -> Self {
        Self { decoder: Decoder { verdict, ..self.decoder }, ..self }
    }

    fn evaluate(&self, payload: Json, key: &str) -> Result<Value, ExecutionError> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        context.add_variable_from_value("payload", value(payload));
        context.add_variable_from_value("key", key);
        self.program.execute(&context)
    }

    fn judge(&self, item: &Input) -> ItemReply {
        let payload = match serde_json::from_slice(&item.payload) {
            Ok(payload) => payload,
            Err(error) => return unusable(format!("the payload is not JSON: {error}")),
        };
        match unpanicked(|| self.evaluate(payload, &item.key)) {
            Ok(Ok(Value::Bool(true))) => self.decoder.passed_as_it_is(item),
            Ok(Ok(Value::Bool(false))) => ItemReply::Filtered(format!("{} is false", self.expression)),
            Ok(Ok(other)) => {
                unusable(format!("{} is {}, not true or false", self.expression, other.type_of()))
            }
            Ok(Err(ExecutionError::NoSuchKey(key))) => unusable(format!(
                "{}: the payload has no {key:?}; has(…) tells whether it is there",
                self.expression
            )),
            Ok(Err(error)) => unusable(format!("{}: {error}", self.expression)),
            Err(panic) => unusable(format!("{}: evaluation broke off ({panic})", self.expression)),
        }
    }
}

#[async_trait]
impl Handler for FilterHandler {
    async fn call(&self, request: Request) -> Answer {
        Reply::Items(request.items.iter().map(|item| self.judge(item)).collect()).into()
    }
}

fn unusable(message: String) -> ItemReply {
    ItemReply::Failed { failure: Failure::new(Class::Final, Kind::Input, message), shared: false }
}

/// A JSON value as the expression sees it. Whole numbers are `int`, so that they can be reckoned with literals.
fn value(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(bool) => Value::Bool(bool),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(uint)) => Value::UInt(uint),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(Arc::new(text)),
        Json::Array(list) => Value::List(Arc::new(list.into_iter().map(value).collect())),
        Json::Object(object) => {
            let map: HashMap<Key, Value> =
                object.into_iter().map(|(key, json)| (Key::String(Arc::new(key)), value(json))).collect();
            Value::Map(Map { map: Arc::new(map) })
        }
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::id::{ContentHash, ItemId, RunId};

    use super::*;

    fn judged(expression: &str, payload: &str) -> String {
        let id = ItemId::derive(RunId(1), None, "k1", ContentHash::of(&[]));
        let item = Input::new(id, "k1", payload.as_bytes().into(), "i");
        match FilterHandler::new(expression).unwrap().judge(&item) {
            ItemReply::Output(None) => "passed".to_owned(),
            ItemReply::Filtered(reason) => format!("filtered: {reason}"),
            ItemReply::Failed { failure, shared: false } => failure.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn true_passes_and_false_takes_out() {
        let payload =
            r#"{"n": 3, "f": 2.5, "big": 18446744073709551615, "tags": ["x"], "text": "été", "none": null}"#;
        for expression in [
            "payload.n > 2",
            "payload.n + 1 == 4",
            "payload.f < 3.0",
            "payload.big > 5u",
            "'x' in payload.tags",
            "payload.tags.exists(tag, tag == 'x')",
            "size(payload.text) == 3",
            "payload.none == null",
            "has(payload.n) && !has(payload.missing)",
            "key == 'k1'",
            "key.startsWith('k')",
            "true",
        ] {
            assert_eq!(judged(expression, payload), "passed", "{expression}");
        }
        assert_eq!(judged(" payload.n > 3", payload), "filtered: payload.n > 3 is false");
    }

    #[test]
    fn whatever_is_neither_is_the_items_fault() {
        let table = [
            ("payload.n", "{\"n\":3}", "final/input: payload.n is int, not true or false"),
            ("payload.n > 2", "{}", "final/input: payload.n > 2: the payload has no \"n\""),
            ("payload.n > 2", "{\"n\":\"3\"}", "final/input: payload.n > 2: "),
            ("payload.n / 0 > 2", "{\"n\":3}", "final/input: payload.n / 0 > 2: Division by zero"),
            ("payload.n * 2 > 2", "{\"n\":9223372036854775807}", "final/input: payload.n * 2 > 2: Overflow"),
            ("payload[5] == 1", "[1]", "final/input: "),
            ("payload.n > 2", "nonsense", "final/input: the payload is not JSON"),
        ];
        for (expression, payload, expected) in table {
            let judged = judged(expression, payload);
            assert!(judged.starts_with(expected), "{expression}: {judged}");
        }
    }

    #[test]
    fn the_deepest_expression_fits_on_a_small_stack() {
        for (begin, part, end) in
            [("payload", "['a']", " == 1"), ("1", "+1", " > 1"), ("payload", ".a", " == 1")]
        {
            let expression = format!("{begin}{}{end}", part.repeat(62));
            let payload = format!("{}1{}", "{\"a\":".repeat(62), "}".repeat(62));
            let small = std::thread::Builder::new().stack_size(1 << 20);
            let passed = small.spawn(move || judged(&expression, &payload)).unwrap();
            assert_eq!(passed.join().unwrap(), "passed", "{part}");
        }
    }
}
