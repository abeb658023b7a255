//! Reports: everything at one look, statistics, failures, standstill, search.

use redrive_operate::Result;
use redrive_operate::items::{self, Stuck, StuckPage};
use redrive_operate::overview::{Look, overview as look_at};
use redrive_operate::reports::{self, Failures, StatsOf};
use redrive_operate::search::{self, Request};

use crate::call::Call;
use crate::pages::{AFTER, Page};
use crate::reply::Reply;
use crate::route::{Kind, Param, Route, Shape, param};

/// Most of what is listed.
const MOST: usize = 500;
/// So many are listed where nobody says how many.
const USUAL: usize = 50;
/// Passages that are found where nobody says how many, and the most of them.
const PASSAGES: usize = 10;
const MOST_PASSAGES: usize = 200;
/// How long something stands still before it is told, where nobody says.
const STANDSTILL_MS: i64 = 300_000;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/v1/overview",
            "Tells everything that goes on, at one look.",
            Shape::Json("overview"),
            overview,
        )
        .query(&[
            param("run", Kind::Schema("run"), "only this run, and its dead items"),
            param("ended", Kind::Count(100), "so many of the runs that ended last"),
            param("groups", Kind::Count(100), "so many of the largest groups of dead items"),
        ]),
        Route::get("/v1/stats", "Says how reliable stages are.", Shape::Json("statistics"), stats).query(&[
            param("run", Kind::Schema("run"), "of this run; the newest where none is named"),
            param("pipeline", Kind::Text, "over the runs of this pipeline"),
            param("since", Kind::Number, "only of runs that began within so many milliseconds"),
        ]),
        Route::get("/v1/failures", "Says what failed.", Shape::Json("failures"), failures).query(&[
            param("run", Kind::Schema("run"), "of this run; the newest where nothing is named"),
            param("pipeline", Kind::Text, "of every run of this pipeline"),
            param("all", Kind::Flag, "of every run"),
            param("stage", Kind::Text, "only at this stage"),
            param("permanent", Kind::Flag, "only those that look permanent"),
            param("limit", Kind::Count(MOST), "at most so many"),
            AFTER,
        ]),
        Route::get(
            "/v1/stuck",
            "Lists items that nothing happens to, run by run, and on a page those first that wait longest.",
            Shape::Json("stuck_page"),
            stuck,
        )
        .query(&[
            param("run", Kind::Schema("run"), "only of this run"),
            param("older_than", Kind::Number, "for at least so many milliseconds"),
            param("limit", Kind::Count(MOST), "at most so many"),
            AFTER,
        ]),
        Route::get("/v1/search", "Finds passages in what was indexed.", Shape::Json("search"), find).query(
            &[
                Param { required: true, ..param("q", Kind::Text, "what to look for") },
                param("k", Kind::Count(MOST_PASSAGES), "at most so many passages"),
                param("mode", Kind::Schema("search_mode"), "by meaning and words, by meaning, or by words"),
                param("path", Kind::Text, "only in files that match this glob"),
                param("kind", Kind::Text, "only in files of this language or kind"),
                param("page", Kind::Count(1_000_000), "only on this page"),
                param("dir", Kind::Text, "only in the index of this directory"),
            ],
        ),
    ]
}

async fn overview(call: Call) -> Result<Reply> {
    let usual = Look::default();
    let request = Look {
        run: call.query.one("run")?,
        ended: call.query.number("ended").unwrap_or(usual.ended),
        groups: call.query.number("groups").unwrap_or(usual.groups),
    };
    Reply::json(&look_at(&call.floor, &request).await?)
}

async fn stats(call: Call) -> Result<Reply> {
    let request = StatsOf {
        run: call.query.one("run")?,
        pipeline: call.query.text("pipeline"),
        within_ms: call.query.number("since"),
    };
    Reply::json(&reports::stats(&call.floor, &request).await?)
}

async fn failures(call: Call) -> Result<Reply> {
    let request = Failures {
        run: call.query.one("run")?,
        pipeline: call.query.text("pipeline"),
        all: call.query.flag("all"),
        stage: call.query.text("stage"),
        permanent: call.query.flag("permanent"),
        limit: call.query.number("limit").unwrap_or(USUAL),
        after: call.after()?,
        ..Failures::default()
    };
    let mut report = reports::failures(&call.floor, &request).await?;
    report.next = call.next(report.next.take());
    Reply::json(&report)
}

async fn stuck(call: Call) -> Result<Reply> {
    let request = Stuck {
        run: call.query.one("run")?,
        older_than_ms: call.query.number("older_than").unwrap_or(STANDSTILL_MS),
        limit: call.query.number("limit").unwrap_or(USUAL),
    };
    let after = call.after()?;
    let StuckPage { items, next } = items::stuck_page(&call.floor, &request, after.as_deref()).await?;
    Reply::json(&Page { items, next: call.next(next) })
}

async fn find(call: Call) -> Result<Reply> {
    let request = Request {
        query: call.query.text("q").unwrap_or_default(),
        count: call.query.number("k").unwrap_or(PASSAGES),
        mode: call.query.one("mode")?.unwrap_or_default(),
        paths: call.query.text("path").into_iter().collect(),
        kind: call.query.text("kind"),
        page: call.query.number("page"),
        dir: call.query.text("dir").map(Into::into),
        model: None,
        mail: Default::default(),
    };
    Reply::json(&search::search(&call.floor, &request).await?)
}
