//! Listens, and stops listening when the plan says that nobody is there.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use redrive_engine::env::Env;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::plan::{FaultKind, How, Plan};
use crate::report::Report;
use crate::service::{Shared, serve};

/// Plays a plan.
#[derive(Debug)]
pub struct Rehearsal;

impl Rehearsal {
    /// Listens at an address and plays the plan until stopped. Port 0 takes any that is free.
    ///
    /// # Errors
    /// When nobody can listen there.
    pub async fn start(plan: Plan, env: Env, listen: SocketAddr) -> io::Result<Running> {
        let listener = TcpListener::bind(listen).await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::new(plan, env));
        let (stop, told) = watch::channel(());
        let work = tokio::spawn(accept(shared.clone(), listener, addr, told));
        Ok(Running { addr, shared, stop, work })
    }
}

/// A plan that is being played. It ends when this is dropped.
pub struct Running {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<()>,
    work: JoinHandle<()>,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where it listens, as the beginning of an URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What it did so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.report()
    }

    /// Forgets everything; time begins with the next call.
    pub fn reset(&self) {
        self.shared.judge().reset();
        self.shared.began.notify_one();
    }

    /// Buys credit after the plan's quota was used up.
    pub fn top_up(&self) {
        self.shared.judge().top_up();
    }

    /// Closes every connection and tells what it did.
    pub async fn stop(self) -> Report {
        let Self { shared, stop, work, .. } = self;
        drop(stop);
        // It only ends early by a panic, which has been told by then.
        let _ = work.await;
        shared.report()
    }
}

/// Whether somebody listens.
#[derive(Debug, PartialEq, Eq)]
enum Door {
    /// Until then, if there is an end to it.
    Open(Option<Duration>),
    /// For so long.
    Closed(Duration),
}

fn door(shared: &Shared) -> Door {
    let Some(at) = shared.judge().since_first(shared.env.clock.now()) else { return Door::Open(None) };
    let refusals = || shared.plan.faults.iter().filter(|fault| fault.kind == FaultKind::Outage(How::Refuse));
    if let Some(end) = refusals().filter_map(|fault| fault.ends(at)).max() {
        return Door::Closed(end - at);
    }
    Door::Open(refusals().filter_map(|fault| fault.begins(at)).min().map(|begin| begin - at))
}

async fn accept(
    shared: Arc<Shared>,
    mut listener: TcpListener,
    addr: SocketAddr,
    mut stop: watch::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    loop {
        match door(&shared) {
            Door::Closed(span) => {
                drop(listener);
                tokio::select! {
                    () = shared.env.clock.sleep(span) => {}
                    () = shared.began.notified() => {}
                    _ = stop.changed() => return,
                }
                listener = tokio::select! {
                    listener = listen_again(&shared, addr) => listener,
                    _ = stop.changed() => return,
                };
            }
            Door::Open(until) => {
                let closing = async {
                    match until {
                        Some(span) => shared.env.clock.sleep(span).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) => drop(connections.spawn(converse(shared.clone(), stream))),
                        // Too many open files, most likely: some are closed soon.
                        Err(_) => shared.env.clock.sleep(Duration::from_millis(10)).await,
                    },
                    Some(_) = connections.join_next() => {}
                    () = closing => {}
                    () = shared.began.notified() => {}
                    _ = stop.changed() => return,
                }
            }
        }
    }
}

async fn listen_again(shared: &Shared, addr: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(addr).await {
            Ok(listener) => return listener,
            // Somebody else took the port meanwhile.
            Err(_) => shared.env.clock.sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(shared: Arc<Shared>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| serve(shared.clone(), request));
    // Connections that end badly do so on purpose, or because the caller went away.
    let _ =
        http1::Builder::new().header_read_timeout(None).serve_connection(TokioIo::new(stream), service).await;
}
