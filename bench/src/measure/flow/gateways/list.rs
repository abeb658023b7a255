//! Which gateways, and what they let through.

use std::fmt;

/// A program that is a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// From Debian.
    Nginx,
    /// From Debian.
    Haproxy,
    /// From PyPI.
    LiteLlm,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::LiteLlm => "litellm",
        })
    }
}

/// What a gateway lets through.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// 50 a second, beyond so many at first.
    Rate { burst: f64 },
    /// So many at once.
    AtOnce { most: f64 },
    /// 100 in any two seconds.
    Sliding,
    /// 600 in each minute of the clock.
    Minute,
}

/// One gateway with one limit.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What it is called.
    pub name: &'static str,
    /// The program.
    pub program: Program,
    /// What is written where the file says `@LIMIT@`.
    pub text: &'static str,
    /// What that means.
    pub limit: Limit,
    /// Items.
    pub items: usize,
    /// Whether it is asked in OpenAI's chat form.
    pub chat: bool,
}

impl Case {
    /// Seconds that a client takes who knows the limit.
    pub fn ideal(&self) -> f64 {
        const LATENCY: f64 = 0.05;
        let items = self.items as f64;
        match self.limit {
            Limit::Rate { burst } => (items - 1.0 - burst) / 50.0 + LATENCY,
            Limit::AtOnce { most } => (items / most).ceil() * LATENCY,
            Limit::Sliding => ((items - 1.0) / 100.0).floor() * 2.0 + LATENCY,
            Limit::Minute => ((items - 1.0) / 600.0).floor() * 60.0 + LATENCY,
        }
    }
}

/// All of them.
pub fn all() -> Vec<Case> {
    let nginx =
        |name, text, limit, items| Case { name, program: Program::Nginx, text, limit, items, chat: false };
    let full = Limit::Rate { burst: 20.0 };
    vec![
        nginx(
            "nginx 50r/s no burst 429",
            "limit_req zone=calls; limit_req_status 429;",
            Limit::Rate { burst: 0.0 },
            1_000,
        ),
        nginx(
            "nginx 50r/s burst=20 nodelay 429",
            "limit_req zone=calls burst=20 nodelay; limit_req_status 429;",
            full,
            1_000,
        ),
        nginx("nginx 50r/s burst=20 nodelay 503", "limit_req zone=calls burst=20 nodelay;", full, 1_000),
        nginx("nginx 50r/s burst=20 delay 503", "limit_req zone=calls burst=20;", full, 1_000),
        nginx("nginx limit_conn 8 503", "limit_conn open 8;", Limit::AtOnce { most: 8.0 }, 600),
        Case {
            name: "HAProxy 100 in 2 s, rejected count",
            program: Program::Haproxy,
            text: "",
            limit: Limit::Sliding,
            items: 1_000,
            chat: false,
        },
        Case {
            name: "LiteLLM rpm 600",
            program: Program::LiteLlm,
            text: "",
            limit: Limit::Minute,
            items: 900,
            chat: true,
        },
    ]
}
