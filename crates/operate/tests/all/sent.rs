//! Pipelines that are sent as text.

use redrive_operate::Code;
use redrive_operate::pipelines::Pipeline;

use crate::support::House;

#[test]
fn what_only_a_pipeline_of_the_folder_can_ask_for_is_refused_in_one_that_is_sent() {
    let house = House::new("[[stage]]\nname = \"s\"\nkind = \"pass\"\n", "");
    let sent = |more: &str| {
        let text = format!(
            "name = \"p\"\n[source]\npath = \"in.jsonl\"\n[[stage]]\nname = \"s\"\nkind = \"pass\"\n{more}"
        );
        Pipeline::sent(&*house.floor.wiring, &text, std::env::temp_dir())
    };
    sent("").expect("it is taken");
    for (key, order) in [
        ("notify", "[[notify]]\non = [\"run.ended\"]\nurl = \"https://hooks.example.org/x\"\n"),
        ("schedule", "[schedule]\ncron = \"0 6 * * *\"\n"),
        ("retention", "[retention]\nruns = \"30d\"\n"),
    ] {
        let error = sent(order).expect_err(key);
        assert_eq!(error.code, Code::InvalidPipeline, "{error:?}");
        let [problem] = &error.problems[..] else { panic!("{error:?}") };
        assert_eq!(problem.key, key);
        assert!(problem.message.contains("this one is sent") && problem.line == 8, "{problem:?}");
    }
}
