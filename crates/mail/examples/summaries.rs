//! Measures summaries against the first sentences of a thread, over a made-up corpus: `summaries [SEED] [MESSAGES]`.
//!
//! Every thread of the corpus has three sentences that tell its problem, its cause and what was decided, at places of their own among others. What is
//! measured is the share of their words that as many sentences of a summary have (ROUGE-1 recall), and how many of the three are there.

#![expect(clippy::print_stdout, reason = "an example prints")]

use redrive_mail::corpus::{Options, measure};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual: u64| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (seed, messages) = (number(1), number(5_000));
    let messages = usize::try_from(messages).unwrap_or(5_000);
    for row in measure(Options { seed, messages, big: 0, big_bytes: 0 }) {
        println!(
            "{:<28} recall {:.3}   key sentences {:.3}   ({} threads)",
            row.name, row.recall, row.whole, row.threads
        );
    }
}
