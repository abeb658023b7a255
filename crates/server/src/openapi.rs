//! The table of routes as an OpenAPI 3.1 document. The shapes are those that the command line prints.

use redrive_operate::{Result, Role, schemas};
use serde_json::{Map, Value, json};

use crate::limits;
use crate::route::{Kind, Param, Route, Shape};

/// Describes all routes.
///
/// # Errors
/// Never but for a mistake in the program.
pub fn document(routes: &[Route]) -> Result<Value> {
    let mut all = schemas::all()?;
    let mut parts = all.get_mut("$defs").map(Value::take).unwrap_or_default();
    move_references(&mut parts);
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| Value::Object(Map::new()));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route);
    }
    Ok(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Redrive",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable pipeline engine: runs, items, dead letters, operations and gates.",
        },
        "paths": paths,
        "components": {
            "schemas": parts,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }))
}

fn operation(route: &Route) -> Value {
    let status = route.status.to_string();
    let mut responses = Map::new();
    responses.insert(status.clone(), json!({"description": route.summary, "content": content(route.answer)}));
    if route.may_make {
        let told = json!({"description": "What is there already, or what would be done.", "content": content(route.answer)});
        responses.insert("200".to_owned(), told);
    }
    if route.status == 201 {
        responses[&status]["headers"] =
            json!({"Location": {"description": "Where it is.", "schema": {"type": "string"}}});
    }
    let problem = json!({
        "description": "Why it was not answered.",
        "content": {"application/problem+json": {"schema": reference("problem_document")}},
    });
    responses.insert("default".to_owned(), problem);
    let mut told = json!({
        "operationId": name(route),
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": responses,
    });
    match route.role {
        None => told["security"] = json!([]),
        Some(role) => told["x-least-role"] = json!(role),
    }
    if let Some(body) = route.body {
        told["requestBody"] = json!({
            "required": !route.body_optional,
            "content": {"application/json": {"schema": reference(body)}},
        });
    }
    if route.role.is_some_and(|role| role != Role::Viewer) {
        told["x-changes"] = json!(true);
    }
    told
}

/// A name made of the method and the path.
fn name(route: &Route) -> String {
    let words = route.path.split(['/', '.']).filter(|word| !word.is_empty() && *word != "v1");
    let words: Vec<&str> = words.map(|word| word.trim_matches(['{', '}'])).collect();
    format!("{}_{}", route.method.as_str().to_ascii_lowercase(), words.join("_"))
}

fn parameters(route: &Route) -> Vec<Value> {
    let path =
        route.names().map(|name| json!({"name": name, "in": "path", "required": true, "schema": part(name)}));
    let query = route.query.iter().map(|param: &Param| {
        let schema = match param.kind {
            Kind::Text => json!({"type": "string", "minLength": 1}),
            Kind::Count(most) => json!({"type": "integer", "minimum": 1, "maximum": most}),
            Kind::Number => json!({"type": "integer", "minimum": 0, "maximum": limits::NUMBER}),
            Kind::Share => json!({"type": "number", "minimum": 0, "maximum": 1}),
            Kind::Flag => json!({"type": "boolean"}),
            Kind::Schema(name) => reference(name),
        };
        let Param { name, about, required, .. } = param;
        json!({"name": name, "in": "query", "required": required, "description": about, "schema": schema})
    });
    path.chain(query).collect()
}

/// What stands for a name in a path.
fn part(name: &str) -> Value {
    match name {
        "run" => reference("run"),
        "operation" => json!({"type": "string", "pattern": "^op[0-9]{1,18}$"}),
        _ => json!({"type": "string", "minLength": 1}),
    }
}

fn content(answer: Shape) -> Value {
    match answer {
        Shape::Json(name) => json!({"application/json": {"schema": reference(name)}}),
        Shape::AnyJson => json!({"application/json": {"schema": {}}}),
        Shape::Lines(name) => json!({"application/jsonl": {"schema": reference(name)}}),
        Shape::Metrics => json!({"text/plain": {"schema": {"type": "string"}}}),
        // Each of the events.
        Shape::Events => json!({"text/event-stream": {"schema": reference("event")}}),
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// In this document shapes are in another place than in the file they are written in.
fn move_references(part: &mut Value) {
    match part {
        Value::Object(keys) => {
            if let Some(Value::String(to)) = keys.get_mut("$ref")
                && let Some(name) = to.strip_prefix("#/$defs/")
            {
                *to = format!("#/components/schemas/{name}");
            }
            keys.values_mut().for_each(move_references);
        }
        Value::Array(list) => list.iter_mut().for_each(move_references),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::routes::table;

    fn references(part: &Value, found: &mut BTreeSet<String>) {
        match part {
            Value::Object(keys) => {
                found.extend(keys.get("$ref").and_then(Value::as_str).map(str::to_owned));
                keys.values().for_each(|below| references(below, found));
            }
            Value::Array(list) => list.iter().for_each(|below| references(below, found)),
            _ => {}
        }
    }

    #[test]
    fn every_shape_that_is_named_is_written_down() {
        let document = document(&table()).expect("made");
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for name in found {
            let name = name.strip_prefix("#/components/schemas/").unwrap_or_else(|| panic!("{name}"));
            assert!(document["components"]["schemas"].get(name).is_some(), "{name} is written down");
        }
    }

    #[test]
    fn no_route_is_there_twice_and_each_has_a_name_of_its_own() {
        let (mut places, mut names) = (BTreeSet::new(), BTreeSet::new());
        for route in table() {
            assert!(places.insert((route.path, route.method.to_string())), "{} twice", route.path);
            assert!(names.insert(name(&route)), "{} twice", name(&route));
        }
    }

    #[test]
    fn only_what_tells_whether_the_process_lives_is_for_anybody_and_what_changes_something_is_not_for_viewers()
     {
        for route in table() {
            let open = ["/healthz", "/readyz"].contains(&route.path);
            assert_eq!(route.role.is_none(), open, "{}", route.path);
            if route.method == axum::http::Method::POST {
                assert!(route.role.is_some_and(|role| role != Role::Viewer), "{}", route.path);
            }
        }
    }
}
