//! Connections: so many at a time, each bounded in what it may take. Where there is no place left, somebody gives way
//! (`seats`), and a small reserve tells that the process lives.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use redrive_engine::env::Clock;
use redrive_operate::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::limits;
use crate::patient_io::PatientIo;
use crate::problem::Problem;
use crate::reply::EVENTS;
use crate::seats::{Seat, Seats};

/// The address of this machine that a connection was made to.
#[derive(Debug, Clone, Copy)]
pub struct MadeTo(pub SocketAddr);

/// The places there are.
struct Places {
    usual: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    seats: Seats,
}

/// A place that was found.
struct Place {
    is_reserve: bool,
    _held: Option<OwnedSemaphorePermit>,
}

/// What connections are served with.
#[derive(Clone)]
pub struct Service {
    /// The routes.
    pub router: Router,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// TLS, where connections have to begin with it.
    pub tls: Option<TlsAcceptor>,
    /// Whether no more is answered: the process is told to stop, and what it worked on is recorded.
    pub closing: watch::Receiver<bool>,
}

impl Service {
    /// Takes connections until no more is answered, and then waits a while for those that are under way.
    pub async fn listen(mut self, listener: TcpListener) {
        let places = Places::new();
        let mut under_way = JoinSet::new();
        while !*self.closing.borrow() {
            while under_way.try_join_next().is_some() {}
            let accepted = tokio::select! {
                accepted = async {
                    let (stream, from) = listener.accept().await?;
                    Ok::<_, std::io::Error>((stream, from, places.find(&*self.clock).await))
                } => accepted,
                _ = self.closing.changed() => continue,
            };
            match accepted {
                Ok((stream, from, place)) => {
                    let (service, seat) = (self.clone(), places.seats.seat(from.ip(), place.is_reserve));
                    under_way.spawn(async move {
                        tokio::select! {
                            () = service.connection(stream, seat.clone()) => {}
                            () = seat.dismissed() => {}
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(target: "redrive::serve", %error, "a connection cannot be taken");
                    self.clock.sleep(limits::EVENT_EVERY).await;
                }
            }
        }
        drop(listener);
        tokio::select! {
            () = async { while under_way.join_next().await.is_some() {} } => {}
            () = self.clock.sleep(limits::DRAIN_WITHIN) => under_way.abort_all(),
        }
    }

    async fn connection(self, stream: TcpStream, seat: Arc<Seat>) {
        let _ = stream.set_nodelay(true);
        let Ok(made_to) = stream.local_addr().map(MadeTo) else { return };
        match self.tls.clone() {
            None => self.serve(stream, made_to, seat).await,
            Some(tls) => {
                let begins = tokio::select! {
                    begins = begin(tls, stream) => begins,
                    () = self.clock.sleep(limits::HEAD_WITHIN) => Begins::Ends,
                };
                match begins {
                    Begins::Secured(stream) => self.serve(*stream, made_to, seat).await,
                    Begins::Plain(stream) => {
                        let router = Router::new().fallback(|| async { wants_tls() });
                        Self { router, ..self }.serve(stream, made_to, seat).await;
                    }
                    Begins::Ends => {}
                }
            }
        }
    }

    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        made_to: MadeTo,
        seat: Arc<Seat>,
    ) {
        let Self { router, clock, mut closing, .. } = self;
        let (routes, sits) = (TowerToHyperService::new(router), seat.clone());
        let routes = service_fn(move |mut request: Request<Incoming>| {
            sits.asks();
            request.extensions_mut().insert(sits.clone());
            request.extensions_mut().insert(made_to);
            let (answer, sits) = (routes.call(request), sits.clone());
            async move {
                let answered = answer.await?;
                // Whoever follows events is told more.
                let kind = answered.headers().get(header::CONTENT_TYPE);
                if kind.is_none_or(|kind| kind != EVENTS) {
                    sits.is_kept();
                }
                Ok::<_, Infallible>(answered)
            }
        });
        let io = TokioIo::new(PatientIo::new(stream, clock, limits::READ_WITHIN));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits::HEAD_WITHIN)
            .keep_alive(!seat.is_reserve())
            .max_buf_size(limits::HEAD.max(8 << 10))
            .serve_connection(io, routes);
        tokio::pin!(connection);
        // What goes wrong on a connection is the affair of whoever made it.
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = closing.wait_for(|closing| *closing) => connection.as_mut().graceful_shutdown(),
            () = seat.asked_to_leave() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

/// How a connection begins where TLS is wanted.
enum Begins {
    /// With a handshake that went well.
    Secured(Box<TlsStream<TcpStream>>),
    /// With words, as HTTP does without TLS.
    Plain(TcpStream),
    /// With something else.
    Ends,
}

async fn begin(tls: TlsAcceptor, stream: TcpStream) -> Begins {
    // Every handshake begins with a byte that is no letter, and every method with one.
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(1..) if first[0].is_ascii_alphabetic() => Begins::Plain(stream),
        Ok(1..) => tls.accept(stream).await.map_or(Begins::Ends, |stream| Begins::Secured(Box::new(stream))),
        Ok(0) | Err(_) => Begins::Ends,
    }
}

/// What whoever asks without TLS is told, whatever was asked for: a token that came with it is known to others by now.
fn wants_tls() -> Response {
    let error =
        Error::wrong("this port speaks TLS").hint("ask https:// instead; make another token if one was sent");
    let mut response = Problem::new(StatusCode::BAD_REQUEST, error).into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

impl Places {
    fn new() -> Self {
        let places = |how_many| Arc::new(Semaphore::new(how_many));
        Self { usual: places(limits::CONNECTIONS), reserve: places(limits::RESERVE), seats: Seats::default() }
    }

    /// A place for somebody who came, at the cost of others where there is none.
    async fn find(&self, clock: &dyn Clock) -> Place {
        loop {
            for _ in 0..limits::LEAVERS {
                if let Ok(held) = self.usual.clone().try_acquire_owned() {
                    return Place { is_reserve: false, _held: Some(held) };
                }
                if !self.seats.dismiss_one() {
                    break;
                }
                tokio::select! {
                    held = self.usual.clone().acquire_owned() => return Place { is_reserve: false, _held: held.ok() },
                    () = clock.sleep(limits::LEAVE_WITHIN) => {}
                }
            }
            if let Ok(held) = self.reserve.clone().try_acquire_owned() {
                return Place { is_reserve: true, _held: Some(held) };
            }
            clock.sleep(limits::LEAVE_WITHIN).await;
        }
    }
}
