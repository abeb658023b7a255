//! The failure budget: what a worker saw and wrote stays in it, whoever writes next.

use redrive_core::budget::Budget;
use redrive_store::RunRow;

use super::{Oracle, Ruling, broken};

impl Oracle {
    /// Takes in the budget that is kept with the run.
    pub(super) fn budget_kept(&mut self, row: &RunRow) -> Ruling {
        if row.budget == self.budget {
            return Ok(());
        }
        let (Ok(old), Ok(new)) = (Budget::load(self.budget.as_deref()), Budget::load(row.budget.as_deref()))
        else {
            return broken("budget", format!("the budget is {:?}, which cannot be read", row.budget));
        };
        for (worker, seen) in old.taken() {
            let still = new.taken().get(worker).copied().unwrap_or(0);
            if still < *seen {
                return broken(
                    "budget",
                    format!("{seen} observations of {worker} were in the budget, and {still} are"),
                );
            }
        }
        self.budget.clone_from(&row.budget);
        Ok(())
    }
}
