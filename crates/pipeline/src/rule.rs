//! `[[rule]]`: dead items that are sent back without somebody asking.

use redrive_core::failure::Class;
use redrive_core::item::DeadReason;

use crate::definition::{RuleDef, StageDef, When};
use crate::problem::Report;
use crate::reader::{Node, Table};
use crate::{scalar, suggest};

/// Most rules of a pipeline, and most items that one sends back in an hour.
const RULES_MAX: usize = 50;
const AN_HOUR_MAX: u32 = 100_000;
const WHENS: [&str; 2] = ["gate_open", "configuration_changed"];

/// Reads the rules, in order.
pub(crate) fn read(node: &Node<'_, '_>, stages: &[StageDef], report: &mut Report<'_>) -> Vec<RuleDef> {
    let Some(nodes) = node.array(report) else { return Vec::new() };
    if nodes.len() > RULES_MAX {
        node.fail(report, format!("more than {RULES_MAX} rules"));
    }
    let mut rules: Vec<RuleDef> = Vec::new();
    for node in nodes {
        let Some(table) = node.table(report) else { continue };
        let Some(rule) = rule(table, stages, report) else { continue };
        if rules.iter().any(|known| known.name == rule.name) {
            node.fail(report, format!("there is a rule {:?} already", rule.name));
        }
        rules.push(rule);
    }
    rules
}

fn rule(mut table: Table<'_, '_>, stages: &[StageDef], report: &mut Report<'_>) -> Option<RuleDef> {
    let name = table.require("name", report).and_then(|node| node.parsed(report, scalar::title));
    let when = table.require("when", report).and_then(|node| word(&node, &WHENS, report));
    let gate = table.take("gate");
    let when = match when {
        Some("gate_open") => gate_of(gate, &mut table, report).map(When::GateOpen),
        Some(_) => {
            if let Some(gate) = gate {
                gate.fail(report, "has a meaning with when = \"gate_open\" only");
            }
            Some(When::ConfigurationChanged)
        }
        None => None,
    };
    let classes = Class::ALL.map(Class::name);
    let class = table.take("class").and_then(|node| word(&node, &classes, report)).and_then(Class::from_name);
    let reasons = DeadReason::ALL.map(DeadReason::name);
    let reason =
        table.take("reason").and_then(|node| word(&node, &reasons, report)).and_then(DeadReason::from_name);
    let stage = table.take("stage").and_then(|node| stage(&node, stages, report));
    let text = table.take("text").and_then(|node| node.string(report)).map(ToOwned::to_owned);
    let at_most = table.require("at_most", report).and_then(|node| node.count(report, AN_HOUR_MAX));
    let canary = table.take("canary").and_then(|node| node.count(report, 1_000)).map(u64::from);
    table.finish(report);
    let (class, reason) = (class, reason);
    Some(RuleDef {
        name: name?,
        when: when?,
        class,
        reason,
        stage,
        text,
        at_most: u64::from(at_most?),
        canary,
    })
}

fn gate_of(gate: Option<Node<'_, '_>>, table: &mut Table<'_, '_>, report: &mut Report<'_>) -> Option<String> {
    match gate {
        Some(gate) => gate.string(report).map(ToOwned::to_owned),
        None => table.require("gate", report).and(None),
    }
}

fn word<'a>(node: &Node<'a, '_>, known: &[&'static str], report: &mut Report<'_>) -> Option<&'static str> {
    let word = node.string(report)?;
    let found = known.iter().find(|name| **name == word).copied();
    if found.is_none() {
        let message = format!("unknown {word:?}; known are {}", known.join(", "));
        node.fail_with(report, message, suggest::hint(word, known));
    }
    found
}

fn stage(node: &Node<'_, '_>, stages: &[StageDef], report: &mut Report<'_>) -> Option<String> {
    let name = node.string(report)?;
    if !has(stages, name) {
        node.fail(report, format!("there is no stage {name:?}"));
    }
    Some(name.to_owned())
}

fn has(stages: &[StageDef], name: &str) -> bool {
    stages.iter().any(|stage| stage.name == name || has(&stage.children, name))
}
