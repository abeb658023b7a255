//! Every metric: its name, what it is, its labels, and what it means. `docs/monitoring.md` has the same table.

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by these upper bounds.
    Histogram(&'static [f64]),
}

impl Kind {
    /// The word that the text format has for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
}

/// Retries that an item needed.
const RETRY_BOUNDS: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 40.0];
/// Seconds from the first failure to success.
const HEAL_BOUNDS: &[f64] =
    &[1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 21_600.0, 86_400.0, 604_800.0];
/// Seconds that a try took.
const TRY_BOUNDS: &[f64] = &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Seconds that a sweep took.
pub(crate) const SWEEP_BOUNDS: &[f64] = &[0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];

macro_rules! families {
    ($($id:ident = $kind:expr, $name:literal [$($label:literal),*] $help:literal;)+) => {
        $(
            #[doc = $help]
            pub const $id: Family =
                Family { name: $name, kind: $kind, labels: &[$($label),*], help: $help };
        )+
        /// All of them, in the order in which they are told.
        pub const ALL: &[Family] = &[$($id),+];
    };
}

families! {
    BUILD = Kind::Gauge, "redrive_build_info" ["version"] "Always 1: the version that answers.";
    ITEMS = Kind::Gauge, "redrive_items" ["pipeline", "stage", "state"] "Items by the state they are in now.";
    ADMITTED = Kind::Counter, "redrive_items_admitted_total" ["pipeline", "stage"] "Items that were admitted.";
    ATTEMPTS = Kind::Counter, "redrive_attempts_total" ["pipeline", "stage", "outcome"] "Attempts by how they ended.";
    FAILURES = Kind::Counter, "redrive_failures_total" ["pipeline", "stage", "class"] "Attempts that failed or were turned away, by class.";
    TRIES = Kind::Counter, "redrive_tries_total" ["pipeline", "stage"] "Attempts that passed, failed or crashed.";
    RETRIES = Kind::Counter, "redrive_retries_total" ["pipeline", "stage"] "Tries that were not an item's first at its stage.";
    ITEM_RETRIES = Kind::Histogram(RETRY_BOUNDS), "redrive_item_retries" ["pipeline", "stage"] "Retries that items needed to pass a stage; from 49 on they count as 49.";
    HEALED = Kind::Histogram(HEAL_BOUNDS), "redrive_time_to_successful_retry_seconds" ["pipeline", "stage"] "From an item's first failure at a stage to its passing, however often it was sent back in between.";
    TOOK = Kind::Histogram(TRY_BOUNDS), "redrive_try_duration_seconds" ["pipeline", "stage"] "How long tries took, from claim to end.";
    DUE_LAG = Kind::Gauge, "redrive_due_lag_seconds" ["pipeline", "stage"] "For how long the item that waits longest past its time is due; 0 when none is.";
    STUCK = Kind::Gauge, "redrive_stuck_items" ["pipeline", "stage"] "Items whose worker vanished, or whose answer is missing for more than five minutes past its time, until somebody takes them back.";
    AWAITED = Kind::Gauge, "redrive_awaited_items" ["pipeline", "stage"] "Items that are handed over and wait for their answer; they are among the waiting, and among the running while it is asked for.";
    STARVED = Kind::Gauge, "redrive_starved_items" ["pipeline", "stage", "cause"] "Items due for more than five minutes and not taken, by what keeps them; at most 10,000 of a run's stage are counted.";
    LEASES_LOST = Kind::Counter, "redrive_lease_losses_total" ["pipeline", "stage"] "Attempts whose worker vanished.";
    DEAD = Kind::Gauge, "redrive_dead_items" ["pipeline", "stage", "reason"] "Dead items by reason.";
    DIED = Kind::Counter, "redrive_deaths_total" ["pipeline", "stage", "reason"] "Times that an item died, by reason.";
    PERMANENT = Kind::Gauge, "redrive_permanent_looking_items" ["pipeline", "stage"] "Items that wait or run and have failed so often that they look permanent.";
    TOKENS = Kind::Counter, "redrive_tokens_total" ["pipeline", "stage", "direction"] "Tokens that attempts sent and received.";
    COST = Kind::Counter, "redrive_cost_usd_total" ["pipeline", "stage"] "What attempts cost in US dollars, as far as prices are known.";
    UNPRICED = Kind::Counter, "redrive_unpriced_tokens_total" ["pipeline", "stage"] "Tokens of attempts whose price is not known.";
    RUNS = Kind::Gauge, "redrive_runs" ["pipeline", "state"] "Runs by what they do.";
    BUDGET = Kind::Gauge, "redrive_budget_spent_ratio" ["pipeline", "stage"] "The largest share of its failure budget, or of `max_dead`, that a run going on has spent; from 1 on it is paused.";
    PAUSED = Kind::Gauge, "redrive_pauses" ["pipeline"] "Pauses that somebody put on a pipeline or on stages of it.";
    WORKERS = Kind::Gauge, "redrive_workers" [] "Workers that gave a sign of life within their lease.";
    WORKER_SEEN = Kind::Gauge, "redrive_worker_seen_timestamp_seconds" [] "When a worker last gave a sign of life; 0 when none is registered.";
    GATE_STATE = Kind::Gauge, "redrive_gate_state" ["gate", "state"] "1 for the state that a gate is in.";
    GATE_LIMIT = Kind::Gauge, "redrive_gate_concurrency_limit" ["gate"] "Calls at once that a gate lets through now.";
    GATE_CALLS_NOW = Kind::Gauge, "redrive_gate_calls_under_way" ["gate"] "Calls that are under way.";
    GATE_RATE = Kind::Gauge, "redrive_gate_requests_per_minute" ["gate"] "Requests that were made within the last minute.";
    GATE_RATE_LEARNT = Kind::Gauge, "redrive_gate_requests_per_minute_learnt" ["gate"] "Requests a minute that the service turned out to bear; absent where that is not known.";
    GATE_LATENCY = Kind::Gauge, "redrive_gate_latency_seconds" ["gate"] "How long a call takes lately.";
    GATE_CALLS = Kind::Counter, "redrive_gate_calls_total" ["gate", "outcome"] "Calls by how they ended.";
    GATE_TOKENS = Kind::Counter, "redrive_gate_tokens_total" ["gate"] "Tokens that calls consumed, as far as that is known.";
    OPERATIONS = Kind::Gauge, "redrive_operations" ["kind", "state"] "Operations on many items by kind and state.";
    OPERATION_AGE = Kind::Gauge, "redrive_operation_idle_seconds" [] "For how long the open operation that was left alone longest has not gone on; 0 when none is open, or all wait on purpose: for the end of their undo time, or of what was sent back first.";
    FACTS_KEPT = Kind::Gauge, "redrive_bus_facts_kept" [] "1 where facts are kept for the bus, 0 where nobody is to be told.";
    FACTS_WAITING = Kind::Gauge, "redrive_bus_facts_waiting" [] "Facts that wait to be passed on to the bus; at most 10,000 are counted.";
    FACTS_AGE = Kind::Gauge, "redrive_bus_oldest_fact_seconds" [] "For how long the oldest fact that waits does; 0 when none does.";
    LAWS = Kind::Gauge, "redrive_laws_broken" ["law"] "Violations that the auditor found in its last round or in the present one.";
    LAWS_ITEMS = Kind::Counter, "redrive_laws_items_checked_total" [] "Items that the auditor has looked at.";
    LAWS_AT = Kind::Gauge, "redrive_laws_checked_timestamp_seconds" [] "When the auditor last looked; 0 before it has.";
    JOB_REQUEUED = Kind::Counter, "retry_job_documents_requeued_total" ["collection"] "Items that sweeps put back into line, or found there because the time of their retry had come since the sweep before.";
    JOB_SKIPPED = Kind::Counter, "retry_job_documents_skipped_backoff_total" ["collection"] "Items that sweeps left alone because the time of their retry had not come.";
    JOB_EXHAUSTED = Kind::Counter, "retry_job_documents_max_retries_exceeded_total" ["collection"] "Items that died because their attempts were spent, whoever found that.";
    JOB_RUNS = Kind::Counter, "retry_job_runs_total" ["status"] "Sweeps by how they ended.";
    JOB_ERRORS = Kind::Counter, "retry_job_errors_total" ["error_type"] "Errors that sweeps met and went on after.";
    JOB_STUCK = Kind::Gauge, "retry_job_stuck_documents" ["collection"] "Items whose worker vanished.";
    JOB_FAILED = Kind::Gauge, "retry_job_failed_documents" ["collection"] "Items that are dead because their attempts are spent.";
    JOB_TOOK = Kind::Histogram(SWEEP_BOUNDS), "retry_job_duration_seconds" [] "How long sweeps took.";
    JOB_LAST = Kind::Gauge, "retry_job_last_success_timestamp_seconds" [] "When a sweep last ended well; 0 before one has.";
    OTLP_SPANS = Kind::Counter, "redrive_otlp_spans_total" ["outcome"] "Spans that the process that answers sent by OTLP, or dropped because they were not taken; absent where none are sent.";
    SCRAPE = Kind::Gauge, "redrive_scrape_duration_seconds" [] "How long it took to read all of this.";
}
