//! Options of `pipelines`.

use clap::Subcommand;
use redrive_operate::pauses::Which;

/// Commands about pipelines.
#[derive(Debug, Subcommand)]
pub enum PipelinesCommand {
    /// Let nothing more of a pipeline, or of one stage, be worked on, in any run: what runs is finished, the rest waits and spends nothing
    Pause {
        /// The pipeline's name
        name: String,
        /// Only this stage of it
        #[arg(long, value_name = "STAGE")]
        stage: Option<String>,
        /// Why, for those who will wonder
        #[arg(long, default_value = "no reason was given", value_name = "TEXT")]
        why: String,
    },
    /// Let a pipeline go on that was paused as a whole, or one stage of it
    Resume {
        /// The pipeline's name
        name: String,
        /// Only this stage of it
        #[arg(long, value_name = "STAGE")]
        stage: Option<String>,
    },
}

/// Which pipeline, or stage of one.
pub fn which(pipeline: String, stage: Option<String>) -> Which {
    Which { pipeline, stage }
}
