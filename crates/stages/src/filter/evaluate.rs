//! An expression that was read, and what it says of an item.

use std::sync::Arc;

use cel::common::value::Val;
use cel::{Context, Env, ExecutionError, Program, Value};
use redrive_engine::handler::Input;

use super::expression::{self, unpanicked};
use super::{value, weight};

/// An expression that was read.
pub struct Filter {
    expression: String,
    env: Arc<Env>,
    program: Program,
    /// How often it may look at the whole of a payload; `None`: it has loops, and nobody knows.
    weight: Option<u64>,
}

/// What an expression says of an item.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It is true.
    Passed,
    /// It is false, which is the reason.
    TakenOut(String),
    /// It is neither, for this reason.
    Unusable(String),
}

impl Filter {
    /// Reads an expression.
    ///
    /// # Errors
    /// Says what is wrong with it, and where.
    pub fn read(expression: &str) -> Result<Self, String> {
        let program = expression::read(expression)?;
        let weight = weight::of(program.expression());
        Ok(Self { expression: expression.trim().to_owned(), env: Arc::new(Env::stdlib()), program, weight })
    }

    /// Whether it has loops, so that evaluating it may take any time and any memory.
    #[must_use]
    pub fn has_loops(&self) -> bool {
        self.weight.is_none()
    }

    /// How many bytes are looked at to evaluate it for an item at most; `None`: nobody knows.
    pub(super) fn work(&self, item: &Input) -> Option<u64> {
        let size = (item.payload.len() as u64).max(item.key.len() as u64);
        self.weight.map(|weight| weight.saturating_mul(size))
    }

    /// Evaluates it, for as long as that takes.
    pub(super) fn judge(&self, payload: &[u8], key: &str) -> Judged {
        let payload = match value::read(payload) {
            Ok(payload) => payload,
            Err(error) => return Judged::Unusable(format!("the payload is not JSON: {error}")),
        };
        match unpanicked(|| self.evaluate(payload, key)) {
            Ok(Ok(Value::Bool(true))) => Judged::Passed,
            Ok(Ok(Value::Bool(false))) => Judged::TakenOut(format!("{} is false", self.expression)),
            Ok(Ok(other)) => {
                Judged::Unusable(format!("{} is {}, not true or false", self.expression, other.type_of()))
            }
            Ok(Err(ExecutionError::NoSuchKey(key))) => Judged::Unusable(format!(
                "{}: the payload has no {key:?}; has(…) tells whether it is there",
                self.expression
            )),
            Ok(Err(error)) => Judged::Unusable(format!("{}: {error}", self.expression)),
            Err(panic) => Judged::Unusable(format!("{}: evaluation broke off ({panic})", self.expression)),
        }
    }

    fn evaluate(&self, payload: Box<dyn Val>, key: &str) -> Result<Value, ExecutionError> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        context.add_variable_as_val("payload", payload);
        context.add_variable_from_value("key", key);
        self.program.execute(&context)
    }
}
