//! The arguments of a tool, read so that wrong ones are refused as everything else is: by a tool error, which the agent can read and
//! mend, as a document of this server, and with what somebody else wrote marked as such.

use std::borrow::Cow;

use redrive_operate::{Error, Result};
use rmcp::model::CallToolResult;
use rmcp::schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::answer::refusal;

/// The arguments, or why they cannot be read.
pub(crate) struct Given<T>(Result<T>);

impl<T> Given<T> {
    /// The arguments, or the answer to wrong ones.
    pub(crate) fn read(self) -> std::result::Result<T, Box<CallToolResult>> {
        self.0.map_err(|error| Box::new(refusal(&error)))
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let arguments = Value::deserialize(deserializer)?;
        Ok(Self(serde_json::from_value(arguments).map_err(|error| {
            Error::wrong(format!("the arguments cannot be read: {error}"))
                .hint("tools/list has the arguments of every tool, each with its type")
        })))
    }
}

/// The tool is described by what it wants to be given.
impl<T: JsonSchema> JsonSchema for Given<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
