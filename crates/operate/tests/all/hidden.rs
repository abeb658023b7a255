//! Whoever may not see contents does not find out about them by writing.

use redrive_operate::dead::Import;
use redrive_operate::{Asker, Floor, Kind};

use crate::support::House;

#[tokio::test]
async fn an_import_is_refused_to_whoever_may_not_see_contents() {
    let house =
        House::new("[[stage]]\nname = \"a\"\nkind = \"filter\"\nkeep = \"true\"\n", "{\"n\":\"ill 1\"}\n");
    assert_eq!(house.run().await.counts.dead, 1);
    let blind = Asker { payloads_hidden: true, ..Asker::admin("bob") };
    let floor = Floor { asker: blind, ..house.floor.clone() };
    let line = "{\"item\": {\"id\": \"x\", \"payload\": 1}}".to_owned();
    let refused = Import::of(&floor, "a test").lines(std::slice::from_ref(&line)).await.expect_err("refused");
    assert_eq!(refused.kind, Kind::Forbidden);
    assert!(
        Import::of(&house.floor, "a test").lines(&[line]).await.is_ok(),
        "others are told what is wrong with it"
    );
}
