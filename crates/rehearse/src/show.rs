//! A report for people.

use std::fmt;

use crate::report::Report;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.lasted_ms / 1_000;
        writeln!(f, "plan {}, seed {}", self.plan, self.seed)?;
        writeln!(
            f,
            "calls        {:>9}  over {seconds} s, at most {} at once",
            self.calls, self.highest_concurrency
        )?;
        let rows = [
            ("ok", self.ok, "good answers"),
            ("rejected", self.rejected, "429"),
            ("failed", self.failed, "another error status"),
            ("cut", self.cut, "connection closed before or within the answer"),
            ("spoilt", self.spoilt, "status 200, but a broken answer"),
            ("abandoned", self.abandoned, "the caller went away first"),
            ("open", self.open, "not answered yet"),
            ("early", self.early_calls, "came before the end of a Retry-After"),
            ("own early", self.early_items, "those whose item had got that Retry-After itself"),
        ];
        for (name, count, meaning) in rows.into_iter().filter(|(name, count, _)| *count > 0 || *name == "ok")
        {
            writeln!(f, "  {name:<11}{count:>9}  {meaning}")?;
        }
        writeln!(
            f,
            "served       {:>9}  items, {} different, {} tokens",
            self.items_served, self.distinct_served, self.tokens_served
        )?;
        write!(f, "paid again   {:>9}  good answers to items that had one before", self.paid_again)?;
        let pairs = |pairs: Vec<String>| pairs.join(", ");
        if !self.statuses.is_empty() {
            let list = self.statuses.iter().map(|(status, n)| format!("{status}: {n}")).collect();
            write!(f, "\nby status    {}", pairs(list))?;
        }
        if !self.faults.is_empty() {
            let list = self.faults.iter().map(|(name, n)| format!("{name}: {n}")).collect();
            write!(f, "\nfaults       {}", pairs(list))?;
        }
        if !self.poison.is_empty() {
            let named = self.poison.iter().take(10).map(|hit| {
                format!("{} ({} call{})", hit.item, hit.calls, if hit.calls == 1 { "" } else { "s" })
            });
            let mut list: Vec<String> = named.collect();
            if self.poison.len() > list.len() {
                list.push(format!("{} more", self.poison.len() - list.len()));
            }
            write!(f, "\npoison       {}", pairs(list))?;
        }
        Ok(())
    }
}
