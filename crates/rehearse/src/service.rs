//! One request: read, decide, wait, answer, count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use redrive_engine::env::Env;
use tokio::sync::Notify;

use crate::answer;
use crate::call::{self, Call};
use crate::chance::{Purpose, draw};
use crate::decide::Judge;
use crate::fate::{Fate, Malformed};
use crate::ledger::End;
use crate::outgoing::{Cut, Outgoing, Trickle};
use crate::plan::{FaultKind, Plan};
use crate::report::Report;

/// The largest request that is read.
const MAX_BODY: usize = 64 << 20;

/// What every connection shares.
pub(crate) struct Shared {
    /// What to do.
    pub plan: Arc<Plan>,
    /// Time.
    pub env: Env,
    /// Told when time begins to count, or begins anew.
    pub began: Notify,
    /// Calls that are on their way or have come.
    sent: AtomicU64,
    judge: Mutex<Judge>,
}

impl Shared {
    /// Before the first call.
    pub(crate) fn new(plan: Plan, env: Env) -> Self {
        let plan = Arc::new(plan);
        Self {
            judge: Mutex::new(Judge::new(plan.clone())),
            plan,
            env,
            began: Notify::new(),
            sent: AtomicU64::new(0),
        }
    }

    /// Decisions and counts. Nothing waits while it holds them.
    pub(crate) fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call be as late as the network makes it. Those that were sent later may overtake it.
    async fn travel(&self) {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        if !self.plan.jitter.is_zero() {
            let late = self.plan.jitter.mul_f64(draw(self.plan.seed, Purpose::Network, number));
            self.env.clock.sleep(late).await;
        }
    }

    /// What happened so far.
    pub(crate) fn report(&self) -> Report {
        let mut judge = self.judge();
        let open = judge.open();
        judge.ledger().report(&self.plan, open)
    }
}

/// A call that is being answered. Dropped before its end, its caller has gone.
struct Open {
    shared: Arc<Shared>,
    epoch: u64,
    ended: bool,
}

impl Open {
    fn end(mut self, end: End, items: &[u64], tokens: u64) {
        self.ended = true;
        self.count(end, items, tokens);
    }

    fn count(&self, end: End, items: &[u64], tokens: u64) {
        let now = self.shared.env.clock.now();
        let mut judge = self.shared.judge();
        judge.close();
        if judge.epoch() == self.epoch {
            judge.ledger().ended(end, now, items, tokens);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.ended {
            self.count(End::Abandoned, &[], 0);
        }
    }
}

/// Answers a request, or closes its connection.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, Cut> {
    let (head, body) = request.into_parts();
    if let Some(answer) = control(&shared, &head) {
        return Ok(answer);
    }
    let body = Limited::new(body, MAX_BODY).collect().await;
    shared.travel().await;
    let path = head.uri.path();
    match body {
        Ok(body) => {
            let body = body.to_bytes();
            let call = call::read(&shared.plan, path, &body).map_err(|text| (400, text));
            reply(&shared, &head, call).await
        }
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            reply(&shared, &head, Err((413, "the request is too large".to_owned()))).await
        }
        // The caller went away within its own request: there was no call.
        Err(_) => Err(Cut),
    }
}

/// Requests that are no calls: they are always answered and not counted.
fn control(shared: &Shared, head: &Parts) -> Option<Response<Outgoing>> {
    let path = head.uri.path();
    let body = match (&head.method, path) {
        (&Method::GET, "/rehearse/report") => serde_json::to_vec(&shared.report()).unwrap_or_default(),
        (&Method::POST, "/rehearse/reset") => {
            shared.judge().reset();
            shared.began.notify_one();
            b"{\"reset\":true}".to_vec()
        }
        (&Method::POST, "/rehearse/top-up") => {
            shared.judge().top_up();
            b"{\"topped_up\":true}".to_vec()
        }
        (&Method::GET, path) if path.ends_with("/models") => answer::models(),
        (&Method::POST, _) => return None,
        _ => {
            let body = answer::error(404, "not_found", "calls come by POST; see /rehearse/report");
            return Some(json(404, body));
        }
    };
    Some(json(200, body))
}

async fn reply(
    shared: &Arc<Shared>,
    head: &Parts,
    call: Result<Call<'_>, Malformed>,
) -> Result<Response<Outgoing>, Cut> {
    let (decision, open) = {
        let mut judge = shared.judge();
        let now = shared.env.clock.now();
        if judge.since_first(now).is_none() {
            shared.began.notify_one();
        }
        let asked = call.as_ref().map_err(Clone::clone);
        let decision = judge.arrive(head.uri.path(), asked, key(&head.headers), now);
        (decision, Open { shared: shared.clone(), epoch: judge.epoch(), ended: false })
    };
    let fault = match &decision.fate {
        Fate::Fault(kind) => Some(kind),
        _ => None,
    };
    let (end, items, (body, tokens)) = match (&decision.fate, &call) {
        (Fate::Refuse(refusal), _) => {
            let body = answer::error(refusal.status, &refusal.code, &refusal.text);
            (End::Status(refusal.status), Vec::new(), (body, 0))
        }
        (Fate::Pass | Fate::Fault(_), Ok(call)) => {
            let good = matches!(fault, None | Some(FaultKind::Shuffled));
            let items = call.units.iter().map(|unit| unit.mark).collect();
            (if good { End::Ok } else { End::Spoilt }, items, answer::answer(&shared.plan, call, fault))
        }
        (Fate::Cut, _) | (_, Err(_)) => (End::Cut, Vec::new(), (Vec::new(), 0)),
    };
    if !decision.delay.is_zero() {
        shared.env.clock.sleep(decision.delay).await;
    }
    if fault == Some(&FaultKind::Hang) {
        std::future::pending::<()>().await;
    }
    let end = if fault == Some(&FaultKind::CutInside) { End::Cut } else { end };
    open.end(end, &items, tokens);
    if end == End::Cut && fault.is_none() {
        return Err(Cut);
    }
    let status = match end {
        End::Status(status) => status,
        _ => 200,
    };
    let mut response = shaped(shared, status, body, fault);
    for (name, value) in decision.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}

/// The answer as it goes out.
fn shaped(shared: &Shared, status: u16, body: Vec<u8>, fault: Option<&FaultKind>) -> Response<Outgoing> {
    let clock = || shared.env.clock.clone();
    let outgoing = match fault {
        Some(FaultKind::CutInside) => {
            let length = body.len() as u64;
            let part = Bytes::from(body).slice(..usize::try_from(length / 2).unwrap_or(0));
            Outgoing::Broken { part: Some(part), length, sent: false }
        }
        Some(FaultKind::Slowloris(pace)) => {
            Outgoing::Trickle(Trickle::new(Some(body.into()), *pace, clock()))
        }
        Some(FaultKind::Endless(pace)) => Outgoing::Trickle(Trickle::new(None, *pace, clock())),
        Some(FaultKind::Huge(bytes)) => Outgoing::Flood(*bytes),
        Some(FaultKind::Garbage) => {
            let page = "<!DOCTYPE html><html><body><h1>Bad gateway</h1></body></html>";
            let mut response = json(200, page.into());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
            return response;
        }
        _ => return json(status, body),
    };
    with(status, outgoing)
}

fn json(status: u16, body: Vec<u8>) -> Response<Outgoing> {
    with(status, Outgoing::Whole(Some(body.into())))
}

fn with(status: u16, body: Outgoing) -> Response<Outgoing> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The key that a caller shows.
fn key(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}
