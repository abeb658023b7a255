//! Reads a JSON string on each line and writes its tokens as a JSON list: what `model/scripts/check_tokenizer.py` asks.

use std::io::{self, BufRead, BufWriter, Write};

fn main() -> io::Result<()> {
    let words = redrive_embed::builtin().tokenizer();
    let mut output = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        serde_json::to_writer(&mut output, &words.encode(&text))?;
        output.write_all(b"\n")?;
    }
    output.flush()
}
