//! `[[stage]]` and the stages nested in it.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::plan::ChildFailure;
use redrive_core::policy::{LintContext, Policy, lint};

use crate::definition::{Body, Commands, MailStep, Outbound, StageDef, StageKind};
use crate::problem::Report;
use crate::reader::{Node, Table, join};
use crate::{defer, document, kind, model, retry, scalar, suggest};

const FILES_MAX: u32 = 64;
const BATCH_MAX: u32 = 10_000;
const EMBED_BATCH: u32 = 64;
const EXTERNAL_BATCH: u32 = 100;
const UPSERT_BATCH: u32 = 256;
const PUBLISH_BATCH: u32 = 64;
/// OpenAI takes 300,000 tokens in one request; estimates can be a third too low.
const EMBED_BATCH_TOKENS: u64 = 200_000;
const CONCURRENCY_MAX: u32 = 1_024;
const TIMEOUT: Duration = Duration::from_secs(60);
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How deep stages may be nested, and how many there may be.
const DEPTH_MAX: usize = 8;
const STAGES_MAX: usize = 256;

/// Reads lists of stages; knows the names that are taken.
pub(crate) struct Stages {
    /// Name to the position it was first written at.
    names: BTreeMap<String, usize>,
    deadline: Option<Duration>,
    outbound: Outbound,
    commands: Commands,
    depth: usize,
    count: usize,
}

impl Stages {
    pub(crate) fn new(deadline: Option<Duration>, outbound: Outbound, commands: Commands) -> Self {
        Self { names: BTreeMap::new(), deadline, outbound, commands, depth: 0, count: 0 }
    }

    /// Tells whether every stage that is written was understood.
    pub(crate) fn read_all(&self, stages: &[StageDef]) -> bool {
        self.count == count(stages)
    }

    /// Reads an array of stages.
    pub(crate) fn list(&mut self, node: &Node<'_, '_>, report: &mut Report<'_>) -> Vec<StageDef> {
        if node.is_table() {
            node.fail_with(report, "expected an array, found a table", "write [[stage]] with two brackets");
            return Vec::new();
        }
        let Some(nodes) = node.array(report) else { return Vec::new() };
        if nodes.is_empty() {
            node.fail(report, "needs at least one stage");
        }
        if self.depth >= DEPTH_MAX {
            node.fail(report, format!("stages are nested more than {DEPTH_MAX} deep"));
            return Vec::new();
        }
        self.count = self.count.saturating_add(nodes.len());
        if self.count > STAGES_MAX {
            node.fail(report, format!("a pipeline has at most {STAGES_MAX} stages"));
            return Vec::new();
        }
        self.depth += 1;
        let stages = nodes.iter().filter_map(|stage| self.stage(node, stage, report)).collect();
        self.depth -= 1;
        stages
    }

    fn stage(
        &mut self,
        list: &Node<'_, '_>,
        node: &Node<'_, '_>,
        report: &mut Report<'_>,
    ) -> Option<StageDef> {
        let mut table = node.table(report)?;
        let name = self.name(list, &mut table, report);
        let word = table.require("kind", report);
        let word = word.and_then(|node| Some((node.string(report)?, node)));
        let kind = word.as_ref().and_then(|(word, node)| kind::read(word, node, &mut table, report));
        let batch = batch(kind.as_ref(), &mut table, report);
        let batch_tokens = kind.as_ref().and_then(|kind| batch_tokens(kind, &mut table, report));
        let concurrency = table.take("concurrency").and_then(|node| node.count(report, CONCURRENCY_MAX));
        let timeout = table.take("timeout").and_then(|node| timeout(&node, report)).unwrap_or(TIMEOUT);
        let gate = table.take("gate").and_then(|node| node.parsed(report, scalar::name));
        let retry = table.take("retry");
        let policy = retry.as_ref().map_or_else(Policy::default, |node| retry::read(node, report));
        let at = retry.as_ref().map_or(table.at, |node| node.at);
        let waits_given = retry.as_ref().is_some_and(|node| node.has("backoff") || node.has("tiers"));
        let context = LintContext {
            timeout: Some(timeout),
            deadline: self.deadline,
            waits_given,
            ..LintContext::default()
        };
        let key = join(&table.path, "retry");
        for warning in lint(&policy, &context) {
            report.warn(at, &join(&key, &warning.key), warning.message);
        }
        let children = table.take("children");
        let nested = children.as_ref().map_or_else(Vec::new, |node| self.list(node, report));
        if let (Some(StageKind::Parse { .. }), None) = (&kind, &children) {
            document::childless(&table, report);
        }
        let rule = table.take("on_child_failure");
        let on_child_failure = rule.as_ref().and_then(|node| child_failure(node, report));
        if let (Some(node), None) = (&rule, &children) {
            report.warn(node.at, &node.path, "never used: the stage has no children");
        }
        let reuse = table.take("reuse").and_then(|node| node.boolean(report)).unwrap_or(false);
        let verdict = kind.as_ref().and_then(|kind| verdict(kind, &mut table, report));
        let event = kind.as_ref().and_then(|kind| defer::event(kind, &mut table, report));
        let told = event.is_some();
        let defer = kind.as_ref().and_then(|kind| defer::read(kind, told, &mut table, report));
        match kind.is_some() {
            true => table.finish(report),
            // Without a kind it is not known which keys belong to it.
            false => table.slips(&["name", "kind"], report),
        }
        Some(StageDef {
            name: name?,
            concurrency: concurrency.unwrap_or_else(|| usual_concurrency(kind.as_ref())),
            kind: kind?,
            batch,
            batch_tokens,
            timeout,
            gate,
            retry: policy,
            children: nested,
            on_child_failure: on_child_failure.unwrap_or_default(),
            reuse,
            outbound: self.outbound,
            commands: self.commands,
            verdict,
            event,
            defer,
        })
    }

    /// Reads the name, and calls the stage by it in every problem that follows.
    fn name(
        &mut self,
        list: &Node<'_, '_>,
        table: &mut Table<'_, '_>,
        report: &mut Report<'_>,
    ) -> Option<String> {
        let node = table.require("name", report)?;
        let name = node.parsed(report, scalar::name)?;
        if let Some(first) = self.names.get(&name) {
            let line = report.line(*first);
            node.fail(report, format!("{name:?} is taken by the stage on line {line}"));
            return None;
        }
        self.names.insert(name.clone(), node.at);
        table.path = join(&list.path, &name);
        Some(name)
    }
}

fn count(stages: &[StageDef]) -> usize {
    stages.iter().map(|stage| 1 + count(&stage.children)).sum()
}

/// The most items of one call.
fn batch(kind: Option<&StageKind>, table: &mut Table<'_, '_>, report: &mut Report<'_>) -> u32 {
    let usual = match kind {
        Some(StageKind::Embed { .. } | StageKind::EmbedBuiltin { .. }) => EMBED_BATCH,
        Some(StageKind::Upsert) => UPSERT_BATCH,
        Some(StageKind::Publish | StageKind::Mail { step: MailStep::Keep | MailStep::Unfold }) => {
            PUBLISH_BATCH
        }
        Some(StageKind::Parse { .. } | StageKind::Mail { step: MailStep::Read { .. } }) => 16,
        Some(StageKind::External { .. } | StageKind::Event { .. }) => EXTERNAL_BATCH,
        _ => 1,
    };
    let Some(node) = table.take("batch") else { return usual };
    let batch = node.count(report, BATCH_MAX).unwrap_or(usual);
    match kind {
        Some(StageKind::Http { body: body @ (Body::Payload | Body::Webhook), .. }) if batch > 1 => {
            let word = if *body == Body::Payload { "payload" } else { "webhook" };
            let message = format!("body = \"{word}\" carries one item");
            node.fail_with(report, message, "use batch = 1 or body = \"protocol\"");
        }
        Some(StageKind::Parse { .. }) if batch > FILES_MAX => node.fail_with(
            report,
            format!("more than the {FILES_MAX} files that one call may have"),
            "leave batch out; concurrency says how many calls are made at once",
        ),
        Some(kind) => model::check_batch(kind, batch, &node, report),
        None => {}
    }
    batch
}

/// How many calls run at once: few where they use this machine.
fn usual_concurrency(kind: Option<&StageKind>) -> u32 {
    match kind {
        Some(StageKind::Command { .. }) => 4,
        Some(
            StageKind::Parse { .. }
            | StageKind::Mail { .. }
            | StageKind::EmbedBuiltin { .. }
            | StageKind::Upsert
            | StageKind::Publish,
        ) => 2,
        _ => 16,
    }
}

/// The most tokens of one call, for kinds of which several items go into one.
fn batch_tokens(kind: &StageKind, table: &mut Table<'_, '_>, report: &mut Report<'_>) -> Option<u64> {
    let usual = match kind {
        StageKind::Http { .. }
        | StageKind::Command { .. }
        | StageKind::External { .. }
        | StageKind::Event { .. } => None,
        StageKind::Embed { .. } => Some(EMBED_BATCH_TOKENS),
        StageKind::EmbedBuiltin { .. }
        | StageKind::Chat { .. }
        | StageKind::Filter { .. }
        | StageKind::Pass
        | StageKind::Parse { .. }
        | StageKind::Mail { .. }
        | StageKind::Upsert
        | StageKind::Publish => return None,
    };
    let tokens = table.take("batch_tokens").and_then(|node| model::tokens(&node, report)).or(usual);
    if let StageKind::Embed { model, .. } = kind
        && model.max_item_tokens > tokens
    {
        let key = join(&table.path, "max_item_tokens");
        let at = table.locate("max_item_tokens").unwrap_or(table.at);
        report.warn(at, &key, "above batch_tokens: such an item goes in a call of its own");
    }
    tokens
}

/// Where the verdict stands in the output, for kinds whose output is somebody's to choose.
fn verdict(kind: &StageKind, table: &mut Table<'_, '_>, report: &mut Report<'_>) -> Option<String> {
    match kind {
        StageKind::Http { .. }
        | StageKind::Command { .. }
        | StageKind::External { .. }
        | StageKind::Event { .. }
        | StageKind::Chat { .. }
        | StageKind::Filter { .. }
        | StageKind::Pass => table.take("verdict").and_then(|node| node.parsed(report, scalar::pointer)),
        StageKind::Embed { .. }
        | StageKind::EmbedBuiltin { .. }
        | StageKind::Parse { .. }
        | StageKind::Mail { .. }
        | StageKind::Upsert
        | StageKind::Publish => None,
    }
}

fn timeout(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Duration> {
    let timeout = node.duration(report)?;
    if timeout > TIMEOUT_MAX {
        node.fail(report, "longer than 24h");
        return None;
    }
    Some(timeout)
}

fn child_failure(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<ChildFailure> {
    match node.string(report)? {
        "continue" => Some(ChildFailure::Continue),
        "dead" => Some(ChildFailure::Dead),
        word => {
            let message = format!("expected \"continue\" or \"dead\", found {word:?}");
            node.fail_with(report, message, suggest::hint(word, &["continue", "dead"]));
            None
        }
    }
}
