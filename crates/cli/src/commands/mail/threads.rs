//! `redrive threads` and `redrive thread`.

use std::process::ExitCode;

use redrive_operate::mail::{self, ThreadList, ThreadMessage, ThreadRequest, ThreadSummary, ThreadView};

use crate::args::ThreadsArgs;
use crate::commands::{Answer, Context};
use crate::output::json;
use crate::output::screen::Screen;
use crate::output::text::{count, safe, short, things};

/// Lists threads.
pub async fn threads(context: &Context, args: &ThreadsArgs) -> Answer {
    let request = args.request(context.env.clock.now());
    let list = mail::threads(&context.floor_to_read()?, &request).await?;
    if context.global.json {
        json(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    if list.threads.is_empty() {
        context.tell("no thread is like that")?;
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&listed(&list, &context.screen()))?;
    let more = list.total.saturating_sub(list.threads.len() as u64);
    if more > 0 {
        context.hint(&format!("{} more; --limit N shows them, --since WHEN those of late", count(more)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows a thread.
pub async fn thread(context: &Context, id: String) -> Answer {
    let view = mail::thread(&context.floor_to_read()?, &ThreadRequest { id }).await?;
    if context.global.json {
        json(&view)?;
    } else {
        context.tell(&shown(&view, &context.screen()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(list: &ThreadList, screen: &Screen) -> String {
    let one = |thread: &ThreadSummary| {
        let summary =
            if thread.summary.text.is_empty() { "(nothing to extract)" } else { &thread.summary.text };
        format!("{}\n  {}", head(thread, screen), safe(summary))
    };
    list.threads.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn head(thread: &ThreadSummary, screen: &Screen) -> String {
    let subject = if thread.subject.is_empty() { "(no subject)" } else { &thread.subject };
    let when = thread.last_at.as_ref().map_or_else(String::new, |at| format!(", last {}", screen.when(at)));
    let list = thread.list.as_ref().map_or_else(String::new, |list| format!(", {list}"));
    format!(
        "{}  {} ({}{}{when})",
        thread.id,
        safe(subject),
        things(thread.messages as u64, "message"),
        safe(&list)
    )
}

fn shown(view: &ThreadView, screen: &Screen) -> String {
    let thread = &view.thread;
    let mut text = format!("{}\n", head(thread, screen));
    if !thread.summary.text.is_empty() {
        text.push_str(&format!("  {}\n", safe(&thread.summary.text)));
    }
    for message in &view.tree {
        text.push_str(&format!("\n{}", told(message, screen)));
    }
    text.trim_end().to_owned()
}

fn told(message: &ThreadMessage, screen: &Screen) -> String {
    let indent = "  ".repeat(message.depth.min(8) as usize);
    let when = message.date.as_ref().map_or_else(String::new, |at| format!(", {}", screen.when(at)));
    let mut text = format!("{indent}[{}] {}{when}\n", message.number, safe(&message.from));
    for line in message.text.lines().filter(|line| !line.trim().is_empty()).take(40) {
        text.push_str(&format!("{indent}  {}\n", short(line, 200)));
    }
    for attachment in &message.attachments {
        let name = if attachment.name.is_empty() { &attachment.content_type } else { &attachment.name };
        let why = attachment.left_out.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        text.push_str(&format!(
            "{indent}  attached: {}, {} bytes{}\n",
            safe(name),
            count(attachment.bytes),
            safe(&why)
        ));
    }
    text
}
