//! Texts with places for parts of a payload.

use crate::protocol::look_up;

/// A text in which `{/pointer}` stands for a part of the payload; `{{` and `}}` are braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Pointer(String),
}

impl Prompt {
    /// Reads a template.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..];
            if brace.starts_with("{{") || brace.starts_with("}}") {
                plain.push_str(&brace[..1]);
                rest = &brace[2..];
                continue;
            }
            let inside = brace.strip_prefix('{').ok_or("a \"}\" has no \"{\"; write \"}}\" for a brace")?;
            let end = inside.find('}').ok_or("a \"{\" is not closed; write \"{{\" for a brace")?;
            let pointer = &inside[..end];
            if !pointer.starts_with('/') {
                return Err(format!(
                    "{{{pointer}}} is no JSON pointer: it starts with /, as in {{/text}}; write \"{{{{\" for a brace"
                ));
            }
            parts.push(Part::Text(std::mem::take(&mut plain)));
            parts.push(Part::Pointer(pointer.to_owned()));
            rest = &inside[end + 1..];
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        parts.retain(|part| *part != Part::Text(String::new()));
        if parts.is_empty() {
            return Err("it is empty".to_owned());
        }
        Ok(Self { parts })
    }

    /// Fills in the parts of a payload. A string stands for itself, anything else for its JSON.
    pub(super) fn render(&self, payload: &[u8]) -> Result<String, String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Pointer(pointer) => match look_up(payload, pointer)?.map(|raw| raw.get()) {
                    None | Some("null") => return Err(format!("the payload has nothing at {pointer}")),
                    Some(raw) if raw.starts_with('"') => {
                        let value: String = serde_json::from_str(raw)
                            .map_err(|error| format!("the text at {pointer} cannot be read ({error})"))?;
                        text.push_str(&value);
                    }
                    Some(raw) => text.push_str(raw),
                },
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_payload_are_filled_in_as_they_are() {
        let payload = r#"{"text":"a {b} \"c\" {/n}","n":12345678901234567890123,"l":[1,{"x":true}],"e":""}"#;
        let table = [
            ("Summarise: {/text}", r#"Summarise: a {b} "c" {/n}"#),
            ("{/n}|{/l/1}|{/l/1/x}", r#"12345678901234567890123|{"x":true}|true"#),
            ("{{\"text\": {/n}}}", "{\"text\": 12345678901234567890123}"),
            ("{{}} {{{/l/0}}}", "{} {1}"),
            ("{/e}", ""),
            ("no places", "no places"),
        ];
        for (template, expected) in table {
            let rendered = Prompt::parse(template).unwrap().render(payload.as_bytes());
            assert_eq!(rendered.as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn a_part_that_is_not_there_is_told() {
        for (payload, wrong) in
            [("{}", "nothing at /text"), (r#"{"text":null}"#, "nothing at /text"), ("x", "not JSON")]
        {
            let told = Prompt::parse("{/text}").unwrap().render(payload.as_bytes()).unwrap_err();
            assert!(told.contains(wrong), "{told}");
        }
    }

    #[test]
    fn a_template_that_makes_no_sense_is_refused() {
        for template in ["", "{", "}", "a } b", "{text}", "{}", "{/a", "{{/a}"] {
            assert!(Prompt::parse(template).is_err(), "{template}");
        }
    }
}
