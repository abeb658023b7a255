//! Watching the clock beside the work: what it does to waits, leases, gates and deadlines is mended, and told.

use std::time::Duration;

use redrive_core::time::{CLOCK_SLACK, Steps, Timestamp, millis};
use redrive_store::{Error, Pause, RunChange, Store};

use super::desk::Desk;
use crate::env::Env;
use crate::maintain::{Mended, mend_clock};

/// How often the store is searched for what a clock wrote that was ahead, besides the beginning and whenever this one was put
/// back: another machine's may be wrong.
const MEND_EVERY: Duration = Duration::from_secs(15);

/// Steps of a clock, as whoever goes by leases has to know them.
#[derive(Debug, Default)]
pub struct Jumps {
    steps: Option<Steps>,
    /// How far the clock was last put forward, and when, by the uptime.
    last: Option<(Duration, Duration)>,
}

impl Jumps {
    /// Looks at the clock. To be called before anything is taken back. Tells by how many milliseconds it was put since.
    pub fn look(&mut self, env: &Env) -> Option<i64> {
        let (now, uptime) = env.reading()?;
        let steps = self.steps.get_or_insert_with(|| Steps::new(now, uptime));
        let ms = steps.look(now, uptime)?;
        self.last = (ms > 0).then(|| (Duration::from_millis(ms.unsigned_abs()), uptime));
        Some(ms)
    }

    /// How much less time has passed than the clock says, as far as leases go: whoever holds one has not had the time to renew
    /// it yet.
    #[must_use]
    pub fn within(&self, lease: Duration, env: &Env) -> Duration {
        let recent = self.last.filter(|(_, at)| env.clock.uptime().saturating_sub(*at) < lease);
        recent.map_or(Duration::ZERO, |(by, _)| by)
    }
}

/// What a session knows of its clock.
#[derive(Debug, Default)]
pub struct ClockWatch {
    jumps: Jumps,
    /// When it is mended next, by the uptime.
    mend_at: Duration,
    /// Milliseconds by which deadlines are to be put off and are not yet; what they were put off by.
    owed: i64,
    granted: i64,
}

impl ClockWatch {
    /// A watch that mends nothing for so long.
    #[must_use]
    pub fn patient(env: &Env, span: Duration) -> Self {
        Self { mend_at: env.clock.uptime() + span, ..Self::default() }
    }

    /// Looks at the clock. To be called before anything is claimed or taken back.
    ///
    /// # Errors
    /// When the store fails; what is left to do is done at the next look.
    pub async fn look(&mut self, store: &dyn Store, desk: &mut Desk, env: &Env) -> Result<(), Error> {
        let Some((now, uptime)) = env.reading() else { return Ok(()) };
        match self.jumps.look(env) {
            Some(ms) if ms < 0 => self.put_back(-ms, desk, now),
            Some(ms) => self.put_forward(ms),
            None => {}
        }
        if self.owed != 0 {
            self.grant(store, desk).await?;
        }
        if uptime >= self.mend_at {
            let plan = desk.plan().clone();
            let mended = mend_clock(store, desk.run(), &plan, env).await?;
            self.mend_at = uptime + MEND_EVERY;
            tell(mended);
        }
        Ok(())
    }

    /// See [`Jumps::within`].
    #[must_use]
    pub fn jumped(&self, lease: Duration, env: &Env) -> Duration {
        self.jumps.within(lease, env)
    }

    fn put_back(&mut self, ms: i64, desk: &mut Desk, now: Timestamp) {
        tracing::warn!("the clock was put back by {} s; waits are no longer for it", seconds(ms));
        desk.clock_put_back(now);
        self.mend_at = Duration::ZERO;
        // What it was put forward by, and now is not any more, is no time that deadlines are to be put off by.
        self.owed -= ms.min(self.granted + self.owed).max(0);
    }

    fn put_forward(&mut self, ms: i64) {
        tracing::warn!(
            "the clock was put forward by {} s, or the machine slept; deadlines do not count that",
            seconds(ms)
        );
        self.owed += ms;
    }

    /// Puts deadlines off by time that did not pass, as a pause does. Other processes on the machine saw the same step: the
    /// first of them to say so says it for all.
    async fn grant(&mut self, store: &dyn Store, desk: &mut Desk) -> Result<(), Error> {
        let Some(row) = store.run(desk.run()).await? else { return Ok(()) };
        let others = row.pause.before_ms - desk.paused_ms();
        let mut before_ms = row.pause.before_ms;
        if (others - self.owed).abs() > millis(CLOCK_SLACK) {
            before_ms = (before_ms + self.owed).max(0);
            let pause = Some(Pause { before_ms, ..row.pause });
            store.change_run(desk.run(), RunChange { pause, ..RunChange::default() }).await?;
        }
        desk.paused_for(before_ms);
        self.granted += self.owed;
        self.owed = 0;
        Ok(())
    }
}

fn seconds(ms: i64) -> i64 {
    ms / 1_000
}

fn tell(mended: Mended) {
    let Mended { items, leases, ahead } = mended;
    if items > 0 {
        tracing::warn!(
            items,
            "items were written by a clock {} s ahead of this one; their waits begin anew",
            ahead.as_secs()
        );
    }
    if leases > 0 {
        tracing::warn!(
            leases,
            "workers' leases were given by a clock {} s ahead; they begin anew",
            ahead.as_secs()
        );
    }
}
