//! Markdown: sections, paragraphs, list items, listings and tables, as ranges of the source.

use std::ops::Range;

use pulldown_cmark::{Event, MetadataBlockKind, Options, Parser, Tag, TagEnd};

use crate::document::{BlockKind, Builder, Document};

/// What was found, before it is put into the document: the parser holds on to the text meanwhile.
enum Part {
    Heading { level: u8, title: String, range: Range<usize> },
    Block(BlockKind, Range<usize>),
}

pub(super) fn parse(mut builder: Builder) -> Document {
    for part in parts(builder.text()) {
        match part {
            Part::Heading { level, title, range } => {
                builder.heading(level, &title);
                if level == 1 {
                    builder.title(&title);
                }
                builder.block(BlockKind::Heading, range);
            }
            Part::Block(kind, range) => builder.block(kind, range),
        }
    }
    builder.finish()
}

/// The blocks of the top level; a list falls apart into its items, all else stays whole.
fn parts(text: &str) -> Vec<Part> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
        | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS;
    let mut found = Vec::new();
    let mut depth = 0_usize;
    // How deep the list items lie that become blocks: right below a list at the top.
    let mut in_list = false;
    let mut heading: Option<(u8, String)> = None;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                match tag {
                    Tag::Heading { level, .. } if depth == 0 => heading = Some((level as u8, String::new())),
                    Tag::List(_) if depth == 0 => in_list = true,
                    Tag::Item if depth == 1 && in_list => found.push(Part::Block(BlockKind::Prose, range)),
                    Tag::CodeBlock(_) | Tag::Table(_) | Tag::HtmlBlock if depth == 0 => {
                        found.push(Part::Block(BlockKind::Verbatim, range));
                    }
                    Tag::MetadataBlock(MetadataBlockKind::YamlStyle | MetadataBlockKind::PlusesStyle)
                        if depth == 0 =>
                    {
                        found.push(Part::Block(BlockKind::Verbatim, range));
                    }
                    _ if depth == 0 => found.push(Part::Block(BlockKind::Prose, range)),
                    _ => {}
                }
                depth += 1;
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                match tag {
                    TagEnd::List(_) if depth == 0 => in_list = false,
                    TagEnd::Heading(_) => {
                        if let Some((level, title)) = heading.take() {
                            found.push(Part::Heading { level, title, range });
                        }
                    }
                    _ => {}
                }
            }
            Event::Text(piece) | Event::Code(piece) => {
                if let Some((_, title)) = &mut heading {
                    title.push_str(&piece);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some((_, title)) = &mut heading {
                    title.push(' ');
                }
            }
            _ => {}
        }
    }
    found
}
