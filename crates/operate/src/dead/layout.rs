//! The space between the parts of a JSON text.

/// JSON in lines of its own for each field, otherwise as it is written: long numbers and the order of fields stay.
#[must_use]
pub fn indented(text: &str) -> String {
    laid_out(text, true)
}

/// The same without any space.
pub(super) fn compact(text: &str) -> String {
    laid_out(text, false)
}

fn laid_out(text: &str, lines: bool) -> String {
    let (mut out, mut depth, mut quoted, mut escaped) =
        (String::with_capacity(text.len()), 0_usize, false, false);
    let mut fresh = false;
    let line = |out: &mut String, depth: usize| {
        if lines {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        }
    };
    for sign in text.chars() {
        if quoted {
            out.push(sign);
            (quoted, escaped) = (escaped || sign != '"', !escaped && sign == '\\');
            continue;
        }
        if sign.is_ascii_whitespace() {
            continue;
        }
        if std::mem::take(&mut fresh) && !matches!(sign, '}' | ']') {
            line(&mut out, depth);
        } else if matches!(sign, '}' | ']') && !out.ends_with(['{', '[']) {
            line(&mut out, depth.saturating_sub(1));
        }
        match sign {
            '{' | '[' => {
                depth += 1;
                fresh = true;
            }
            '}' | ']' => depth = depth.saturating_sub(1),
            '"' => quoted = true,
            _ => {}
        }
        out.push(sign);
        match sign {
            ',' => line(&mut out, depth),
            ':' if lines => out.push(' '),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_laid_out_and_nothing_else_is_changed() {
        let text = "{\"z\":1.10,\"a\":[],\"b\":[1,{\"t\":\"x, \\\"y\\\": {\"}],\"n\":123456789012345678901234567890}";
        let laid = indented(text);
        assert_eq!(
            laid,
            "{\n  \"z\": 1.10,\n  \"a\": [],\n  \"b\": [\n    1,\n    {\n      \"t\": \"x, \\\"y\\\": {\"\n    }\n  ],\n  \"n\": 123456789012345678901234567890\n}"
        );
        assert_eq!(compact(&laid), text);
        for scalar in ["1", "\"a b\"", "null", "{}", "[]"] {
            assert_eq!(indented(scalar), scalar);
        }
    }
}
