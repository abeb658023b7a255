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
    // Of an array of tables it is the line of what is written first in it.
    for (key, line, order) in [
        ("notify", 8, "[[notify]]\non = [\"run.ended\"]\nurl = \"https://hooks.example.org/x\"\n"),
        ("schedule", 7, "[schedule]\ncron = \"0 6 * * *\"\n"),
        ("retention", 7, "[retention]\nruns = \"30d\"\n"),
    ] {
        let error = sent(order).expect_err(key);
        assert_eq!(error.code, Code::InvalidPipeline, "{error:?}");
        let [problem] = &error.problems[..] else { panic!("{error:?}") };
        assert_eq!(problem.key, key);
        assert!(problem.message.contains("this one is sent") && problem.line == line, "{problem:?}");
    }
}
