//! What stays on a terminal once a command has ended, row by row.

use serde_json::json;

use crate::support::{Answer, Place, Server, one_stage, samples};
use crate::top::on_a_terminal;

/// The width that tests have their terminal in.
const WIDTH: usize = 80;

/// The rows of a terminal after what was written to it: as much of one as a progress display needs.
fn rows(written: &str) -> Vec<String> {
    let (mut rows, mut row, mut column) = (vec![Vec::<char>::new()], 0_usize, 0_usize);
    let mut signs = written.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' => {
                let rest: String = signs.clone().skip(1).take_while(|sign| !sign.is_alphabetic()).collect();
                let way = signs.nth(rest.chars().count() + 1);
                let n = rest.parse().unwrap_or(1);
                match way {
                    Some('A') => row = row.saturating_sub(n),
                    Some('B') => row += n,
                    Some('K') => rows[row].clear(),
                    // Colours.
                    _ => {}
                }
            }
            sign => {
                if column == WIDTH {
                    (row, column) = (row + 1, 0);
                }
                rows.resize(rows.len().max(row + 1), Vec::new());
                let line = &mut rows[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = sign;
                column += 1;
            }
        }
        rows.resize(rows.len().max(row + 1), Vec::new());
    }
    rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
}

#[test]
fn nothing_of_the_progress_stays_on_a_terminal_that_was_told_to_stop() {
    let server = Server::good();
    server.hold();
    let last = "[[stage]]\nname = \"last\"\nkind = \"pass\"\n";
    let stage = format!("{}\nconcurrency = 1\n", server.stage());
    let place = Place::with(&format!("{}{last}", one_stage(&stage)), &samples(6));
    let mut run = on_a_terminal(&place, &["run", "p.toml"]);
    run.until_said("0/6");
    run.say("\u{3}");
    run.until_said("stopping:");
    server.release();
    let ended = run.finish().expect(130);
    let rows = rows(&ended.stderr);
    let drawn: Vec<&String> = rows.iter().filter(|row| row.contains('░') || row.contains("0/6")).collect();
    assert!(drawn.is_empty(), "{drawn:?} stayed: {rows:#?}");
    assert!(rows.iter().any(|row| row.starts_with("run r1 ")), "{rows:#?}");
}

#[test]
fn what_is_exported_to_a_terminal_cannot_drive_it_and_a_program_gets_what_is_kept() {
    let hidden = "a\u{9b}2J\u{202e}b\u{200b}";
    let server = Server::start(|_| Answer::status(422, "not like this"));
    let stage = format!("{}\nretry = {{ preset = \"none\" }}", server.stage());
    let place = Place::with(&one_stage(&stage), &format!("{}\n", json!({"id": hidden, "n": 1})));
    place.run(&["run", "p.toml"]);
    let kept = place.run(&["dead", "export"]).expect(0).stdout;
    let list = place.run(&["dead", "list", "--json"]).expect(0).stdout;
    assert!(kept.contains(hidden) && !list.contains(['\u{9b}', '\u{202e}', '\u{200b}']), "{kept:?} {list:?}");
    for args in [&["dead", "export"][..], &["dead", "list", "--json"]] {
        let shown = on_a_terminal(&place, args).finish().expect(0);
        let shown = format!("{}{}", shown.stdout, shown.stderr);
        assert!(shown.contains("a\\u009b2J\\u202eb\\u200b"), "{shown:?}");
        assert!(!shown.contains(['\u{9b}', '\u{202e}', '\u{200b}']), "{shown:?}");
    }
}
