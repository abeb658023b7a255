//! The model that an index is made with, and how it is reached for a query.

use std::collections::BTreeMap;

use redrive_embed::Embedder;
use redrive_pipeline::{Definition, ModelDef, StageKind};
use serde::{Deserialize, Serialize};

/// The model of an index, as its pipeline describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedding {
    /// Its name: two names, two kinds of vectors.
    pub model: String,
    /// How many numbers its vectors have; 0 when only its first answer will tell.
    pub dimensions: u32,
    /// How it is reached, as JSON, for queries.
    pub settings: String,
}

/// How a model is reached for a query; no secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "provider", rename_all = "snake_case")]
pub enum Reached {
    /// The model that redrive brings along.
    Builtin,
    /// A model of a service.
    Openai(ServiceModel),
}

/// A model of a service compatible with OpenAI's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceModel {
    /// Where the service is.
    pub base_url: String,
    /// The model's name.
    pub model: String,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// How many numbers a vector is asked to have.
    pub dimensions: Option<u32>,
    /// Fixed headers.
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are read from environment variables.
    pub header_env: BTreeMap<String, String>,
}

/// The model whose vectors a pipeline keeps in the index, if it does.
#[must_use]
pub fn embedding_of(definition: &Definition) -> Option<Embedding> {
    definition.all_stages().find_map(|stage| match &stage.kind {
        StageKind::EmbedBuiltin { index: true, .. } => {
            let model = redrive_embed::builtin();
            Some(Embedding {
                model: format!("builtin/{}", model.id().name()),
                dimensions: u32::try_from(model.dimensions()).unwrap_or(0),
                settings: written(&Reached::Builtin),
            })
        }
        StageKind::Embed { model, dimensions, index: true, .. } => Some(Embedding {
            model: match dimensions {
                Some(dimensions) => format!("{}/{dimensions}", model.model),
                None => model.model.clone(),
            },
            dimensions: dimensions.unwrap_or(0),
            settings: written(&Reached::Openai(reached(model, *dimensions))),
        }),
        _ => None,
    })
}

fn reached(model: &ModelDef, dimensions: Option<u32>) -> ServiceModel {
    ServiceModel {
        base_url: model.base_url.clone(),
        model: model.model.clone(),
        api_key_env: model.api_key_env.clone(),
        dimensions,
        headers: model.headers.clone(),
        header_env: model.header_env.clone(),
    }
}

fn written(reached: &Reached) -> String {
    serde_json::to_string(reached).unwrap_or_default()
}
