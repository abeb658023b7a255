//! What can be typed after `rehearse`.

use std::net::SocketAddr;

use clap::Args as ClapArgs;

/// Options of `rehearse`.
#[derive(Debug, ClapArgs)]
pub struct RehearseArgs {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, default_value = "127.0.0.1:9000", value_name = "ADDR")]
    pub listen: SocketAddr,
    /// A built-in plan, or a file; `list` lists the built-in ones
    #[arg(long, default_value = "calm", value_name = "NAME|FILE")]
    pub plan: String,
    /// Other dice than the plan's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// List the built-in plans
    #[arg(long)]
    pub list: bool,
    /// Listen where other machines can reach it
    #[arg(long)]
    pub allow_remote: bool,
}
