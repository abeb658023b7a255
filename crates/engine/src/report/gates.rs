//! How the gates stand.

use redrive_core::gate::{LimitKind, Standing, Totals};
use redrive_core::time::Timestamp;
use redrive_store::{GateRow, Result, Store};
use serde::Serialize;

use crate::shared;

/// A gate, as `gates --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateReport {
    /// Its name.
    pub name: String,
    /// `open`, `closed`, `parked`, `away` or `paused`.
    pub state: &'static str,
    /// Why, in words.
    pub why: String,
    /// What turns calls away, as far as that is known: `rate`, `window`, `tokens`, `at_once`, `chance`, `shut` (all of them) or `overload`.
    pub kind: Option<LimitKind>,
    /// Since when.
    pub since: Option<String>,
    /// Until when; `null` when somebody has to act, or nothing keeps it.
    pub until: Option<String>,
    /// Calls at once.
    pub concurrency: Concurrency,
    /// Requests per minute.
    pub requests_per_minute: PerMinute,
    /// Tokens per minute.
    pub tokens_per_minute: PerMinute,
    /// How long a call takes lately, in milliseconds.
    pub latency_ms: u64,
    /// Largest batch that is asked for, by stage, where it is smaller than what is configured.
    pub batch: std::collections::BTreeMap<String, u32>,
    /// Workers that use it now.
    pub workers: usize,
    /// All calls so far.
    pub totals: GateTotals,
    /// When it last changed.
    pub updated_at: String,
}

/// Calls so far, by how they ended. What is neither here nor under way there is not: they add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct GateTotals {
    /// All that were made.
    pub calls: u64,
    /// Those that were answered as they should be, if only with a refusal that is about the items.
    pub passed: u64,
    /// Those that were turned away.
    pub throttled: u64,
    /// Those that failed because of the service.
    pub failed: u64,
    /// Those that say nothing of the service: batches that were refused and taken apart, calls that were broken off, or whose
    /// process died.
    pub other: u64,
    /// Tokens that were consumed, as far as that is known.
    pub tokens: u64,
}

impl GateTotals {
    fn of(totals: Totals, under_way: u32) -> Self {
        let Totals { calls, passed, throttled, failed, tokens } = totals;
        let known = [passed, throttled, failed, under_way.into()].into_iter().fold(0, u64::saturating_add);
        Self { calls, passed, throttled, failed, other: calls.saturating_sub(known), tokens }
    }
}

/// Calls at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Concurrency {
    /// Under way now.
    pub now: u32,
    /// What is let through at present.
    pub limit: u32,
    /// The most that was asked for.
    pub most: Option<u32>,
}

/// Something per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PerMinute {
    /// As it is now; `null` where it is not measured.
    pub now: Option<u64>,
    /// The limit that was asked for.
    pub given: Option<u64>,
    /// What the service turned out to bear.
    pub learnt: Option<u64>,
    /// The limit that the service's answers name, in a span of its own: most mean a minute, some a second or a day.
    pub told: Option<u64>,
}

/// How every gate stands, by name.
///
/// # Errors
/// When the store fails.
pub async fn gate_reports(store: &dyn Store, now: Timestamp) -> Result<Vec<GateReport>> {
    store.gates().await?.iter().map(|row| gate_report(row, now)).collect()
}

/// When a gate was last opened again; see [`redrive_core::gate::GateState::opened_at`].
///
/// # Errors
/// [`Error::Unreadable`](redrive_store::Error) when a newer version wrote it.
pub fn gate_opened_at(row: &GateRow, now: Timestamp) -> Result<Option<Timestamp>> {
    Ok(shared::gate(row, now)?.opened_at(now))
}

/// How a gate stands.
///
/// # Errors
/// [`Error::Unreadable`](redrive_store::Error) when a newer version wrote it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturated by the cast")]
pub fn gate_report(row: &GateRow, now: Timestamp) -> Result<GateReport> {
    let gate = shared::gate(row, now)?;
    let Standing { state, why, since, until } = gate.standing(now);
    let members: Vec<_> = gate.live_members(now).map(|(_, member)| *member).collect();
    let given = gate.given.as_ref();
    let learnt = gate.rate.ceiling.filter(|_| gate.rate.allowed(now).is_finite());
    let told =
        |pace: Option<redrive_core::gate::Pace>| pace.and_then(|pace| pace.limit).map(|limit| limit as u64);
    let sum =
        |of: fn(&redrive_core::gate::Member) -> u32| members.iter().map(of).fold(0, u32::saturating_add);
    Ok(GateReport {
        name: row.name.clone(),
        state,
        why,
        kind: gate.kind(now),
        since: since.map(|at| at.to_string()),
        until: until.map(|at| at.to_string()),
        concurrency: Concurrency {
            now: sum(|member| member.under_way),
            limit: (gate.window.limit.max(1.0) as u32)
                .min(given.map_or(u32::MAX, |spec| spec.max_concurrency)),
            most: given.map(|spec| spec.max_concurrency),
        },
        requests_per_minute: PerMinute {
            now: Some(u64::from(sum(|member| member.per_minute))),
            given: given.and_then(|spec| spec.requests_per_minute),
            learnt: learnt.map(|ceiling| (ceiling * 60.0).round() as u64),
            told: told(gate.told.requests),
        },
        tokens_per_minute: PerMinute {
            given: given.and_then(|spec| spec.tokens_per_minute),
            told: told(gate.told.tokens),
            ..PerMinute::default()
        },
        latency_ms: (gate.window.latency() * 1_000.0) as u64,
        batch: gate
            .batch
            .iter()
            .filter_map(|(stage, size)| size.largest.map(|largest| (stage.clone(), largest)))
            .collect(),
        workers: members.len(),
        totals: GateTotals::of(gate.totals, sum(|member| member.under_way)),
        updated_at: row.updated_at.to_string(),
    })
}
