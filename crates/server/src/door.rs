//! The table of routes as a router: every request goes through the same checks, in the same order.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::{Extensions, Method, StatusCode};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use redrive_operate::{Code, Error};

use crate::app::App;
use crate::call::{Call, Query};
use crate::guard;
use crate::limits;
use crate::listen::MadeTo;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::Route;
use crate::seats::Seat;

/// A router of all routes.
pub fn router(app: &Arc<App>, routes: Vec<Route>) -> Router {
    let mut paths: BTreeMap<&'static str, MethodRouter> = BTreeMap::new();
    for route in routes {
        let filter = if route.method == Method::POST { MethodFilter::POST } else { MethodFilter::GET };
        let (path, app) = (route.path, app.clone());
        let handler = move |request: Request| {
            let (app, route) = (app.clone(), route.clone());
            async move {
                let answer = answer(app.clone(), &route, request).await;
                if answer.as_ref().is_err_and(Problem::is_for_want_of_room) {
                    app.writes.found_no_room();
                }
                answered(answer)
            }
        };
        let methods = paths.remove(path).unwrap_or_default();
        paths.insert(path, methods.merge(on(filter, handler)));
    }
    let router = paths.into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods));
    let (other, wrong) = (app.clone(), app.clone());
    router
        .fallback(move |request: Request| {
            let app = other.clone();
            async move { refused(&app, &request, StatusCode::NOT_FOUND, "there is no such route") }
        })
        .method_not_allowed_fallback(move |request: Request| {
            let app = wrong.clone();
            async move {
                refused(&app, &request, StatusCode::METHOD_NOT_ALLOWED, "the route has no such method")
            }
        })
}

fn answered(answer: Result<Reply, Problem>) -> Response {
    answer.map_or_else(Problem::into_response, Reply::into_response)
}

/// Where nothing is, nobody is told so who is not let in.
fn refused(app: &App, request: &Request, status: StatusCode, why: &str) -> Response {
    let (headers, made_to) = (request.headers(), made_to(request.extensions()));
    let known = refuse_reserve(request.extensions())
        .and_then(|()| app.hosts.check(request.uri(), headers, made_to))
        .and_then(|()| guard::refuse_other_pages(headers))
        .and_then(|()| guard::asker(&app.tokens, headers));
    let problem = match known {
        Ok(_) => {
            let error = match status {
                StatusCode::NOT_FOUND => Error::not_found(why),
                _ => Error::wrong(why),
            };
            Problem::new(status, error.hint("GET /v1/openapi.json lists the routes"))
        }
        Err(problem) => problem,
    };
    problem.into_response()
}

/// Checks the length of the head, the host, the page that asks, the token, the role and the parameters before the body is read.
async fn answer(app: Arc<App>, route: &Route, request: Request) -> Result<Reply, Problem> {
    let (mut parts, body) = request.into_parts();
    guard::refuse_long_head(&parts.uri, &parts.headers)?;
    let seat = parts.extensions.get::<Arc<Seat>>().cloned();
    let floor = match route.role {
        // Whoever looks whether the process lives asks by whatever name or address it knows.
        None => {
            guard::refuse_other_pages(&parts.headers)?;
            app.floor.clone()
        }
        Some(least) => {
            refuse_reserve(&parts.extensions)?;
            app.hosts.check(&parts.uri, &parts.headers, made_to(&parts.extensions))?;
            guard::refuse_other_pages(&parts.headers)?;
            let floor = app.floor_of(guard::asker(&app.tokens, &parts.headers)?);
            seat.iter().for_each(|seat| seat.known_as(&floor.asker.name));
            floor.require(least)?;
            floor
        }
    };
    let query = Query::read(parts.uri.query().unwrap_or_default(), &route.query)?;
    let params = RawPathParams::from_request_parts(&mut parts, &()).await;
    let params = params.map_err(|error| Error::wrong(format!("the path: {error}")))?;
    let path = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let body = match route.method == Method::POST {
        true => {
            refuse_large(&body)?;
            let waited = app.bodies.begin(&floor.asker.name)?;
            let body = read(&app, body).await?;
            drop(waited);
            guard::json_only(&parts.headers, body.is_empty())?;
            if body.is_empty() && route.body.is_some() && !route.body_optional {
                return Err(Error::wrong("the body has to be a JSON object").into());
            }
            body
        }
        false => Bytes::new(),
    };
    let last_event = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let bearer = guard::bearer(&parts.headers);
    let call = Call { floor, app, route: route.path, path, query, body, bearer, last_event };
    match seat.filter(|_| route.waits) {
        None => Ok((route.call)(call).await?),
        Some(seat) => {
            seat.waits();
            tokio::select! {
                biased;
                reply = (route.call)(call) => Ok(reply?),
                () = seat.asked_to_leave() => Err(crowded("others came who had no place").into()),
            }
        }
    }
}

/// The address of this machine that a connection was made to.
fn made_to(given: &Extensions) -> Option<IpAddr> {
    given.get::<MadeTo>().map(|made_to| made_to.0.ip())
}

/// Refuses on a connection of the reserve what needs a token.
fn refuse_reserve(given: &Extensions) -> Result<(), Problem> {
    match given.get::<Arc<Seat>>().is_some_and(|seat| seat.is_reserve()) {
        true => Err(crowded(&format!("all {} connections are taken", limits::CONNECTIONS)).into()),
        false => Ok(()),
    }
}

fn crowded(why: &str) -> Error {
    Error::busy(why).hint("try again after `Retry-After` seconds, with fewer connections at a time")
}

/// Refuses a body that says that it is too large before any of it is waited for.
fn refuse_large(body: &Body) -> Result<(), Problem> {
    match body.size_hint().lower() > limits::BODY as u64 {
        true => Err(too_large().into()),
        false => Ok(()),
    }
}

fn too_large() -> Error {
    Error::wrong(format!("a body has at most {} MiB", limits::BODY >> 20)).code(Code::TooLarge)
}

/// Reads a body, so much of it, and for so long.
async fn read(app: &App, body: Body) -> Result<Bytes, Problem> {
    tokio::select! {
        read = to_bytes(body, limits::BODY) => read.map_err(|error| {
            let large = std::error::Error::source(&error)
                .is_some_and(|source| source.is::<http_body_util::LengthLimitError>());
            match large {
                true => too_large(),
                false => Error::wrong(format!("the body breaks off: {error}")),
            }
            .into()
        }),
        () = app.floor.env.clock.sleep(limits::BODY_WITHIN) => {
            let error = Error::wrong("the body did not come in time");
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_says_that_it_is_too_large_is_not_waited_for() {
        assert!(refuse_large(&Body::from(vec![0; limits::BODY])).is_ok());
        assert!(refuse_large(&Body::from(vec![0; limits::BODY + 1])).is_err());
    }
}
