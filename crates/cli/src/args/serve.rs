//! What can be typed after `redrive serve` and `redrive token`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use redrive_operate::work::Serve;
use redrive_operate::{Role, retry_job};
use redrive_server::{Certificate, NewToken, Settings};

use super::{BusArgs, CommandsArgs, EndArgs, OutboundArgs, UnroutedArgs, lease, name};

/// Options of `serve`.
#[derive(Debug, ClapArgs)]
pub struct ServeArgs {
    /// Where to listen: an address with a port, or a port of the loopback; port 0 takes any that is free
    #[arg(long, default_value = "127.0.0.1:7300", value_name = "ADDR", value_parser = listen)]
    pub listen: SocketAddr,
    /// Pipelines that can be named: every *.toml of this folder, looked at again when it changes
    #[arg(long, value_name = "DIR")]
    pub pipelines: Option<PathBuf>,
    /// Work only on runs of these categories; default: all runs
    #[arg(long, alias = "category", value_name = "NAME", value_delimiter = ',', value_parser = name)]
    pub categories: Vec<String>,
    /// Answer only, and leave the work to `redrive work`
    #[arg(long, conflicts_with = "categories")]
    pub no_work: bool,
    /// Most runs that are worked on at a time
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub runs_at_once: u16,
    /// How long work is held without a sign of life before others may take it over
    #[arg(long, value_parser = lease, default_value = "30s", value_name = "SPAN")]
    pub lease: Duration,
    /// What stages may start
    #[command(flatten)]
    pub commands: CommandsArgs,
    /// Whom stages may call
    #[command(flatten)]
    pub outbound: OutboundArgs,
    /// The bus
    #[command(flatten)]
    pub bus: BusArgs,
    /// What nobody wants
    #[command(flatten)]
    pub unrouted: UnroutedArgs,
    /// Listen where other machines can reach it
    #[arg(long, help_heading = "Reached from other machines")]
    pub allow_remote: bool,
    /// A further name by which it is reached, as in the Host header
    #[arg(long, value_name = "NAME", help_heading = "Reached from other machines")]
    pub host: Vec<String>,
    /// The certificate for TLS, and those above it, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Reached from other machines")]
    pub tls_cert: Option<PathBuf>,
    /// The key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Reached from other machines")]
    pub tls_key: Option<PathBuf>,
    /// Let other machines reach it without TLS, where something else encrypts
    #[arg(long, help_heading = "Reached from other machines")]
    pub insecure_http: bool,
    /// What follows the end of a run
    #[command(flatten)]
    pub end: EndArgs,
}

/// Where to listen. A port alone, or that of `localhost`, is one of the loopback.
fn listen(said: &str) -> Result<SocketAddr, String> {
    let port = said.strip_prefix("localhost:").or_else(|| said.strip_prefix(':')).unwrap_or(said);
    match port.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Err(_) => said.parse().map_err(|_| {
            "it is an address with a port, such as 127.0.0.1:7300, [::1]:7300 or 0.0.0.0:7300, or a port of this machine, such as 7300".to_owned()
        }),
    }
}

impl ServeArgs {
    /// How it serves.
    pub fn settings(&self, retry_job: retry_job::Settings) -> Settings {
        let certificate = self.tls_cert.clone().zip(self.tls_key.clone());
        let work = Serve {
            categories: self.categories.clone(),
            lease: self.lease,
            runs_at_once: usize::from(self.runs_at_once),
            ..Serve::default()
        };
        Settings {
            listen: self.listen,
            allow_remote: self.allow_remote,
            certificate: certificate.map(|(chain, key)| Certificate { chain, key }),
            insecure_http: self.insecure_http,
            hosts: self.host.clone(),
            pipelines: self.pipelines.clone(),
            work: (!self.no_work).then_some(work),
            retry_job,
        }
    }
}

/// What is done about tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// List whom `redrive serve` lets in
    List,
    /// Make a token, which is shown once
    Create {
        /// Whose it is
        name: String,
        /// What that one may do
        #[arg(long, value_enum, value_name = "ROLE")]
        role: RoleName,
        /// Keep the contents of items from that one
        #[arg(long)]
        hide_payloads: bool,
    },
    /// Make another token in place of one, which is worth nothing from then on
    Rotate {
        /// Whose it is
        name: String,
    },
    /// Forget a token
    Revoke {
        /// Whose it is
        name: String,
    },
}

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleName {
    /// Claims work of external stages, and does nothing else
    Worker,
    /// Looks at everything
    Viewer,
    /// Hands work over, and acts on runs, items and gates
    Operator,
    /// Everything
    Admin,
}

impl TokenCommand {
    /// Who a token is made for.
    pub fn new_token(name: String, role: RoleName, payloads_hidden: bool) -> NewToken {
        let role = match role {
            RoleName::Worker => Role::Worker,
            RoleName::Viewer => Role::Viewer,
            RoleName::Operator => Role::Operator,
            RoleName::Admin => Role::Admin,
        };
        NewToken { name, role, payloads_hidden }
    }
}
