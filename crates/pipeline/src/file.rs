//! The top of a pipeline file.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::gate::GateSpec;
use redrive_core::order::Order;
use redrive_core::status::Thresholds;
use toml::de::DeTable;

use crate::definition::{Commands, Definition, Outbound, SourceDef, StageDef, StageKind};
use crate::problem::{Problem, Report};
use crate::reader::{Node, Table};
use crate::run::RunDef;
use crate::stage::Stages;
use crate::suggest;
use crate::{gate, layout, notify, price, retention, rule, run, scalar, schedule, source};

/// Largest file that is read.
const FILE_MAX: usize = 4 * 1024 * 1024;
const DEADLINE: Duration = Duration::from_secs(24 * 3_600);
const ORDERS: [&str; 3] = ["oldest", "fresh-first", "retry-first"];

/// Reads a pipeline from TOML text, or reports everything that is wrong with it, in the order of the lines.
///
/// `file` is what the text is called in problems.
pub fn parse(text: &str, file: &str) -> Result<Definition, Vec<Problem>> {
    let mut report = Report::new(file, text);
    if text.len() > FILE_MAX {
        report.problem(0, "", format!("the file is larger than {FILE_MAX} bytes"), None);
        return Err(report.problems);
    }
    let (tree, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        report.problem(at, "", error.message().trim().replace('\n', ", "), None);
    }
    let definition = if report.problems.is_empty() {
        definition(Table::new(String::new(), 0, tree.get_ref()), &mut report)
    } else {
        None
    };
    match definition {
        Some(definition) if report.problems.is_empty() => {
            let mut warnings = report.warnings;
            warnings.sort_by_key(|warning| warning.line);
            Ok(Definition { warnings, ..definition })
        }
        _ => {
            report.problems.sort_by_key(|problem| problem.line);
            Err(report.problems)
        }
    }
}

fn definition(mut top: Table<'_, '_>, report: &mut Report<'_>) -> Option<Definition> {
    let name = top.require("name", report).and_then(|node| node.parsed(report, scalar::title));
    report.pipeline.clone_from(&name);
    let category = top.take("category").and_then(|node| node.parsed(report, scalar::title));
    let priority =
        top.take("priority").and_then(|node| node.integer(report, i32::MIN.into(), i32::MAX.into()));
    let order = top.take("order").and_then(|node| order(&node, report)).unwrap_or_default();
    let retry_share = top.take("retry_share").and_then(|node| share(&node, order, report));
    let deadline = top.take("deadline").map_or(Some(DEADLINE), |node| deadline(&node, report));
    let outbound = top.take("outbound").and_then(|node| outbound(&node, report));
    let commands = top.take("commands").and_then(|node| commands(&node, report));
    let source = match top.take("source") {
        Some(node) => source::read(&node, report),
        None => Some(SourceDef::default()),
    };
    let schedule = top.take("schedule").and_then(|node| schedule::read(&node, source.as_ref(), report));
    let retention = top.take("retention").map(|node| retention::read(&node, report)).unwrap_or_default();
    let notify = top.take("notify").map(|node| notify::read(&node, report)).unwrap_or_default();
    let RunDef { thresholds, budget, max_dead } = run::read(top.take("run").as_ref(), report);
    let mut reader = Stages::new(deadline, outbound.unwrap_or_default(), commands.unwrap_or_default());
    let mut stages = match top.take("stage") {
        Some(node) => reader.list(&node, report),
        None => {
            report.problem(0, "stage", "missing: a pipeline has at least one [[stage]]", None);
            Vec::new()
        }
    };
    if reader.read_all(&stages) {
        layout::check(&top, source.as_ref().map(|source| source.kind), &stages, report);
    }
    let gates = top.take("gate").map_or_else(BTreeMap::new, |node| gates(&node, &stages, report));
    let prices = top.take("price").map_or_else(BTreeMap::new, |node| price::read(&node, report));
    price::apply(&mut stages, &prices);
    name.iter().for_each(|name| name_external(&mut stages, name));
    let rules = top.take("rule").map_or_else(Vec::new, |node| rule::read(&node, &stages, report));
    top.finish(report);
    Some(Definition {
        name: name?,
        category,
        priority: priority.and_then(|number| i32::try_from(number).ok()).unwrap_or(0),
        order,
        retry_share: retry_share.unwrap_or(Order::DEFAULT_SHARE),
        deadline,
        outbound,
        commands,
        source: source.unwrap_or_default(),
        // A file whose passages are not all there is not in the index as it should be.
        thresholds: Thresholds { whole: indexes(&stages), ..thresholds },
        budget,
        schedule,
        retention,
        notify,
        max_dead,
        stages,
        gates,
        prices,
        rules,
        warnings: Vec::new(),
    })
}

/// Tells stages that external workers do which pipeline they are of: they are asked for by it.
fn name_external(stages: &mut [StageDef], name: &str) {
    for stage in stages {
        if let StageKind::External { pipeline, .. } = &mut stage.kind {
            name.clone_into(pipeline);
        }
        name_external(&mut stage.children, name);
    }
}

/// Whether one of these stages, or of those below them, keeps what it makes in the store's index.
fn indexes(stages: &[StageDef]) -> bool {
    stages.iter().any(|stage| stage.kind.indexes() || indexes(&stage.children))
}

fn order(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Order> {
    let word = node.string(report)?;
    let order = Order::from_name(word);
    if order.is_none() {
        let message = format!("unknown order {word:?}; known are {}", ORDERS.join(", "));
        node.fail_with(report, message, suggest::hint(word, &ORDERS));
    }
    order
}

fn outbound(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Outbound> {
    let word = node.string(report)?;
    let outbound = Outbound::from_name(word);
    if outbound.is_none() {
        let message = format!("unknown word {word:?}; known are {}", Outbound::NAMES.join(", "));
        node.fail_with(report, message, suggest::hint(word, &Outbound::NAMES));
    }
    outbound
}

fn commands(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Commands> {
    let word = node.string(report)?;
    let commands = Commands::from_name(word);
    if commands.is_none() {
        let message = format!("unknown word {word:?}; known are {}", Commands::NAMES.join(", "));
        node.fail_with(report, message, suggest::hint(word, &Commands::NAMES));
    }
    commands
}

fn share(node: &Node<'_, '_>, order: Order, report: &mut Report<'_>) -> Option<f64> {
    if order == Order::Oldest {
        report.warn(
            node.at,
            &node.path,
            "never used: with order \"oldest\" there are no lanes to share between",
        );
    }
    node.share(report)
}

fn deadline(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Duration> {
    if node.as_str() == Some("none") {
        return None;
    }
    // A wrong deadline is reported; the default stands in, so that no further problem follows from it.
    node.duration(report).or(Some(DEADLINE))
}

fn gates(node: &Node<'_, '_>, stages: &[StageDef], report: &mut Report<'_>) -> BTreeMap<String, GateSpec> {
    let Some(table) = node.table(report) else { return BTreeMap::new() };
    let mut gates = BTreeMap::new();
    for (name, node) in table.all() {
        if let Err(message) = scalar::name(name) {
            node.fail(report, message);
        }
        if !stages.iter().any(|stage| uses(stage, name)) {
            report.warn(node.at, &node.path, "no stage names this gate");
        }
        if let Some(gate) = gate::read(&node, report) {
            gates.insert(name.to_owned(), gate);
        }
    }
    gates
}

fn uses(stage: &StageDef, gate: &str) -> bool {
    stage.gate.as_deref() == Some(gate) || stage.children.iter().any(|child| uses(child, gate))
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
