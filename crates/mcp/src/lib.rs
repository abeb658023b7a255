//! The door for agents: tools of the Model Context Protocol over standard input and output.
//!
//! Every tool is a request to the floor and its answer; no rule is here. Three things are this door's own:
//!
//! - texts that somebody else wrote (files, keys, what services said) stand in a field `untrusted_text`, without control
//!   characters, and the server tells the agent that they are data;
//! - answers are short, and say how to go on;
//! - what changes something is there only where a person said so, and within the limits that were given.

mod answer;
mod ask;
mod given;
mod lines;
mod look;
mod rows;
mod server;
mod transport;
mod write;

use redrive_operate::Floor;
use redrive_operate::dead::Allowance;
use rmcp::ServiceExt;

pub use server::Server;

/// What agents may do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Whether dead items may be sent back.
    pub write: bool,
    /// How many at once, and at what price.
    pub allowed: Allowance,
}

/// Answers one agent over standard input and output, until it closes them.
///
/// # Errors
/// When it does not speak the protocol.
pub async fn serve(floor: Floor, settings: Settings) -> Result<(), String> {
    let server = Server::new(floor, settings);
    let running =
        server.serve(transport::Transport::over_stdio()).await.map_err(|error| error.to_string())?;
    running.waiting().await.map_err(|error| error.to_string())?;
    Ok(())
}
