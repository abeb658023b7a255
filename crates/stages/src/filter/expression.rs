//! Reading an expression so that evaluating it is safe.
//!
//! Parsing, evaluating and even dropping an expression recurse as deep as it is nested, and a stack that runs out
//! cannot be caught. So an expression is read on a thread with a large stack, and only a flat one leaves it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Env, ParseErrors, Program};

use super::names;

/// Longest expression, in bytes; bounds what reading it takes.
const LONGEST: usize = 8 * 1024;
/// Deepest nesting. An operator after another counts (`a + b + c` is 3 deep), logical ones hardly do.
const DEEPEST: usize = 64;
/// Room to read the longest expression, however it is nested; taken as far as it is used.
const STACK: usize = 128 << 20;

/// Reads an expression.
pub(super) fn read(source: &str) -> Result<Program, String> {
    if source.len() > LONGEST {
        return Err(format!("the expression is longer than {LONGEST} bytes"));
    }
    let source = source.to_owned();
    let reader = std::thread::Builder::new().name("redrive-filter".into()).stack_size(STACK);
    let read = reader.spawn(move || {
        let program = unpanicked(|| Env::stdlib().compile(&source))
            .map_err(|panic| format!("the expression cannot be read ({panic})"))?
            .map_err(|errors| positions(&errors))?;
        check_depth(program.expression())?;
        names::check(program.expression())?;
        Ok(program)
    });
    read.map_err(|error| error.to_string())?.join().map_err(|_| "the expression cannot be read".to_owned())?
}

/// Runs code of the `cel` crate, whose parser panics on some inputs.
pub(super) fn unpanicked<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panic").to_owned()
    })
}

fn positions(errors: &ParseErrors) -> String {
    let all = errors
        .errors
        .iter()
        .map(|error| format!("line {}, column {}: {}", error.pos.0, error.pos.1, error.msg));
    all.collect::<Vec<_>>().join("; ")
}

/// Refuses what is nested too deep; whatever looks at an expression after this may recurse.
fn check_depth(root: &IdedExpr) -> Result<(), String> {
    let mut open = vec![(root, 1)];
    while let Some((expression, depth)) = open.pop() {
        if depth > DEEPEST {
            return Err(format!("the expression is nested deeper than {DEEPEST}"));
        }
        open.extend(parts(&expression.expr).into_iter().map(|part| (part, depth + 1)));
    }
    Ok(())
}

/// What an expression is made of.
pub(super) fn parts(expression: &Expr) -> Vec<&IdedExpr> {
    match expression {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(loops) => {
            vec![&loops.iter_range, &loops.accu_init, &loops.loop_cond, &loops.loop_step, &loops.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Struct(fields) => fields.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_expression_is_refused_with_its_place() {
        for (expression, expected) in [
            ("payload.n >", "line 1, column "),
            ("payload.n\n> > 2", "line 2, column "),
            ("payload.n = 2", "line 1, column "),
            ("", "line 1, column "),
            ("'open", "line 1, column "),
        ] {
            let error = read(expression).err().unwrap_or_default();
            assert!(error.contains(expected), "{expression}: {error}");
        }
    }

    #[test]
    fn deep_expressions_are_refused_and_do_not_exhaust_the_stack() {
        for (begin, part, end) in [
            ("payload", ".a", "== 1"),
            ("1", "+1", "> 1"),
            ("1", "--1", "==0"),
            ("", "(", ""),
            ("", "[", ""),
            ("", "{1:", ""),
            ("", "size(", ""),
            ("payload", "[0]", ""),
            ("1", "?1:1", ""),
        ] {
            let expression = format!("{begin}{}{end}", part.repeat((LONGEST - 20) / part.len()));
            assert!(read(&expression).is_err(), "{}", &expression[..20]);
        }
        assert!(read(&"x".repeat(LONGEST + 1)).is_err());
    }

    #[test]
    fn long_lists_and_long_conditions_are_not_deep() {
        let list = format!("key in [{}]", vec!["'abcdef'"; 800].join(","));
        let any = vec!["key == 'a'"; 500].join(" || ");
        for expression in [list, any] {
            assert_eq!(read(&expression).err(), None);
        }
    }
}
