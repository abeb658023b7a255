//! From a definition to what decisions need of it: the plan, the gates, and the marks of stages' configurations.

use redrive_core::id::{ContentHash, StageNo};
use redrive_core::plan::{Plan, StagePlan};

use crate::definition::{Definition, StageDef, StageKind};

impl Definition {
    /// What decisions need to know of the pipeline.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let mut stages = Vec::new();
        flatten(&self.stages, None, &mut stages);
        let is_external = |def: &StageDef| matches!(def.kind, StageKind::External { .. });
        let external = self.all_stages().enumerate().filter(|(_, def)| is_external(def));
        let external = external.map(|(no, _)| number(no)).collect();
        Plan::new(stages, self.deadline).with_external(external)
    }

    /// The gate of every stage, in the order of the plan.
    #[must_use]
    pub fn gate_names(&self) -> Vec<Option<String>> {
        self.all_stages().map(StageDef::gate_name).collect()
    }

    /// Whether a stage of the pipeline passes this gate.
    #[must_use]
    pub fn passes(&self, gate: &str) -> bool {
        self.all_stages().any(|stage| stage.gate_name().as_deref() == Some(gate))
    }
}

impl StageDef {
    /// The gate that the stage's calls pass: the one it names, or [`StageDef::default_gate`].
    #[must_use]
    pub fn gate_name(&self) -> Option<String> {
        self.gate.clone().or_else(|| self.default_gate())
    }

    /// The mark by which the stage's outputs are kept, if they are.
    #[must_use]
    pub fn reuse_mark(&self) -> Option<i64> {
        self.reuse.then(|| ContentHash::of(&[self.config_hash().as_bytes()]).short())
    }

    /// Mark of everything that changes what the stage does and how it retries; attempts carry it.
    #[must_use]
    pub fn config_mark(&self) -> i64 {
        let policy = serde_json::to_vec(&self.retry).unwrap_or_default();
        let timeout = self.timeout.as_millis().to_le_bytes();
        ContentHash::of(&[self.config_hash().as_bytes(), &policy, &timeout]).short()
    }
}

fn flatten(list: &[StageDef], owner: Option<StageNo>, stages: &mut Vec<StagePlan>) {
    let mut before: Option<usize> = None;
    for def in list {
        let no = stages.len();
        if let Some(before) = before {
            stages[before].next = Some(number(no));
        }
        stages.push(StagePlan {
            name: def.name.clone(),
            next: None,
            first_child: None,
            owner,
            policy: def.retry.clone(),
            timeout: def.timeout,
            config: def.config_mark(),
            child_failure: def.on_child_failure,
        });
        if !def.children.is_empty() {
            stages[no].first_child = Some(number(no + 1));
            flatten(&def.children, Some(number(no)), stages);
        }
        before = Some(no);
    }
}

fn number(index: usize) -> StageNo {
    StageNo(u16::try_from(index).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NESTED: &str = r#"
name = "p"
[[stage]]
name = "split"
kind = "pass"
[[stage.children]]
name = "call"
kind = "http"
url = "http://127.0.0.1:9000/work"
reuse = true
[[stage.children]]
name = "keep"
kind = "pass"
[[stage]]
name = "after"
kind = "http"
url = "http://127.0.0.1:9000/work"
gate = "own"
"#;

    #[test]
    fn nested_stages_come_after_the_stage_they_belong_to() {
        let definition = crate::parse(NESTED, "p.toml").expect("valid");
        let plan = definition.plan();
        let names: Vec<&str> = plan.stages().map(|(_, stage)| stage.name.as_str()).collect();
        assert_eq!(names, ["split", "call", "keep", "after"]);
        let split = plan.stage(StageNo(0)).expect("a stage");
        assert_eq!((split.next, split.first_child, split.owner), (Some(StageNo(3)), Some(StageNo(1)), None));
        let call = plan.stage(StageNo(1)).expect("a stage");
        assert_eq!((call.next, call.owner), (Some(StageNo(2)), Some(StageNo(0))));
    }

    #[test]
    fn a_stage_passes_the_gate_it_names_or_that_of_its_host() {
        let definition = crate::parse(NESTED, "p.toml").expect("valid");
        let host = Some("127.0.0.1:9000".to_owned());
        assert_eq!(definition.gate_names(), [None, host, None, Some("own".to_owned())]);
        assert!(definition.passes("own") && !definition.passes("other"));
    }

    #[test]
    fn patience_changes_the_mark_of_attempts_and_not_that_of_outputs() {
        let before = crate::parse(NESTED, "p.toml").expect("valid");
        let slow = NESTED.replace("reuse = true", "reuse = true\ntimeout = \"5m\"");
        let after = crate::parse(&slow, "p.toml").expect("valid");
        let (before, after) = (&before.stages[0].children[0], &after.stages[0].children[0]);
        assert_ne!(before.config_mark(), after.config_mark());
        assert_eq!(before.reuse_mark(), after.reuse_mark());
        assert!(before.reuse_mark().is_some());
    }
}
