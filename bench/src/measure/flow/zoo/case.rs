//! One case of the zoo: what a service does, and what is asked of it.

use std::fmt::Write;
use std::time::Duration;

use redrive_rehearse::Plan;

use crate::Failure;

/// What a service takes, and what it turns away.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// Everything passes.
    None,
    /// A bucket that fills at a rate.
    Bucket { rate: f64, burst: u32 },
    /// The same, which goes from 50 a second to 10 and to 200.
    Steps,
    /// The same, of which others take up to 90 %, another part in each period of so many seconds.
    Neighbours { every: u32 },
    /// A bucket of tokens that brings so many items a second, and holds so many.
    Tokens { rate: f64, burst: u32 },
    /// So many in each window of so many seconds.
    Window { most: u32, seconds: u32 },
    /// So many in any span of so many seconds; rejected calls may count.
    Sliding { most: u32, seconds: u32, counting: bool },
    /// So many calls at once; others get this status.
    AtOnce { most: u32, status: u16 },
    /// Each call with this chance.
    Random { share: f64 },
    /// Everything gets this status, for the last `lasts` of every `every` seconds.
    Spells { every: u32, lasts: u32, status: u16 },
    /// So many calls at once go as fast as they can; more make all of them slower, and above `most` there is 503.
    Crowd { servers: u32, most: u32 },
    /// Connections are cut with this chance.
    Dropped { share: f64 },
}

/// What a call that is turned away is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tell {
    /// Nothing.
    None,
    /// When there is room, in milliseconds.
    Exact,
    /// The same in whole seconds.
    Secs,
    /// The same as a date.
    Date,
    /// The same, in the message only.
    Text,
    /// Always so many seconds.
    Always(u32),
}

impl Tell {
    fn key(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Exact => "ms",
            Self::Secs | Self::Always(_) => "seconds",
            Self::Date => "date",
            Self::Text => "text",
        }
    }

    /// As it stands in a case's name.
    pub fn name(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Exact => "exact".to_owned(),
            Self::Secs => "secs".to_owned(),
            Self::Date => "date".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Always(seconds) => format!("{seconds} s"),
        }
    }
}

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it is called.
    pub name: String,
    /// What the service takes.
    pub limit: Limit,
    /// What it says to others.
    pub tell: Tell,
    /// In whose headers it says what is left.
    pub headers: Option<&'static str>,
    /// Whether rejected calls take one as well.
    pub debt: bool,
    /// Milliseconds of a good answer.
    pub latency: u32,
    /// What one answer in a hundred takes at least, in milliseconds.
    pub p99: Option<u32>,
    /// Items.
    pub items: usize,
    /// How many of them, the last ones, always get 500.
    pub bad: usize,
    /// Calls at once that a process may make.
    pub at_once: usize,
    /// Processes that share a store.
    pub processes: usize,
    /// Whether they are asked in OpenAI's chat form.
    pub chat: bool,
}

/// What a text contains that always gets 500.
pub const BAD: &str = "BADBAD";
/// The tokens of an item where tokens are limited.
pub const TOKENS: u32 = 100;

impl Case {
    /// A case of 64 calls at once.
    pub fn new(name: String, limit: Limit, tell: Tell, items: usize, latency: u32) -> Self {
        Self {
            name,
            limit,
            tell,
            headers: None,
            debt: false,
            latency,
            p99: None,
            items,
            bad: 0,
            at_once: 64,
            processes: 1,
            chat: false,
        }
    }

    /// The same with something else about it, and more in its name.
    pub fn but(mut self, more: &str, change: impl FnOnce(&mut Self)) -> Self {
        self.name = format!("{} {more}", self.name);
        change(&mut self);
        self
    }

    /// The plan that the service plays.
    pub fn plan(&self, seed: u64, jitter: Duration) -> Result<Plan, Failure> {
        let text = self.text(jitter);
        let plan = Plan::parse(&text, &self.name).map_err(|error| format!("{error}\n{text}"))?;
        Ok(plan.with_seed(seed))
    }

    fn text(&self, jitter: Duration) -> String {
        let mut text =
            format!("tokens_per_text = {TOKENS}\n[network]\njitter = \"{}ms\"\n", jitter.as_millis());
        // Writing to a string cannot fail.
        let _ = write!(text, "{}[latency]\nbase = \"{}ms\"\n", self.limits(), self.latency);
        match self.p99 {
            Some(p99) => text.push_str(&format!("p99 = \"{p99}ms\"\n")),
            None => text.push_str("jitter = 0.1\n"),
        }
        match self.limit {
            Limit::AtOnce { most, status } => {
                text.push_str(&format!("max_concurrency = {most}\nover_status = {status}\n"));
                if let Tell::Always(seconds) = self.tell {
                    text.push_str(&format!("over_retry_after = \"{seconds}s\"\n"));
                }
            }
            Limit::Crowd { servers, most } => {
                text.push_str(&format!("capacity = {servers}\nmax_concurrency = {most}\n"));
            }
            _ => {}
        }
        text.push_str(&self.faults());
        if self.bad > 0 {
            text.push_str(&format!(
                "[[poison]]\nmarker = \"{BAD}\"\nstatus = 500\ncode = \"server_error\"\n"
            ));
        }
        text
    }

    fn limits(&self) -> String {
        let hint = self.tell.key();
        let headers = self.headers.map_or(String::new(), |whose| format!("headers = \"{whose}\"\n"));
        let debt = self.debt;
        let requests = |rate: f64| {
            format!(
                "[limit]\nhint = \"{hint}\"\n{headers}rejected_calls_consume = {debt}\nrequests_per_second = {rate:?}\n"
            )
        };
        match self.limit {
            Limit::Bucket { rate, burst } => format!("{}burst = {burst}\n", requests(rate)),
            Limit::Steps => format!(
                "{}burst = 50\nsteps = [{{ after = \"15s\", requests_per_second = 10 }}, {{ after = \"35s\", requests_per_second = 200 }}]\n",
                requests(50.0)
            ),
            Limit::Neighbours { every } => {
                format!(
                    "{}burst = 50\nneighbours = {{ share = 0.9, every = \"{every}s\" }}\n",
                    requests(50.0)
                )
            }
            Limit::Tokens { rate, burst } => format!(
                "[limit]\nhint = \"{hint}\"\n{headers}tokens_per_minute = {:?}\ntoken_burst = {}\n",
                rate * 60.0 * f64::from(TOKENS),
                burst * TOKENS
            ),
            Limit::Window { most, seconds } => {
                let rate = f64::from(most) / f64::from(seconds);
                format!("{}kind = \"window\"\nwindow = \"{seconds}s\"\n", requests(rate))
            }
            Limit::Sliding { most, seconds, counting } => {
                let rate = f64::from(most) / f64::from(seconds);
                let text = requests(rate).replace("_consume = false", &format!("_consume = {counting}"));
                format!("{text}kind = \"sliding\"\nwindow = \"{seconds}s\"\n")
            }
            _ => String::new(),
        }
    }

    fn faults(&self) -> String {
        let hint = match self.tell {
            Tell::None => String::new(),
            Tell::Always(seconds) => format!("retry_after = \"{seconds}s\"\n"),
            tell => format!("retry_after = \"end\"\nhint = \"{}\"\n", tell.key()),
        };
        match self.limit {
            Limit::Random { share } => {
                format!("[[fault]]\nkind = \"status\"\nstatus = 429\nquick = true\nrate = {share:?}\n{hint}")
            }
            Limit::Spells { every, lasts, status } => format!(
                "[[fault]]\nkind = \"status\"\nstatus = {status}\nquick = true\nfrom = \"{}s\"\nevery = \"{every}s\"\nlasts = \"{lasts}s\"\n{hint}",
                every - lasts
            ),
            Limit::Dropped { share } => format!("[[fault]]\nkind = \"cut\"\nrate = {share:?}\n"),
            _ => String::new(),
        }
    }

    /// Calls that are turned away whatever a client does, for each that passes.
    pub fn unavoidable(&self) -> f64 {
        match self.limit {
            Limit::Random { share } => share / (1.0 - share),
            _ => 0.0,
        }
    }

    /// Whether it is long enough for its start not to matter, and of one process.
    pub fn steady(&self) -> bool {
        self.processes == 1 && self.items >= 300
    }

    /// How many items can have a good answer.
    pub fn good(&self) -> usize {
        self.items - self.bad
    }
}
