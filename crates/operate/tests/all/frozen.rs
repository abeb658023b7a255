//! A frozen set: what was looked at is what is sent back.

use redrive_operate::dead::{self, Allowance, Freeze, Frozen, Redrive, Selection, Which};
use redrive_operate::work::Unobserved;
use redrive_operate::{Kind, operations};

use super::support::House;

const FAMILY: &str = "[[stage]]\nname = \"split\"\nkind = \"pass\"\non_child_failure = \"dead\"\n\
    [[stage.children]]\nname = \"part\"\nkind = \"pass\"\n";
const LINES: &str = "{\"n\":1,\"is\":\"ill\"}\n{\"n\":2,\"is\":\"well\"}\n{\"n\":3,\"is\":\"ill\"}\n";
const ANY: Allowance = Allowance { max_items: 100, max_usd: None };

async fn frozen(house: &House, limit: u64) -> Frozen {
    dead::freeze(&house.floor, &Freeze { which: Which::default(), limit }).await.expect("frozen")
}

#[tokio::test]
async fn a_set_is_named_by_its_items_and_their_condition() {
    let house = House::new(FAMILY, LINES);
    house.run().await;
    let set = frozen(&house, 100).await;
    assert_eq!((set.planned.items, set.planned.matching, set.planned.skipped), (4, 6, 0));
    assert_eq!((set.planned.usd, set.planned.unpriced), (Some(0.0), 0), "stages of this machine are free");
    assert_eq!(set.planned.by.len(), 1);
    assert_eq!(frozen(&house, 100).await.planned.set, set.planned.set);
    assert_ne!(frozen(&house, 3).await.planned.set, set.planned.set);
}

#[tokio::test]
async fn what_has_changed_since_is_left_alone() {
    let house = House::new(FAMILY, LINES);
    house.run().await;
    let set = frozen(&house, 100).await;
    // Somebody sends two of them back, and they come to the same end.
    let selection = Selection::of(&house.floor, &Which::default()).await.expect("selected");
    let two = Redrive { limit: Some(2), work: true, ..Redrive::default() };
    dead::redrive(&house.floor, &selection, &two, &Unobserved).await.expect("done");
    let sent = dead::send_frozen(&house.floor, &set, ANY).await.expect("sent");
    assert_eq!((sent.items, sent.left_alone), (2, 2));
    let again = dead::send_frozen(&house.floor, &set, ANY).await.expect("sent");
    assert_eq!((again.items, again.left_alone), (0, 4), "saying it twice does it once");
    let kept = operations::list(&house.floor, 1).await.expect("listed").operations.remove(0);
    assert_eq!((kept.id, kept.changed, kept.skipped), (again.operation, 0, 4));
}

#[tokio::test]
async fn more_than_is_allowed_is_refused_and_changes_nothing() {
    let house = House::new(FAMILY, LINES);
    house.run().await;
    let set = frozen(&house, 100).await;
    let few = Allowance { max_items: 3, max_usd: None };
    let refused = dead::send_frozen(&house.floor, &set, few).await.expect_err("too many");
    assert_eq!(refused.kind, Kind::Refused);
    assert_eq!(frozen(&house, 100).await.planned.set, set.planned.set, "nothing has changed");
    let free = Allowance { max_items: 4, max_usd: Some(0.0) };
    assert_eq!(dead::send_frozen(&house.floor, &set, free).await.expect("sent").items, 4);
}
