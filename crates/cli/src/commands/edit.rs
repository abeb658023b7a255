//! What an edited pipeline file brings about in a run that is there, in words.

use redrive_operate::runs::Edit;

use crate::output::text::count;

/// What an edited pipeline brings about.
pub fn words(edit: &Edit) -> String {
    match edit {
        Edit::Kept { stage } => {
            format!("stage {stage} is configured otherwise; what has passed it stays as it is")
        }
        Edit::ChildrenKept { stage } => {
            let stays = "children that have passed it stay as they are (`redrive run FILE --new` does everything anew)";
            format!("stage {stage} is configured otherwise; {stays}")
        }
        Edit::Again { stage, first, reuses, from_stage, from_start, edited } => {
            again(stage, *first, *reuses, [*from_stage, *from_start, *edited])
        }
    }
}

/// What goes again for a changed stage, from it and from the beginning, and what stays. `kept` says whether a stage before it keeps its outputs.
fn again(name: &str, first: bool, kept: bool, [from_stage, from_start, edited]: [u64; 3]) -> String {
    let mut parts = Vec::new();
    if from_stage > 0 || (first && from_start > 0) {
        let all = from_stage + if first { from_start } else { 0 };
        parts.push(format!("{} again from it", go(all)));
    }
    if from_start > 0 && !first {
        let cost = match kept {
            true => "; kept outputs are reused there",
            false => ", which work again",
        };
        parts.push(format!(
            "{} that passed it go again through the stages before it, too{cost}",
            items(from_start)
        ));
    }
    if edited > 0 {
        parts.push(format!(
            "{} with content that was imported stay{} as it is",
            items(edited),
            if edited == 1 { "s" } else { "" }
        ));
    }
    if parts.is_empty() {
        parts.push("no item has got so far".to_owned());
    }
    let way_out = if from_stage + from_start > 0 { " (--keep-passed leaves them alone)" } else { "" };
    format!("stage {name} is configured otherwise: {}{way_out}", parts.join("; "))
}

fn go(n: u64) -> String {
    format!("{} go{}", items(n), if n == 1 { "es" } else { "" })
}

fn items(n: u64) -> String {
    format!("{} item{}", count(n), if n == 1 { "" } else { "s" })
}
