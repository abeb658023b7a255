//! How much work an expression can be at most, told from the expression alone.
//!
//! Without loops nothing can grow but by being written again: each part of an expression is evaluated once, and makes at
//! most a copy of what it is made of. So the work is the size of a payload times a number that the expression has.
//! With a loop there is no such number.

use cel::common::ast::{CallExpr, Expr, IdedExpr};

use super::expression::parts;

/// What evaluating a part can come to, in sizes of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Weight {
    /// Most that its value is as large as.
    value: u64,
    /// Most that was copied or compared for it.
    work: u64,
}

/// How often the whole of a payload is read, copied or compared at most; `None`: there is a loop, and no bound.
///
/// The expression is not nested deep.
pub(super) fn of(root: &IdedExpr) -> Option<u64> {
    // Reading the payload is work too.
    Some(weigh(root)?.work.saturating_add(1))
}

fn weigh(expression: &IdedExpr) -> Option<Weight> {
    match &expression.expr {
        Expr::Comprehension(_) => None,
        Expr::Unspecified | Expr::Literal(_) => Some(Weight { value: 0, work: 0 }),
        Expr::Ident(_) => Some(Weight { value: 1, work: 0 }),
        // A field of a field is looked at where it is; one of a value that was made is copied.
        Expr::Select(select) if is_path(&select.operand) => weigh(&select.operand),
        Expr::Call(call) => {
            let parts = sum(&expression.expr)?;
            let value = if is_yes_or_no(call) { 0 } else { parts.value };
            Some(Weight { value, work: parts.work.saturating_add(parts.value) })
        }
        Expr::Select(_) | Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => {
            let Weight { value, work } = sum(&expression.expr)?;
            Some(Weight { value, work: work.saturating_add(value) })
        }
    }
}

fn sum(expression: &Expr) -> Option<Weight> {
    parts(expression).into_iter().try_fold(Weight { value: 0, work: 0 }, |sum, part| {
        let part = weigh(part)?;
        let (value, work) = (sum.value.saturating_add(part.value), sum.work.saturating_add(part.work));
        Some(Weight { value, work })
    })
}

fn is_path(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Ident(_) => true,
        Expr::Select(select) => is_path(&select.operand),
        _ => false,
    }
}

/// Whether a call gives true, false or a failure, and nothing that grows with the payload.
fn is_yes_or_no(call: &CallExpr) -> bool {
    const COMPARING: [&str; 10] = ["_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_&&_", "_||_", "!_"];
    call.target.is_none() && COMPARING.contains(&call.func_name.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::expression::read;
    use super::*;

    fn weight(expression: &str) -> Option<u64> {
        of(read(expression).unwrap().expression())
    }

    #[test]
    fn a_condition_weighs_what_it_looks_at() {
        assert_eq!(weight("true"), Some(1));
        assert_eq!(weight("payload.a.b.c > 2"), Some(2));
        assert_eq!(weight("payload.a > 2 && payload.b == 'x' || has(payload.c)"), Some(4));
        assert_eq!(weight("size(payload.text + payload.text) > 3"), Some(1 + 2 + 2 + 2));
        assert_eq!(weight(&vec!["key == 'a'"; 500].join(" || ")), Some(501));
    }

    #[test]
    fn what_is_copied_again_and_again_weighs_more_than_its_size() {
        let chain = vec!["payload.xs"; 60].join("+");
        let flat = vec!["payload.xs"; 60].join(",");
        let chain = weight(&format!("size({chain}) > 0")).unwrap();
        let flat = weight(&format!("size([{flat}]) > 0")).unwrap();
        assert!(chain > 60 * 60 / 2 && (120..400).contains(&flat), "{chain} {flat}");
    }

    #[test]
    fn a_loop_has_no_weight_wherever_it_stands() {
        for expression in [
            "payload.xs.exists(x, x == 1)",
            "payload.xs.all(x, x == 1)",
            "payload.xs.exists_one(x, x == 1)",
            "size(payload.xs.map(x, x)) > 0",
            "{'a': [payload.xs.filter(x, x > 1)]}.a[0][0] == 2",
            "payload.a == 1 ? payload.xs.exists(x, x == 1) : false",
        ] {
            assert_eq!(weight(expression), None, "{expression}");
        }
    }
}
