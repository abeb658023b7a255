//! What people write to each other.

use super::dice::Dice;
use super::wire::Message;

const PEOPLE: [(&str, &str); 9] = [
    ("Ann Lee", "ann@example.org"),
    ("Bob Stone", "bob@example.net"),
    ("=?utf-8?q?J=C3=B6rg_M=C3=BCller?=", "joerg@example.de"),
    ("=?iso-8859-1?q?Ren=E9e_D.?=", "renee@example.fr"),
    ("\"Chen, Wei\"", "wei@example.cn"),
    ("Dana", "DANA@Example.com"),
    ("", "bot@ci.example.org"),
    ("Eve O'Neil", "eve@example.ie"),
    ("Faisal", "faisal@example.ae"),
];
const THINGS: [&str; 24] = [
    "scheduler",
    "parser",
    "cache",
    "replica",
    "installer",
    "manual",
    "queue",
    "certificate",
    "dashboard",
    "importer",
    "encoder",
    "gateway",
    "snapshot",
    "index",
    "allocator",
    "mirror",
    "compiler",
    "translation",
    "keyboard",
    "archive",
    "proxy",
    "tokenizer",
    "backup",
    "firmware",
];
const TROUBLES: [&str; 12] = [
    "crashes",
    "hangs",
    "leaks memory",
    "loses records",
    "rejects uploads",
    "starts twice",
    "ignores timeouts",
    "prints garbage",
    "drops connections",
    "runs slowly",
    "fails the build",
    "forgets settings",
];
const CAUSES: [&str; 10] = [
    "an integer overflow in the retry counter",
    "a stale lock file left by the updater",
    "the new kernel's polling interval",
    "two threads writing the same header",
    "a missing index on the events table",
    "the default buffer being too small",
    "an expired intermediate signature",
    "locale dependent number formatting",
    "a race between shutdown and flush",
    "duplicate rows from the migration",
];
const REMEDIES: [&str; 10] = [
    "revert the change from last week",
    "raise the limit to four megabytes",
    "rewrite the loop with a bounded channel",
    "pin the older library until spring",
    "add a checksum to every block",
    "split the table by month",
    "ship a hotfix on Thursday",
    "document the workaround and close this",
    "make the option off by default",
    "replace the lock with a lease",
];
const CHATTER: [&str; 14] = [
    "I was away for a few days and only read this now.",
    "My coffee machine broke this morning, so bear with me.",
    "Not sure who else should be copied on this.",
    "The weather here is awful again.",
    "I have not looked at the code in months.",
    "Somebody mentioned this at lunch yesterday.",
    "Please keep the list in copy when you answer.",
    "I can have another look tonight.",
    "That reminds me of a story from university.",
    "Happy new year to everybody by the way.",
    "I am typing this on my phone.",
    "Is there a meeting next week or not?",
    "Sorry for the noise in the other thread.",
    "We can talk about it over lunch some day.",
];

/// A discussion: its messages, and what it came to.
pub(super) struct Discussion {
    pub(super) messages: Vec<Message>,
    pub(super) key_sentences: Vec<String>,
}

impl Discussion {
    pub(super) fn make(dice: &mut Dice, number: usize, size: usize) -> Self {
        let (thing, other) = (*dice.pick(&THINGS), *dice.pick(&THINGS));
        let (trouble, cause, remedy) = (*dice.pick(&TROUBLES), *dice.pick(&CAUSES), *dice.pick(&REMEDIES));
        let key_sentences = vec![
            format!("The {thing} {trouble} when the {other} is busy."),
            format!("It turns out that the {thing} {trouble} because of {cause}."),
            format!("We will {remedy} so that the {thing} works with the {other}."),
        ];
        let subject = format!("{thing} {trouble} #{number}");
        // The first sentence is in the first message, the last one near the end, both somewhere in their middle.
        let places = [0, size / 2, size - 1];
        let started = 1_600_000_000 + i64::try_from(number).unwrap_or(0) * 7_200;
        let mut messages: Vec<Message> = Vec::new();
        for at in 0..size {
            let mut lines: Vec<String> = Vec::new();
            for _ in 0..dice.between(1, 3) {
                lines.push((*dice.pick(&CHATTER)).to_owned());
            }
            if dice.one_in(2) {
                lines.push(format!("I tried the {thing} with the {other} here and saw the same."));
            }
            for (place, sentence) in places.iter().zip(&key_sentences) {
                if *place == at {
                    lines.insert(dice.below(lines.len() + 1), sentence.clone());
                }
            }
            let message = Self::message(dice, number, at, &subject, lines, &messages, started);
            messages.push(message);
        }
        if size > 3 && dice.one_in(8) {
            // A loop: the first message says that it answers the last one.
            let last: Vec<String> = messages[size - 1].id.iter().cloned().collect();
            messages[0].references = last;
        }
        Self { messages, key_sentences }
    }

    fn message(
        dice: &mut Dice,
        number: usize,
        at: usize,
        subject: &str,
        lines: Vec<String>,
        before: &[Message],
        started: i64,
    ) -> Message {
        let (name, address) = *dice.pick(&PEOPLE);
        let parent = (at > 0).then(|| dice.below(at));
        let answered = parent.map(|parent| &before[parent]);
        let mut references = answered.map(|one| one.references.clone()).unwrap_or_default();
        references.extend(answered.and_then(|one| one.id.clone()));
        let quoted = answered.map(|one| one.lines.first().cloned().unwrap_or_default());
        let mut id = Some(format!("m{at}.t{number}.{}@made.example.org", dice.below(100_000)));
        let trouble = dice.below(40);
        match trouble {
            0 if at > 0 => references = vec![format!("lost.{number}.{at}@gone.example.org")],
            1 if at > 0 => references.clear(),
            2 if at > 0 => id = None,
            3 => references.insert(0, format!("lost.{number}@gone.example.org")),
            _ => {}
        }
        let gap = i64::try_from(at * dice.between(600, 90_000)).unwrap_or(0);
        Message {
            id,
            references,
            use_in_reply_to_only: dice.one_in(6),
            subject: if at == 0 { subject.to_owned() } else { format!("Re: {subject}") },
            from: if name.is_empty() { address.to_owned() } else { format!("{name} <{address}>") },
            at: started + gap,
            list: (!number.is_multiple_of(3)).then(|| format!("list-{}.example.org", number % 3)),
            lines,
            quoted,
            form: dice.below(12),
            flaw: dice.below(30),
            from_line: dice.one_in(15),
            big: 0,
        }
    }
}
