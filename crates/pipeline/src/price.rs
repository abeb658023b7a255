//! `[price."MODEL"]`: what a model costs.

use std::collections::BTreeMap;

use crate::definition::{PriceDef, StageDef, StageKind};
use crate::problem::Report;
use crate::reader::Node;
use crate::scalar;

/// Dearer is a mistake: the price of one token, or cents.
const USD_MAX: f64 = 1_000_000.0;

/// Reads the prices, by model.
pub(crate) fn read(node: &Node<'_, '_>, report: &mut Report<'_>) -> BTreeMap<String, PriceDef> {
    let Some(table) = node.table(report) else { return BTreeMap::new() };
    let mut prices = BTreeMap::new();
    for (model, node) in table.all() {
        if let Err(message) = scalar::model(model) {
            node.fail(report, message);
        }
        if let Some(price) = price(&node, report) {
            prices.insert(model.to_owned(), price);
        }
    }
    prices
}

fn price(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<PriceDef> {
    let mut table = node.table(report)?;
    if table.all().iter().any(|(_, below)| below.is_table()) {
        node.fail_with(report, "holds another table", "a name with dots needs quotes: [price.\"gpt-4.1\"]");
        return None;
    }
    let input = table.require("input", report).and_then(|node| usd(&node, report));
    let output = table.take("output").and_then(|node| usd(&node, report));
    table.finish(report);
    Some(PriceDef { input: input?, output })
}

fn usd(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<f64> {
    let price = node.float(report)?;
    if !(0.0..=USD_MAX).contains(&price) {
        let message = format!("{price} is no price in US dollars per million tokens");
        node.fail(report, message);
        return None;
    }
    Some(price)
}

/// Tells every stage the price of its model.
pub(crate) fn apply(stages: &mut [StageDef], prices: &BTreeMap<String, PriceDef>) {
    for stage in stages {
        if let StageKind::Embed { model, .. } | StageKind::Chat { model, .. } = &mut stage.kind {
            model.price = prices.get(&model.model).copied();
        }
        apply(&mut stage.children, prices);
    }
}
