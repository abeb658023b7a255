//! Hints of the floor name commands; here they name routes where there is one for it.

/// Options that are fields of a body.
const OPTIONS: [(&str, &str); 5] = [
    ("--input FILE", "`input`"),
    ("--input DIR", "`input`"),
    ("(--all)", "(`\"all\": true`)"),
    ("the id, or --run", "the id, or say `run`"),
    ("the same command", "the same request"),
];

/// A hint as somebody reads it who asks over HTTP.
pub fn of_routes(hint: &str) -> String {
    let mut told = String::with_capacity(hint.len());
    for (n, part) in hint.split('`').enumerate() {
        if n > 0 {
            told.push('`');
        }
        // Every second part is between backticks.
        match route(part).filter(|_| n % 2 == 1) {
            Some(route) => told.push_str(&route),
            None => told.push_str(part),
        }
    }
    OPTIONS.iter().fold(told, |told, (option, field)| told.replace(option, field))
}

/// The route that does what a command does.
fn route(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split(' ').collect();
    Some(match words.as_slice() {
        ["redrive", "runs"] => "GET /v1/runs".to_owned(),
        ["redrive", "gates"] => "GET /v1/gates".to_owned(),
        ["redrive", "failures"] => "GET /v1/failures".to_owned(),
        ["redrive", "dead", "groups"] => "GET /v1/dead/groups".to_owned(),
        ["redrive", "dead", "operations"] => "GET /v1/operations".to_owned(),
        ["redrive", "show", run] => format!("GET /v1/runs/{run}"),
        ["redrive", "explain", item] => format!("GET /v1/items/{item}/explain"),
        ["redrive", verb @ ("resume" | "cancel" | "close"), run] => format!("POST /v1/runs/{run}/{verb}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_have_a_route_are_told_as_that() {
        for (hint, told) in [
            ("`redrive runs` lists the runs of this store", "`GET /v1/runs` lists the runs of this store"),
            ("`redrive resume r1` goes on", "`POST /v1/runs/r1/resume` goes on"),
            ("say --input FILE, or mend it", "say `input`, or mend it"),
            ("or say that all are meant (--all)", "or say that all are meant (`\"all\": true`)"),
            ("`redrive doctor` looks at it", "`redrive doctor` looks at it"),
            ("redrive runs", "redrive runs"),
            ("give more of the id, or --run", "give more of the id, or say `run`"),
            ("make room; the same command then goes on", "make room; the same request then goes on"),
        ] {
            assert_eq!(of_routes(hint), told);
        }
    }
}
