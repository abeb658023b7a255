//! What can be typed after `mcp`.

use clap::Args as ClapArgs;
use redrive_mcp::Settings;
use redrive_operate::dead::Allowance;

/// Options of `mcp`.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub struct McpArgs {
    /// Let the agent send dead items back that it has previewed
    #[arg(long)]
    pub write: bool,
    /// Most items that it may send back at once
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub max_items: u64,
    /// Most US dollars that what it sends back is expected to cost; where that is not known, it may not
    #[arg(long, value_name = "X", value_parser = usd)]
    pub max_usd: Option<f64>,
}

impl From<McpArgs> for Settings {
    fn from(args: McpArgs) -> Self {
        let McpArgs { write, max_items, max_usd } = args;
        Self { write, allowed: Allowance { max_items, max_usd } }
    }
}

fn usd(text: &str) -> Result<f64, String> {
    let usd: f64 = text.parse().map_err(|_| "a number is expected, such as 2.50".to_owned())?;
    if usd.is_finite() && usd >= 0.0 { Ok(usd) } else { Err("it has to be 0 or more".to_owned()) }
}
