//! Dead items that a rule sends back because their stage is configured otherwise.

use redrive_core::id::RunId;
use redrive_operate::operations::{self, Carrier};
use redrive_store::{OperationState, RunChange};

use crate::support::House;

const RULE: &str = "[[rule]]\nname = \"mended\"\nwhen = \"configuration_changed\"\nat_most = 2\ncanary = 1\n";

fn stages(keep: &str) -> String {
    format!("[[stage]]\nname = \"a\"\nkind = \"filter\"\nkeep = \"{keep}\"\n{RULE}")
}

#[tokio::test]
async fn what_died_by_another_configuration_goes_again_once_and_at_most_so_many() {
    let house = House::new(&stages("true"), "{\"n\":\"ill 1\"}\n{\"n\":\"ill 2\"}\n{\"n\":\"ill 3\"}\n");
    assert_eq!(house.run().await.counts.dead, 3);
    let (floor, run) = (&house.floor, RunId(1));
    let apply = async || operations::apply_rules(floor, &Carrier::default()).await.expect("looked at");
    assert_eq!(apply().await, 0, "nothing was changed");
    // Whoever changes a pipeline sends back what died there by itself; this is what is left where nobody did.
    let row = floor.store.run(run).await.expect("read").expect("there");
    let definition = Some(row.spec.definition.replace("true", "!false"));
    floor.store.change_run(run, RunChange { definition, ..RunChange::default() }).await.expect("changed");
    assert_eq!(apply().await, 1);
    assert_eq!(apply().await, 0, "one at a time");
    let list = operations::list(floor, 9).await.expect("listed").operations;
    assert_eq!((list.len(), list[0].actor.as_str()), (1, "rule:p/mended"));
    let first = operations::carry_on(floor, list[0].id).await.expect("carried on");
    assert_eq!((first.state, first.changed), (OperationState::Open, 1), "the canary");
    let outcomes = first.outcomes.expect("told");
    assert_eq!((outcomes.items, outcomes.pending, outcomes.live), (2, 1, 1), "at most so many an hour");
    operations::stop(floor, list[0].id).await.expect("stopped");
    assert_eq!(apply().await, 0, "what was stopped is not begun again within the hour");
}
