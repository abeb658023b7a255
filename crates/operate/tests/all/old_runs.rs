//! What is done for a run is done however many runs are newer.

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_operate::operations::{self, Carrier};
use redrive_operate::{Floor, gates};
use redrive_store::{NewRun, RunChange};

use crate::support::House;

const ILL: &str = "{\"n\":\"ill 1\"}\n";

/// So many runs of the same pipeline that have nothing to do.
async fn newer(floor: &Floor, runs: usize) {
    let row = floor.store.run(RunId(1)).await.expect("read").expect("there");
    for n in 0..runs {
        let new = NewRun { source: format!("{n}.jsonl"), ..row.spec.clone() };
        floor.store.create_run(new, Timestamp(1)).await.expect("made");
    }
}

#[tokio::test]
async fn a_rule_acts_on_a_run_with_five_hundred_newer_ones() {
    let stage = |keep: &str| {
        format!(
            "[[stage]]\nname = \"a\"\nkind = \"filter\"\nkeep = \"{keep}\"\n[[rule]]\nname = \"mended\"\nwhen = \"configuration_changed\"\nat_most = 2\n"
        )
    };
    let house = House::new(&stage("true"), ILL);
    assert_eq!(house.run().await.counts.dead, 1);
    let floor = &house.floor;
    newer(floor, 501).await;
    let row = floor.store.run(RunId(1)).await.expect("read").expect("there");
    let definition = Some(row.spec.definition.replace("true", "!false"));
    floor
        .store
        .change_run(RunId(1), RunChange { definition, ..RunChange::default() })
        .await
        .expect("changed");
    let begun = operations::apply_rules(floor, &Carrier::default()).await.expect("looked at");
    assert_eq!(begun, 1);
}

#[tokio::test]
async fn a_gate_that_is_resumed_lets_a_run_go_on_with_a_thousand_newer_ones() {
    let house =
        House::new("[[stage]]\nname = \"a\"\nkind = \"filter\"\nkeep = \"true\"\ngate = \"it\"\n", "");
    let floor = &house.floor;
    house.begin(redrive_operate::runs::Begin::default()).await.expect("begun");
    newer(floor, 1_001).await;
    gates::pause(floor, "it", "for a test").await.expect("paused");
    let paused = RunChange::ask(Control::PausedQuota, None, Timestamp(2));
    floor.store.change_run(RunId(1), paused).await.expect("changed");
    assert_eq!(gates::resume(floor, Some("it".to_owned())).await.expect("resumed").runs, [RunId(1)]);
}
