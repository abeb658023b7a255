//! The daemon: workers, operations, pipelines of a folder and the door, in one process.

use std::any::Any;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_engine::report::RunReport;
use redrive_engine::worker::Stop;
use redrive_operate::catalog::{Catalog, Reloaded};
use redrive_operate::operations::Carrier;
use redrive_operate::work::{self, Notice, Observer, Serve, Served, UnderWay};
use redrive_operate::{Error, Floor, Result, conflicts, retry_job};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::app::App;
use crate::bodies::Bodies;
use crate::door::router;
use crate::events::Events;
use crate::guard::Hosts;
use crate::keeper;
use crate::limits;
use crate::listen::Service;
use crate::openapi;
use crate::routes::table;
use crate::scheduler;
use crate::sweeper;
use crate::teller;
use crate::tls::Certificate;
use crate::tokens::{Made, Tokens};
use crate::writes::{self, Writes};

/// How the daemon serves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Whether it may listen where other machines reach it.
    pub allow_remote: bool,
    /// TLS for all connections.
    pub certificate: Option<Certificate>,
    /// Whether other machines may reach it without TLS.
    pub insecure_http: bool,
    /// Further names that mean this server.
    pub hosts: Vec<String>,
    /// The folder of pipelines.
    pub pipelines: Option<PathBuf>,
    /// What is worked on; `None`: nothing.
    pub work: Option<Serve>,
    /// How the retry job goes.
    pub retry_job: retry_job::Settings,
}

impl Settings {
    /// Refuses to be reached from other machines unless that was said, and said how.
    fn check(&self) -> Result<()> {
        if self.listen.ip().is_loopback() {
            return Ok(());
        }
        if !self.allow_remote {
            return Err(Error::wrong(format!("{} can be reached from other machines", self.listen))
                .hint("listen at 127.0.0.1:PORT, or say --allow-remote with --tls-cert and --tls-key"));
        }
        if self.certificate.is_none() && !self.insecure_http {
            return Err(Error::wrong("tokens and contents would go over the network as they are").hint(
                "say --tls-cert FILE and --tls-key FILE, or --insecure-http where something else encrypts",
            ));
        }
        Ok(())
    }
}

/// What somebody who works beside the daemon shares with it.
pub struct Shared {
    /// The floor, as the daemon itself asks.
    pub floor: Floor,
    /// The pipelines of its folder.
    pub catalog: Arc<Catalog>,
    /// Whether it is told to stop.
    pub draining: watch::Receiver<bool>,
}

/// A daemon that listens and has not begun to serve.
pub struct Daemon {
    app: Arc<App>,
    service: Service,
    listener: TcpListener,
    address: SocketAddr,
    stop: watch::Sender<Stop>,
    drain: watch::Sender<bool>,
    close: watch::Sender<bool>,
    work: Option<Serve>,
    retry_job: retry_job::Settings,
    secure: bool,
}

impl Daemon {
    /// Reads the pipelines and begins to listen.
    ///
    /// # Errors
    /// When the settings are refused, the folder or a certificate cannot be read, or the address is taken.
    pub async fn open(floor: Floor, tokens: Tokens, settings: Settings) -> Result<Self> {
        settings.check()?;
        let tls = settings.certificate.as_ref().map(Certificate::acceptor).transpose()?;
        let catalog = Arc::new(Catalog::of(settings.pipelines.clone()));
        // What is wrong with a file at the start is told by whoever starts it.
        catalog.look(&floor)?.iter().filter(|file| file.problem.is_none()).for_each(told);
        let listener = TcpListener::bind(settings.listen).await.map_err(|error| {
            Error::wrong(format!("cannot listen at {}: {error}", settings.listen))
                .hint("--listen 127.0.0.1:0 takes any port that is free")
        })?;
        let address = listener.local_addr()?;
        let (drain, draining) = watch::channel(false);
        let (close, closing) = watch::channel(false);
        let routes = table();
        let process = format!("{:x}", floor.now().0);
        let app = Arc::new(App {
            catalog,
            tokens,
            hosts: Hosts::of(address, &settings.hosts),
            document: openapi::document(&routes)?,
            carrier: Carrier::default(),
            events: Events::new(process),
            bodies: Bodies::default(),
            followers: Arc::new(Semaphore::new(limits::FOLLOWERS)),
            draining,
            only_answers: settings.work.is_none(),
            working: AtomicBool::new(settings.work.is_some()),
            writes: Writes::default(),
            floor,
        });
        let (clock, secure) = (app.floor.env.clock.clone(), tls.is_some());
        let service = Service { router: router(&app, routes), clock, tls, closing };
        let stop = watch::Sender::new(Stop::No);
        let Settings { work, retry_job, .. } = settings;
        Ok(Self { app, service, listener, address, stop, drain, close, work, retry_job, secure })
    }

    /// Where it is reached.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.address)
    }

    /// Makes the token of the first administrator where nobody could be let in; `None` where somebody can. Nobody is answered
    /// before [`serve`](Self::serve).
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn first_token(&self) -> Result<Option<Made>> {
        self.app.tokens.first(&self.app.floor.env)
    }

    /// Says when to stop: drain first, then break off.
    #[must_use]
    pub fn stop(&self) -> watch::Sender<Stop> {
        self.stop.clone()
    }

    /// What it shares with somebody who works beside it.
    #[must_use]
    pub fn shared(&self) -> Shared {
        let App { floor, catalog, draining, .. } = &*self.app;
        Shared { floor: floor.clone(), catalog: catalog.clone(), draining: draining.clone() }
    }

    /// What is wrong with files of the folder of pipelines.
    #[must_use]
    pub fn broken(&self) -> Vec<(String, Error)> {
        let files = self.app.catalog.list().items.into_iter();
        files.filter_map(|view| Some((view.file, view.problem?))).collect()
    }

    /// Serves until it is told to stop; what it worked on. What runs then is finished and recorded, so that no attempt is
    /// lost; whoever follows events is let go.
    ///
    /// # Errors
    /// When the store fails and stays so.
    pub async fn serve(self, observer: Arc<dyn Observer>) -> Result<Served> {
        let Self { app, service, listener, stop, drain, close, work, retry_job, .. } = self;
        let floor = app.floor.clone();
        app.tokens.tell_changes();
        let mut beside = JoinSet::new();
        beside.spawn(app.carrier.clone().carry(floor.clone(), app.draining.clone()));
        beside.spawn(app.events.clone().watch(floor.clone(), app.draining.clone()));
        beside.spawn(reload(app.clone()));
        let board = floor.wiring.board().filter(|_| work.is_some());
        board.iter().for_each(|board| board.open());
        beside.spawn(scheduler::watch(app.clone()));
        beside.spawn(keeper::watch(app.clone()));
        beside.spawn(teller::watch(app.clone()));
        beside.spawn(writes::watch(app.clone()));
        beside.spawn(sweeper::watch(app.clone(), retry_job));
        let door = tokio::spawn(service.listen(listener));
        let mut told = stop.subscribe();
        let drained = async {
            // The sender is kept below, so that this ends by a word only.
            let _ = told.wait_for(|stop| *stop != Stop::No).await;
            drain.send_replace(true);
            board.iter().for_each(|board| board.drain());
        };
        let working = async {
            // Operations are carried on above, whether or not anything is worked on.
            let Some(request) = work.map(|work| Serve { carry: false, ..work }) else { return Ok(None) };
            let crew = Arc::new(Crew { inner: observer, stop: stop.subscribe() });
            let served = work::serve(&floor, request, crew).await;
            app.working.store(false, Ordering::Relaxed);
            // Nobody works any more, whether that was asked for or not: a process that only answers would look well.
            stop.send_if_modified(|stop| {
                let first = *stop == Stop::No;
                if first {
                    *stop = Stop::Drain;
                }
                first
            });
            served.map(Some)
        };
        let ((), served) = tokio::join!(drained, working);
        // External workers have to be able to say what became of what they had in hand.
        close.send_replace(true);
        let mut breaks_off = stop.subscribe();
        tokio::select! {
            _ = door => {}
            _ = breaks_off.wait_for(|stop| *stop == Stop::Now) => {}
        }
        beside.abort_all();
        Ok(served?.unwrap_or_default())
    }
}

/// Looks at the folder of pipelines again and again.
async fn reload(app: Arc<App>) {
    let mut draining = app.draining.clone();
    let mut compared = None;
    while !*draining.borrow() {
        tokio::select! {
            () = app.floor.env.clock.sleep(limits::RELOAD_EVERY) => {}
            _ = draining.changed() => continue,
        }
        let looking = app.clone();
        let looked = tokio::task::spawn_blocking(move || looking.catalog.look(&looking.floor)).await;
        match looked {
            Ok(Ok(files)) => {
                if !files.is_empty() {
                    compared = None;
                    // What happens once a file is said to be in force is told to whoever it names.
                    teller::look(&app).await;
                }
                files.iter().for_each(told);
                compare(&app, &mut compared).await;
            }
            Ok(Err(error)) => {
                tracing::warn!(target: "redrive::serve", %error, "pipelines cannot be looked at")
            }
            Err(error) => tracing::error!(target: "redrive::serve", %error, "looking at pipelines broke off"),
        }
    }
}

/// Compares files with the runs that have to take them over, where something was written since.
async fn compare(app: &App, compared: &mut Option<u64>) {
    let Ok(stamp) = app.floor.store.stamp().await else { return };
    if compared.replace(stamp) == Some(stamp) {
        return;
    }
    match conflicts::look(&app.floor, &app.catalog).await {
        Ok(files) => files.iter().for_each(told),
        Err(error) => {
            tracing::warn!(target: "redrive::serve", %error, "pipelines cannot be compared with their runs")
        }
    }
}

fn told(file: &Reloaded) {
    let name = one_line(&file.file.display().to_string());
    match &file.problem {
        // Whoever was warned of it is told, too, that it is over.
        None if file.was_wrong => {
            tracing::warn!(target: "redrive::serve", file = %name, "pipeline is right again, and in force")
        }
        None => tracing::info!(target: "redrive::serve", file = %name, "pipeline in force"),
        Some(problem) => {
            let problems: Vec<String> = problem.problems.iter().map(ToString::to_string).collect();
            let (why, problems) = (one_line(&problem.to_string()), one_line(&problems.join("; ")));
            tracing::warn!(target: "redrive::serve", file = %name, %why, problems, "pipeline refused");
        }
    }
}

/// A text as one line of a log: a name may have line breaks, and what follows one would look like a line of its own.
fn one_line(text: &str) -> String {
    let visible = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(visible).collect()
}

/// Passes on what is observed, and the word to stop.
struct Crew {
    inner: Arc<dyn Observer>,
    stop: watch::Receiver<Stop>,
}

/// Ends a task with its owner.
struct Ends(JoinHandle<()>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Observer for Crew {
    fn begins(&self, work: UnderWay) -> Box<dyn Any + Send> {
        self.inner.begins(work)
    }

    fn notice(&self, notice: &Notice) {
        self.inner.notice(notice);
    }

    fn serving(&self, stop: watch::Sender<Stop>) -> Box<dyn Any + Send> {
        let mut told = self.stop.clone();
        Box::new(Ends(tokio::spawn(async move {
            loop {
                let now = *told.borrow_and_update();
                stop.send_replace(now);
                if told.changed().await.is_err() {
                    return;
                }
            }
        })))
    }

    fn left(&self, report: &RunReport) {
        self.inner.left(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_begins_no_line_of_the_log() {
        assert_eq!(one_line("é\n2026-01-01 ERROR \u{1b}[2J.toml"), "é\\n2026-01-01 ERROR \\u{1b}[2J.toml");
    }
}
