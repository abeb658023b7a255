//! Colours, by what a word means.

use anstyle::{AnsiColor, Style};

/// What a word means to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Something is being done.
    Busy,
    /// Something is waited for.
    Wait,
    /// Something went wrong.
    Bad,
    /// Of little weight.
    Dim,
    /// Of more weight than what is around it.
    Strong,
}

impl Tone {
    /// What a state, a status, a class of failures or a verdict means.
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "completed" | "succeeded" | "passed" | "open" | "ok" | "holds" | "done" | "alive" => Self::Good,
            "running" => Self::Busy,
            "queued"
            | "waiting"
            | "joining"
            | "interrupted"
            | "partially_completed"
            | "closed"
            | "parked"
            | "paused"
            | "paused_budget"
            | "paused_quota"
            | "paused_outage"
            | "stopped"
            | "retryable"
            | "throttled"
            | "timeout"
            | "connection"
            | "needs_review" => Self::Wait,
            "dead" | "failed" | "away" | "BAD" | "final" | "exhausted" | "expired" | "quarantined"
            | "crashed" | "partial_success" | "crash" | "quota" | "oversized" | "unknown" | "killed" => {
                Self::Bad
            }
            "filtered" | "superseded" | "cancelled" | "purged" => Self::Dim,
            _ => return None,
        })
    }

    fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Busy => AnsiColor::Cyan.on_default(),
            Self::Wait => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Dim => Style::new().dimmed(),
            Self::Strong => Style::new().bold(),
        }
    }

    /// Puts a text between the signs for its colour.
    pub fn paint(self, text: &str) -> String {
        let style = self.style();
        format!("{style}{text}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_the_colour_of_what_it_means_and_ends_with_none() {
        assert_eq!(Tone::of("dead"), Some(Tone::Bad));
        assert_eq!(Tone::of("a key"), None);
        assert_eq!(Tone::Bad.paint("dead"), "\u{1b}[31mdead\u{1b}[0m");
    }
}
