//! The tool that changes something; it is there only where a person said so.

use redrive_operate::dead::{self, SentBack};
use redrive_operate::{Code, Error, Result};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::CallToolResult;
use rmcp::{tool, tool_router};

use crate::answer::answer;
use crate::ask;
use crate::given::Given;
use crate::server::Server;

#[tool_router(router = writing, vis = "pub(crate)")]
impl Server {
    /// Sends a set back.
    #[tool(
        description = "Send back exactly the dead items of a previewed set, within the limits a person set. What changed since the preview is left alone and counted. Workers then try them again, which may call services and cost money.",
        annotations(
            title = "Start a redrive",
            read_only_hint = false,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = true
        )
    )]
    async fn redrive_start(&self, Parameters(given): Parameters<Given<ask::Start>>) -> CallToolResult {
        let asked = match given.read() {
            Ok(asked) => asked,
            Err(refused) => return *refused,
        };
        answer(self.start(&asked.set).await)
    }
}

impl Server {
    async fn start(&self, set: &str) -> Result<SentBack> {
        let frozen = self.remembered(set).ok_or_else(|| {
            Error::not_found("no set of that name was previewed in this session, or it was long ago")
                .code(Code::NotFound)
                .hint("call redrive_preview, and give `set` of its answer")
        })?;
        dead::send_frozen(&self.floor, &frozen, self.settings.allowed).await
    }
}
