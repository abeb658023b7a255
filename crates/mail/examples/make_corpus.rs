//! Writes a made-up corpus of mail archives into a directory: `make_corpus DIR [SEED] [MESSAGES] [BIG_ATTACHMENTS]`.

use std::path::Path;

use redrive_mail::corpus::{Options, make};

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().unwrap_or_else(|| "corpus".to_owned());
    let mut number = |usual: u64| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (seed, messages, big) = (number(1), number(5_000), number(2));
    let options = Options {
        seed,
        messages: usize::try_from(messages).unwrap_or(5_000),
        big: usize::try_from(big).unwrap_or(2),
        ..Options::default()
    };
    for file in make(options).files {
        let path = Path::new(&dir).join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        std::fs::write(path, &file.bytes)?;
    }
    Ok(())
}
