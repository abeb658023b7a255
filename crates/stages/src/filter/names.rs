//! Refusing names that nobody will ever define: variables, functions, types.

use std::sync::Arc;

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr};
use cel::{Context, Env, ExecutionError};
use redrive_core::suggest;

use super::expression::parts;

/// The variables that an expression sees.
const VARIABLES: [&str; 2] = ["payload", "key"];
/// Names of types, for `type(payload.n) == int`.
const TYPES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];
/// Functions that are called by themselves: `size(payload.text)`.
const FUNCTIONS: [&str; 9] = ["bool", "bytes", "double", "dyn", "int", "size", "string", "type", "uint"];
/// Functions of a value: `payload.text.contains('x')`.
const METHODS: [&str; 8] =
    ["contains", "endsWith", "hasValue", "or", "orValue", "size", "startsWith", "value"];
/// What the parser makes loops of, and `has`; called with other arguments than it knows, they are no functions.
const MACROS: [(&str, &str); 7] = [
    ("has", "has(payload.field)"),
    ("all", "LIST.all(NAME, CONDITION)"),
    ("exists", "LIST.exists(NAME, CONDITION)"),
    ("exists_one", "LIST.exists_one(NAME, CONDITION)"),
    ("existsOne", "LIST.existsOne(NAME, CONDITION)"),
    ("map", "LIST.map(NAME, VALUE)"),
    ("filter", "LIST.filter(NAME, CONDITION)"),
];

/// Refuses an expression with a name that is not known where it stands.
pub(super) fn check(root: &IdedExpr) -> Result<(), String> {
    let names = Names { env: Arc::new(Env::stdlib()) };
    names.check(root, &mut Vec::new())
}

/// What is registered.
struct Names {
    env: Arc<Env>,
}

impl Names {
    /// `scope` has the names of the loops around an expression.
    fn check<'e>(&self, expression: &'e IdedExpr, scope: &mut Vec<&'e str>) -> Result<(), String> {
        match &expression.expr {
            Expr::Ident(name) => variable(name, scope)?,
            Expr::Call(call) => self.function(call)?,
            Expr::Comprehension(loops) => return self.loops(loops, scope),
            Expr::Struct(made) => return Err(format!("there is no type '{}'", made.type_name)),
            Expr::Unspecified | Expr::Literal(_) | Expr::List(_) | Expr::Map(_) | Expr::Select(_) => {}
        }
        parts(&expression.expr).into_iter().try_for_each(|part| self.check(part, scope))
    }

    /// What a loop goes over is outside of it; the name of its elements is not known after it.
    fn loops<'e>(&self, loops: &'e ComprehensionExpr, scope: &mut Vec<&'e str>) -> Result<(), String> {
        self.check(&loops.iter_range, scope)?;
        self.check(&loops.accu_init, scope)?;
        let outside = scope.len();
        scope.push(&loops.accu_var);
        scope.push(&loops.iter_var);
        scope.extend(loops.iter_var2.as_deref());
        self.check(&loops.loop_cond, scope)?;
        self.check(&loops.loop_step, scope)?;
        scope.truncate(outside + 1);
        self.check(&loops.result, scope)?;
        scope.truncate(outside);
        Ok(())
    }

    fn function(&self, call: &CallExpr) -> Result<(), String> {
        let name = call.func_name.as_str();
        // Operators have names too, which nobody can write.
        let is_operator = !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let is_method = call.target.is_some();
        if is_operator || self.is_registered(name, is_method) {
            return Ok(());
        }
        let written = if is_method { format!(".{name}()") } else { format!("{name}()") };
        if let Some((_, usage)) = MACROS.iter().find(|(known, _)| *known == name) {
            return Err(format!("'{written}' cannot be called so; it is used as {usage}"));
        }
        if self.is_registered(name, !is_method) {
            let usage = if is_method { format!("{name}(…)") } else { format!("VALUE.{name}(…)") };
            return Err(format!("'{written}' cannot be called so; it is used as {usage}"));
        }
        let known: Vec<&str> =
            FUNCTIONS.into_iter().chain(METHODS).chain(MACROS.map(|(name, _)| name)).collect();
        let hint = match suggest::nearest(name, known.iter().copied()) {
            Some(nearest) => format!("did you mean '{nearest}'?"),
            None => format!("known are {}", listed(&known)),
        };
        Err(format!("there is no function '{written}'; {hint}"))
    }

    /// Whether something of that name can be called, whatever it takes: evaluating tells, so that no list can be wrong.
    fn is_registered(&self, name: &str, is_method: bool) -> bool {
        let target = is_method.then(|| Box::new(literal()));
        let call = CallExpr { func_name: name.to_owned(), target, args: Vec::new() };
        let probe = IdedExpr { id: 1, expr: Expr::Call(call) };
        let context = Context::with_env(Arc::clone(&self.env));
        !matches!(context.resolve(&probe), Err(ExecutionError::UndeclaredReference(_)))
    }
}

/// Something to call a function of.
fn literal() -> IdedExpr {
    IdedExpr {
        id: 2,
        expr: Expr::List(cel::common::ast::ListExpr { elements: Vec::new(), optional_indices: Vec::new() }),
    }
}

fn variable(name: &str, scope: &[&str]) -> Result<(), String> {
    let known =
        name.starts_with('@') || VARIABLES.contains(&name) || TYPES.contains(&name) || scope.contains(&name);
    if known {
        return Ok(());
    }
    Err(format!("'{name}' is not known; the expression sees {}", VARIABLES.join(" and ")))
}

fn listed(known: &[&str]) -> String {
    let mut known = known.to_vec();
    known.sort_unstable();
    known.dedup();
    known.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::expression::read;
    use super::*;

    #[test]
    fn a_name_that_is_not_known_is_refused_and_the_nearest_is_named() {
        for (expression, expected) in [
            ("payload.n > 2 && palyoad.m", "'palyoad' is not known; the expression sees payload and key"),
            ("payload.xs.exists(x, x > 1) && x > 2", "'x' is not known; the expression sees payload and key"),
            ("x in payload.xs.map(x, x)", "'x' is not known; the expression sees payload and key"),
            ("sise(payload.t) > 2", "there is no function 'sise()'; did you mean 'size'?"),
            ("payload.t.startswith('a')", "there is no function '.startswith()'; did you mean 'startsWith'?"),
            ("payload.t.matches('a')", "there is no function '.matches()'; known are all, bool, "),
            ("nosuch(payload.t)", "there is no function 'nosuch()'; known are all, bool, "),
            ("payload.xs.exists(x, nosuch(x))", "there is no function 'nosuch()'"),
            ("startsWith(key, 'a')", "'startsWith()' cannot be called so; it is used as VALUE.startsWith(…)"),
            ("payload.n.string() == '1'", "'.string()' cannot be called so; it is used as string(…)"),
            (
                "payload.xs.exists(x)",
                "'.exists()' cannot be called so; it is used as LIST.exists(NAME, CONDITION)",
            ),
            ("Thing{a: 1} == payload", "there is no type 'Thing'"),
        ] {
            let error = read(expression).err().unwrap_or_default();
            assert!(error.starts_with(expected), "{expression}: {error}");
        }
    }

    #[test]
    fn names_of_loops_and_types_are_known() {
        for expression in [
            "payload.list.all(x, x > 0 && payload.other.exists(y, y == x))",
            "payload.map.map(k, k)[0] == 'a'",
            "payload.xs.filter(x, x > 1).exists_one(x, x == 2)",
            "type(payload.n) == int",
            "{'a': [key]}.a[0] == key",
            "payload.?n.orValue(2) == 2",
        ] {
            assert_eq!(read(expression).err(), None, "{expression}");
        }
    }

    #[test]
    fn every_function_that_is_suggested_can_be_called() {
        let names = Names { env: Arc::new(Env::stdlib()) };
        for (list, is_method) in [(&FUNCTIONS[..], false), (&METHODS[..], true)] {
            for name in list {
                assert!(names.is_registered(name, is_method), "{name}");
            }
        }
        assert!(!names.is_registered("nosuch", true) && !names.is_registered("nosuch", false));
    }
}
