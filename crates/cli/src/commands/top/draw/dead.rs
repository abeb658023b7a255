//! Groups of dead items, and how they grow.

use ratatui_core::layout::Rect;

use super::super::model::{Model, Panel};
use super::pen::{Column, Ink, Pen, REST, Side, headings};
use super::{growth, number, scrolled};

const COLUMNS: [Column; 6] = [
    Column::new("group", 12, 16, Side::Left),
    Column::new("items", 8, 11, Side::Right),
    Column::new("lately", 8, 9, Side::Right),
    Column::new("stage", 11, 20, Side::Left),
    Column::new("class", 10, 12, Side::Left),
    Column::new("message", REST, REST, Side::Left),
];

/// Draws the groups.
pub fn draw(pen: &mut Pen<'_>, model: &Model, area: Rect) {
    let here = model.panel == Panel::Dead;
    let [group, items, lately, stage, class, message] = headings(pen, &COLUMNS, area, "DEAD GROUP", here);
    if model.groups().is_empty() {
        pen.write(area.x + 2, area.y + 1, area.width - 2, "no dead items", Ink::Soft);
    }
    let chosen = model.at(Panel::Dead);
    for (y, at) in scrolled(model.groups().len(), chosen, area.height.saturating_sub(1), area.y + 1) {
        let dead = &model.groups()[at];
        let name = if dead.group.is_empty() { "(none)" } else { &dead.group };
        pen.cell(group, y, name, Ink::Plain);
        pen.cell(items, y, &number(dead.items, items), Ink::Bad);
        pen.cell(lately, y, &growth(model.trend.growth(&dead.group)), Ink::Bad);
        pen.cell(stage, y, &dead.stage, Ink::Plain);
        pen.cell(class, y, dead.class.map_or("–", |class| class.name()), Ink::Plain);
        pen.cell(message, y, &dead.message, Ink::Soft);
        if at == chosen {
            pen.choose(area, y, here);
        }
    }
}
