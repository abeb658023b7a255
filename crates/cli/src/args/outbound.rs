//! What can be said of whom stages may call.

use clap::Args as ClapArgs;
use redrive_stages::{Outbound, Peer};

/// Whom stages may call.
#[derive(Debug, Clone, ClapArgs)]
pub struct OutboundArgs {
    /// Let pipelines that are sent call this, though it is no public address
    #[arg(long, value_name = "HOST[:PORT]|BLOCK", value_delimiter = ',', help_heading = "Calls to services")]
    pub allow_outbound: Vec<Peer>,
    /// Let no stage of any pipeline call anything but this
    #[arg(long, value_name = "HOST[:PORT]|BLOCK", value_delimiter = ',', help_heading = "Calls to services")]
    pub outbound_only: Vec<Peer>,
}

impl OutboundArgs {
    /// What was said.
    pub fn settings(&self) -> Outbound {
        let only = (!self.outbound_only.is_empty()).then(|| self.outbound_only.clone());
        Outbound { only, also: self.allow_outbound.clone() }
    }
}
