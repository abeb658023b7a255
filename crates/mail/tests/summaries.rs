//! Summaries say more than the beginning of a thread does.

use redrive_mail::corpus::{Options, measure};
use redrive_mail::summary::{Source, summarise};

#[test]
fn a_summary_has_more_of_what_a_thread_came_to_than_its_first_sentences() {
    let rows = measure(Options { seed: 11, messages: 1_200, big: 0, big_bytes: 0 });
    let [ours, lead, each] = &rows[..] else { panic!("three rows") };
    assert!(ours.threads > 50, "{rows:?}");
    assert!(ours.recall > lead.recall + 0.1 && ours.recall > each.recall + 0.1, "{rows:?}");
    assert!(ours.whole > lead.whole + 0.1 && ours.whole > each.whole + 0.1, "{rows:?}");
}

#[test]
fn a_summary_cites_who_said_it_and_does_not_change() {
    let texts = [
        "The build fails on arm since Monday. Lunch was good.",
        "> The build fails on arm since Monday.\nThe linker is too old, so the build fails on arm.",
        "We will update the linker on all arm machines. Bye everybody, see you.",
    ];
    let sources: Vec<Source<'_>> =
        texts.iter().enumerate().map(|(number, text)| Source { number, text }).collect();
    let summary = summarise("build fails on arm", &sources, 3);
    assert_eq!(summary.iter().map(|one| one.number).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(summary, summarise("build fails on arm", &sources, 3));
    assert!(summarise("", &[], 5).is_empty());
    assert!(
        summarise("x", &[Source { number: 0, text: "> only a quotation here, nothing else" }], 5).is_empty()
    );
}
