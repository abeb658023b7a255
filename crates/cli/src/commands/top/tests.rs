//! The screen at three sizes, and what keys do, without a terminal.

use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use redrive_core::id::RunId;
use redrive_core::time::Timestamp;
use redrive_operate::Error;
use redrive_operate::overview::Overview;

use super::draw::draw;
use super::keys::{Act, press};
use super::model::{Model, Panel, Question, Word, going, sent_back};
use super::recording::{drawn, is_kept_as};
use super::sample;

/// What is on a screen of a size, as text.
fn screen(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen in memory");
    terminal
        .draw(|frame| {
            let area = frame.area();
            draw(model, area, frame.buffer_mut());
        })
        .expect("drawn");
    let buffer = terminal.backend().buffer();
    let row =
        |y: u16| (0..width).filter_map(|x| buffer.cell((x, y))).map(|cell| cell.symbol()).collect::<String>();
    (0..height).map(|y| format!("{}\n", row(y).trim_end())).collect()
}

fn key(model: &mut Model, code: KeyCode) -> Option<Act> {
    press(model, KeyEvent::from(code))
}

fn asked() -> Question {
    let first = vec!["k1".to_owned(), "k2".to_owned()];
    Question { group: "5c1e0d9a7b22".to_owned(), run: None, items: 150, skipped: 3, first }
}

#[test]
fn the_screen_is_as_it_was_at_every_size() {
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        let text = screen(&sample::after(10), width, height);
        is_kept_as(&format!("tests/snapshots/top-{width}x{height}.txt"), &text);
    }
    let mut one = sample::after(10);
    key(&mut one, KeyCode::Down);
    key(&mut one, KeyCode::Enter);
    is_kept_as("tests/snapshots/top-run-80x24.txt", &screen(&one, 80, 24));
    let mut question = sample::after(10);
    question.previewed(Ok(asked()));
    is_kept_as("tests/snapshots/top-question-80x24.txt", &screen(&question, 80, 24));
    let mut help = sample::after(10);
    key(&mut help, KeyCode::Char('?'));
    is_kept_as("tests/snapshots/top-help-80x24.txt", &screen(&help, 80, 24));
}

#[test]
fn the_screen_is_drawn_at_any_size_and_before_the_first_look() {
    for model in [sample::after(3), Model::new("s".to_owned(), None, false)] {
        for (width, height) in [(1, 1), (20, 5), (60, 14), (79, 15), (300, 90)] {
            drawn(&model, width, height);
        }
    }
    assert!(screen(&sample::after(3), 30, 10).contains("a larger window is needed"));
}

#[test]
fn without_colours_nothing_is_coloured_and_the_signs_tell_the_states_apart() {
    let mut model = sample::after(3);
    let coloured = drawn(&model, 80, 24);
    model.colour = false;
    let plain = drawn(&model, 80, 24);
    let colours = |buffer: &ratatui_core::buffer::Buffer| {
        buffer.content().iter().filter(|cell| cell.fg != ratatui_core::style::Color::Reset).count()
    };
    assert!(colours(&coloured) > 50 && colours(&plain) == 0);
    let text = screen(&model, 80, 24);
    assert!(["█", "=", "X", ">", "░"].iter().all(|sign| text.contains(sign)), "{text}");
}

#[test]
fn a_number_that_is_too_long_is_told_in_thousands_and_never_cut() {
    let mut model = sample::after(1);
    let mut look = sample::look(2);
    look.runs[0].counts.admitted = 1_234_567_890;
    look.runs[0].stages[0].came = 987_654_321;
    look.dead[0].items = 12_345_678;
    model.saw(Ok(look));
    let text = screen(&model, 80, 24);
    for number in ["1.2G", "987.6M", "12.3M"] {
        assert!(text.contains(number), "{number}: {text}");
    }
}

#[test]
fn keys_move_the_cursor_and_it_stays_on_what_it_was_on() {
    let mut model = sample::after(1);
    assert_eq!(model.chosen_run().map(|run| run.run), Some(RunId(3)));
    key(&mut model, KeyCode::Char('j'));
    key(&mut model, KeyCode::Down);
    key(&mut model, KeyCode::Down);
    assert_eq!(model.chosen_run().map(|run| run.run), Some(RunId(1)), "it stops at the last");
    key(&mut model, KeyCode::Char('k'));
    assert_eq!(model.chosen_run().map(|run| run.run), Some(RunId(2)));
    let mut later = sample::look(2);
    later.runs.reverse();
    model.saw(Ok(later));
    assert_eq!((model.at(Panel::Runs), model.chosen_run().map(|run| run.run)), (1, Some(RunId(2))));
    model.saw(Ok(Overview { runs: Vec::new(), ..sample::look(3) }));
    assert_eq!(key(&mut model, KeyCode::Enter), None, "nothing is under the cursor");
}

#[test]
fn p_u_and_r_act_on_what_is_under_the_cursor() {
    let mut model = sample::after(1);
    assert_eq!(key(&mut model, KeyCode::Char('p')), Some(Act::PauseRun(RunId(3))));
    assert_eq!(key(&mut model, KeyCode::Char('u')), Some(Act::ResumeRun(RunId(3))));
    assert_eq!(key(&mut model, KeyCode::Char('r')), Some(Act::RetryRun(RunId(3))));
    key(&mut model, KeyCode::Tab);
    key(&mut model, KeyCode::Down);
    assert_eq!(key(&mut model, KeyCode::Char('p')), Some(Act::PauseGate("files".to_owned())));
    assert_eq!(key(&mut model, KeyCode::Char('u')), Some(Act::ResumeGate("files".to_owned())));
    key(&mut model, KeyCode::Tab);
    assert_eq!(key(&mut model, KeyCode::Char('p')), None);
    assert!(matches!(&model.word, Some(Word::Done(word)) if word.contains("Tab")), "{:?}", model.word);
    assert_eq!(key(&mut model, KeyCode::Char('r')), None, "the cursor is on no run");
    key(&mut model, KeyCode::BackTab);
    assert_eq!(model.panel, Panel::Gates);
}

#[test]
fn nothing_is_sent_back_before_somebody_said_yes() {
    let mut model = sample::after(1);
    assert_eq!(key(&mut model, KeyCode::Char('d')), None, "no group is under the cursor");
    key(&mut model, KeyCode::BackTab);
    let group = || "5c1e0d9a7b22".to_owned();
    let preview = Act::Preview { group: group(), run: None };
    assert_eq!(key(&mut model, KeyCode::Char('d')), Some(preview.clone()));
    for no in [KeyCode::Char('n'), KeyCode::Enter, KeyCode::Esc, KeyCode::Char('q')] {
        model.previewed(Ok(asked()));
        assert_eq!(key(&mut model, no), None, "{no:?}");
        assert_eq!(model.asked, None);
    }
    model.previewed(Ok(asked()));
    assert_eq!(key(&mut model, KeyCode::Char('y')), Some(Act::Redrive { group: group(), run: None }));
    model.previewed(Ok(Question { items: 0, ..asked() }));
    assert_eq!(model.asked, None, "there is nothing to ask");
    assert!(
        matches!(&model.word, Some(Word::Done(word)) if word.contains("3 items cannot")),
        "{:?}",
        model.word
    );
}

#[test]
fn one_run_is_shown_alone_and_so_are_its_dead_items() {
    let mut model = sample::after(1);
    key(&mut model, KeyCode::Down);
    assert_eq!(key(&mut model, KeyCode::Enter), Some(Act::Look));
    assert_eq!(model.look().run, Some(RunId(2)));
    key(&mut model, KeyCode::BackTab);
    let preview = Act::Preview { group: "5c1e0d9a7b22".to_owned(), run: Some(RunId(2)) };
    assert_eq!(key(&mut model, KeyCode::Char('d')), Some(preview));
    assert_eq!((key(&mut model, KeyCode::Esc), model.look().run), (Some(Act::Look), None));
}

#[test]
fn what_was_done_is_told_with_what_is_left_to_do() {
    assert_eq!(going(1, RunId(1)), "1 waiting item of r1 goes now");
    assert_eq!(going(2, RunId(1)), "2 waiting items of r1 go now");
    assert_eq!(sent_back(2, 1, None), "sent 2 items back, 1 left alone");
    assert_eq!(
        sent_back(1, 0, Some(RunId(7))),
        "sent 1 item back; nobody is at it: redrive resume r7",
        "it waits for somebody"
    );
}

#[test]
fn the_next_item_is_due_in_some_time_or_now_and_exactly_where_asked_for() {
    let mut model = sample::after(1);
    model.show(Some(RunId(3)));
    for (away, utc, told) in [
        (40_000, false, "next item due in 40 s".to_owned()),
        (-500_000, false, "next item due now".to_owned()),
        (-500_000, true, String::new()),
    ] {
        let mut look = sample::look(2);
        let due = Timestamp(look.now.0 + away).to_string();
        let run = look.runs.iter_mut().find(|run| run.run == RunId(3)).expect("it is there");
        (run.next_due, run.ended) = (Some(due.clone()), false);
        model.utc = utc;
        model.saw(Ok(look));
        let told = if utc { format!("next item due {due}") } else { told };
        let text = screen(&model, 120, 40);
        assert!(text.contains(&told), "{told}: {text}");
    }
}

#[test]
fn a_gate_that_no_call_came_back_through_has_no_latency() {
    let mut model = sample::after(1);
    let mut look = sample::look(2);
    look.gates.iter_mut().for_each(|gate| gate.latency_ms = 0);
    model.saw(Ok(look));
    let text = screen(&model, 200, 50);
    assert!(text.contains("latency") && !text.contains("0 ms"), "{text}");
}

#[test]
fn a_store_that_does_not_answer_is_told_and_the_last_look_stays() {
    let mut model = sample::after(5);
    model.saw(Err(Error::internal("the disk is full")));
    let text = screen(&model, 80, 24);
    assert!(text.contains("the store: the disk is full; trying on") && text.contains("r3"), "{text}");
    model.saw(Ok(sample::look(6)));
    assert!(!screen(&model, 80, 24).contains("the disk is full"));
    model.did(Err(Error::refused("run r1 is finished already").hint("look")));
    assert!(screen(&model, 80, 24).contains("run r1 is finished already (look)"));
}

#[test]
fn an_error_text_cannot_drive_the_terminal() {
    let mut model = sample::after(1);
    let mut look = sample::look(2);
    look.dead[0].message = "\u{1b}[2J\u{7}gone".to_owned();
    model.saw(Ok(look));
    assert!(!screen(&model, 80, 24).contains(['\u{1b}', '\u{7}']));
}

#[test]
fn q_and_control_c_quit() {
    let mut model = sample::after(1);
    assert_eq!(key(&mut model, KeyCode::Char('q')), Some(Act::Quit));
    model.previewed(Ok(asked()));
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(press(&mut model, control_c), Some(Act::Quit), "even while something is asked");
}
