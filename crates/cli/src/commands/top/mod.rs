//! `redrive top`: everything that goes on, live.
//!
//! Drawing is a function of the model and an area, keys are one of the model and a key; only this file waits, and only `acts`
//! touches the store.

mod acts;
mod draw;
mod keys;
mod model;
#[cfg(test)]
mod recording;
#[cfg(test)]
mod sample;
mod screen;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui_crossterm::crossterm::event::{self, Event, KeyEventKind};
use redrive_operate::overview::{Look, Overview, overview};
use redrive_operate::{Error, Floor};
use tokio::sync::mpsc;

use super::{Answer, Context};
use crate::args::TopArgs;
use crate::exit;
use crate::output::json;
use keys::{Act, press};
use model::{Model, Question};
use screen::Screen;

/// How long a read of the keyboard waits before it looks whether it is still wanted.
const KEYS: Duration = Duration::from_millis(100);

/// What happens while somebody looks.
enum News {
    /// Something was typed, or the terminal changed.
    Typed(Event),
    /// It is time to look.
    Tick,
    /// A look came back.
    Saw(Look, Box<Result<Overview, Error>>),
    /// A preview came back.
    Previewed(Result<Question, Error>),
    /// Something was done.
    Did(Result<String, Error>),
    /// The keyboard is gone.
    NoKeys,
}

/// Shows everything that goes on until somebody quits; with `--json`, once.
pub async fn top(context: &Context, args: TopArgs) -> Answer {
    if context.global.json {
        let look = Look { run: args.run, ..Look::default() };
        json(&overview(&context.floor_to_read()?, &look).await?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Error::wrong("`top` needs a terminal")
            .hint("`redrive runs --watch` tells of changes line by line, `redrive top --json` tells everything once"));
    }
    let floor = context.floor_when_there(args.interval).await?;
    // A run that is not there is told before the screen is taken over.
    let first = overview(&floor, &Look { run: args.run, ..Look::default() }).await?;
    let colour = context.screen().colour;
    let mut model = Model::new(context.global.store.clone(), args.run, colour);
    model.utc = context.global.utc;
    model.saw(Ok(first));
    let screen = Screen::open(colour)?;
    let stopped = Arc::new(AtomicBool::new(false));
    let ended = Live { context, floor, args, screen, stopped: Arc::clone(&stopped) }.watch(model).await;
    stopped.store(true, Ordering::Relaxed);
    ended
}

/// A screen that is kept up to date.
struct Live<'a> {
    context: &'a Context,
    floor: Floor,
    args: TopArgs,
    screen: Screen,
    stopped: Arc<AtomicBool>,
}

impl Live<'_> {
    async fn watch(mut self, mut model: Model) -> Answer {
        let (tell, mut news) = mpsc::channel(64);
        self.read_keys(tell.clone());
        self.tick(tell.clone());
        let mut signals = Signals::listen()?;
        let mut looking = false;
        loop {
            self.screen.draw(|area, buffer| draw::draw(&model, area, buffer))?;
            let news = tokio::select! {
                news = news.recv() => news.unwrap_or(News::NoKeys),
                () = signals.next() => return Ok(exit::interrupted()),
            };
            match news {
                News::NoKeys => return Ok(exit::interrupted()),
                News::Tick if looking => {}
                News::Tick => {
                    looking = true;
                    self.look(&model, tell.clone());
                }
                News::Saw(look, seen) => {
                    looking = false;
                    // A look at something that is no longer shown came too late.
                    if look == model.look() {
                        model.saw(*seen);
                    }
                }
                News::Previewed(preview) => model.previewed(preview),
                News::Did(outcome) => {
                    model.did(outcome);
                    self.look(&model, tell.clone());
                }
                News::Typed(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    match press(&mut model, key) {
                        Some(Act::Quit) => return Ok(ExitCode::SUCCESS),
                        Some(Act::Redraw) => self.screen.clear()?,
                        Some(Act::Look) => self.look(&model, tell.clone()),
                        Some(act) => self.act(act, tell.clone()),
                        None => {}
                    }
                }
                News::Typed(_) => {}
            }
        }
    }

    /// Reads the keyboard, on a thread of its own: a read cannot be waited for otherwise.
    fn read_keys(&self, tell: mpsc::Sender<News>) {
        let stopped = Arc::clone(&self.stopped);
        tokio::task::spawn_blocking(move || {
            while !stopped.load(Ordering::Relaxed) {
                let news = match event::poll(KEYS) {
                    Ok(false) => continue,
                    Ok(true) => event::read().map_or(News::NoKeys, News::Typed),
                    Err(_) => News::NoKeys,
                };
                let last = matches!(news, News::NoKeys);
                if tell.blocking_send(news).is_err() || last {
                    return;
                }
            }
        });
    }

    fn tick(&self, tell: mpsc::Sender<News>) {
        let (clock, interval) = (Arc::clone(&self.context.env.clock), self.args.interval);
        tokio::spawn(async move {
            loop {
                clock.sleep(interval).await;
                if tell.send(News::Tick).await.is_err() {
                    return;
                }
            }
        });
    }

    fn look(&self, model: &Model, tell: mpsc::Sender<News>) {
        let (floor, look) = (self.floor.clone(), model.look());
        tokio::spawn(async move {
            let seen = Box::new(overview(&floor, &look).await);
            // Whoever is gone wants to know nothing.
            let _ = tell.send(News::Saw(look, seen)).await;
        });
    }

    /// Does something to the store, beside what is shown.
    fn act(&self, act: Act, tell: mpsc::Sender<News>) {
        let context = self.context.clone();
        tokio::spawn(async move {
            // It is opened for the act only: who merely looks needs no right to write. That may take a while.
            let news = match tokio::task::spawn_blocking(move || context.floor()).await {
                Ok(Ok(floor)) => done(&floor, act).await,
                Ok(Err(error)) => News::Did(Err(error)),
                Err(error) => News::Did(Err(Error::internal(error.to_string()))),
            };
            // Whoever is gone wants to know nothing.
            let _ = tell.send(news).await;
        });
    }
}

async fn done(floor: &Floor, act: Act) -> News {
    News::Did(match act {
        Act::Preview { group, run } => return News::Previewed(acts::preview(floor, group, run).await),
        Act::PauseRun(run) => acts::pause_run(floor, run).await,
        Act::ResumeRun(run) => acts::resume_run(floor, run).await,
        Act::RetryRun(run) => acts::retry_run(floor, run).await,
        Act::PauseGate(gate) => acts::pause_gate(floor, &gate).await,
        Act::ResumeGate(gate) => acts::resume_gate(floor, gate).await,
        Act::Redrive { group, run } => acts::redrive(floor, &group, run).await,
        Act::Quit | Act::Look | Act::Redraw => Ok(String::new()),
    })
}

/// The signals that end it.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
