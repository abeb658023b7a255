//! Operations that somebody began and left to whoever stays.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::id::OperationId;
use redrive_core::time::Timestamp;
use redrive_engine::env::{Clock, Env, SystemClock};
use redrive_operate::Floor;
use redrive_operate::operations::{self, Start};

use super::support::House;

const STAGE: &str = "[[stage]]\nname = \"a\"\nkind = \"filter\"\nkeep = \"true\"\n";

/// The machine's clock, put forward.
struct Ahead(Duration);

#[async_trait]
impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        SystemClock.now().after(self.0)
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }

    async fn sleep(&self, span: Duration) {
        SystemClock.sleep(span).await;
    }
}

async fn abandoned(floor: &Floor, after: Duration) -> Vec<OperationId> {
    let env = Env { clock: Arc::new(Ahead(after)), ..Env::system() };
    let floor = Floor { env, ..floor.clone() };
    operations::abandoned(&floor, Duration::from_secs(10)).await.expect("looked")
}

#[tokio::test]
async fn an_operation_on_a_set_is_taken_up_after_a_second_and_any_other_after_ten() {
    let house = House::new(STAGE, "{\"n\":\"ill 1\"}\n{\"n\":\"ill 2\"}\n");
    assert_eq!(house.run().await.counts.dead, 2);
    let begin = async |request: serde_json::Value| {
        let request: Start = serde_json::from_value(request).expect("a request");
        operations::start(&house.floor, &request).await.expect("begun").operations.remove(0).id
    };
    let plain = begin(serde_json::json!({"kind": "redrive", "all": true})).await;
    let set = begin(serde_json::json!({"kind": "redrive", "all": true, "canary": 1})).await;
    assert_eq!(abandoned(&house.floor, Duration::from_millis(1_100)).await, [set]);
    assert_eq!(abandoned(&house.floor, Duration::from_secs(11)).await, [plain, set]);
}
