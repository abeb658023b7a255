//! One call, with its time limit and whatever it may throw.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use redrive_core::failure::{Class, Failure, Kind};
use tokio::sync::mpsc::UnboundedSender;

use super::desk::{Call, CallId};
use crate::crash;
use crate::env::Env;
use crate::handler::{Answer, Handler, Reply, Request};

/// Makes a call and sends its reply. Dropping the task breaks the call off; then nothing is sent.
pub(super) async fn execute(
    call: Call,
    handler: std::sync::Arc<dyn Handler>,
    env: Env,
    replies: UnboundedSender<(CallId, Answer)>,
) {
    crash::point("execute.before_call");
    let answer = answer_of(call.request, &*handler, &env).await;
    crash::point("execute.after_call");
    // The receiver is gone only when the session is: then the lease tells what happened.
    let _ = replies.send((call.id, answer));
}

/// Makes a call and waits for its answer, for as long as it may take.
pub(super) async fn answer_of(request: Request, handler: &dyn Handler, env: &Env) -> Answer {
    let timeout = request.timeout;
    let answer = AssertUnwindSafe(handler.call(request)).catch_unwind();
    tokio::select! {
        answer = answer => answer.unwrap_or_else(|panic| Reply::Whole(panicked(&*panic)).into()),
        () = env.clock.sleep(timeout) => Reply::Whole(timed_out(timeout)).into(),
    }
}

fn timed_out(timeout: std::time::Duration) -> Failure {
    Failure::new(Class::Timeout, Kind::Timeout, format!("no answer within {timeout:?}"))
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned());
    Failure::new(Class::Crash, Kind::Process, format!("the stage panicked: {text}"))
}
