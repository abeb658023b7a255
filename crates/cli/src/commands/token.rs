//! `redrive token`: whom `redrive serve` lets in.

use std::process::ExitCode;

use redrive_operate::Role;
use redrive_server::{Made, TokenList, Tokens};
use serde::Serialize;

use super::{Answer, Context};
use crate::args::TokenCommand;
use crate::output::screen::Screen;
use crate::output::table::{Column, Table};
use crate::output::{json, lines};
use crate::wiring;

/// Runs one of the commands. None of them opens the store.
pub fn token(context: &Context, command: TokenCommand) -> Answer {
    let tokens = Tokens::beside(&wiring::store_path(&context.global.store)?, None)?;
    match command {
        TokenCommand::List => list(context, &tokens.list()?),
        TokenCommand::Create { name, role, hide_payloads } => {
            let new = TokenCommand::new_token(name, role, hide_payloads);
            made(context, &tokens.create(new, &context.env)?)
        }
        TokenCommand::Rotate { name } => made(context, &tokens.rotate(&name, &context.env)?),
        TokenCommand::Revoke { name } => list(context, &tokens.revoke(&name)?),
    }
}

fn list(context: &Context, tokens: &TokenList) -> Answer {
    match context.global.json {
        true => json(tokens)?,
        false => context.tell(&listed(tokens, &context.screen()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(tokens: &TokenList, screen: &Screen) -> String {
    if tokens.items.is_empty() {
        return "no tokens are kept; `redrive serve` makes the first, unless REDRIVE_TOKEN says one"
            .to_owned();
    }
    let mut table = Table::new([
        Column::whole("name"),
        Column::whole("role"),
        Column::whole("payloads"),
        Column::whole("made").rank(1),
    ]);
    for token in &tokens.items {
        let payloads = if token.payloads_hidden { "hidden" } else { "shown" };
        table.row([
            token.name.clone(),
            token.role.to_string(),
            payloads.to_owned(),
            screen.when(&token.created_at),
        ]);
    }
    table.on(screen)
}

/// A token as it is shown to whoever had it made.
#[derive(Serialize)]
struct ShownOnce<'a> {
    name: &'a str,
    role: Role,
    payloads_hidden: bool,
    token: &'a str,
}

impl<'a> ShownOnce<'a> {
    fn of(made: &'a Made) -> Self {
        let Made { name, role, payloads_hidden, token } = made;
        Self { name, role: *role, payloads_hidden: *payloads_hidden, token: token.expose() }
    }
}

/// The token alone is the answer, so that it can be put into a variable.
fn made(context: &Context, made: &Made) -> Answer {
    match context.global.json {
        true => json(&ShownOnce::of(made))?,
        false => lines(made.token.expose())?,
    }
    context.hint("it is shown this once; a server that runs knows it already");
    Ok(ExitCode::SUCCESS)
}
