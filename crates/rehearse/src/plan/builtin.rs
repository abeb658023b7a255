//! Plans that come with the program.

/// A plan that comes with the program.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Its TOML text.
    pub text: &'static str,
}

macro_rules! builtins {
    ($($name:literal),+ $(,)?) => {
        &[$(Builtin { name: $name, text: include_str!(concat!("../../plans/", $name, ".toml")) }),+]
    };
}

impl Builtin {
    /// All of them.
    pub const ALL: &'static [Self] = builtins![
        "calm",
        "strict",
        "silent",
        "greedy",
        "liar",
        "shrinking",
        "tokens",
        "flaky",
        "bursts",
        "outage",
        "blackout",
        "crowded",
        "slow",
        "broken",
        "poison",
        "small-batches",
        "quota",
        "locked",
        "shedding",
        "two-at-once",
        "small-bucket",
        "minute",
        "hiccups",
        "window",
        "sliding",
        "neighbours",
        "tails",
        "dropped",
        "openai",
        "anthropic",
        "azure",
        "mistral",
        "groq",
        "github",
        "ietf",
        "chaos",
    ];

    /// What it does, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        super::Plan::builtin(self.name).map(|plan| plan.summary).unwrap_or_default()
    }
}
