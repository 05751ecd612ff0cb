//! Draws tables of numbers in which the shade of a cell shows how good its number is.

use std::fmt::Write;

use comity_papers::figure::Heat;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::CANNOT_FAIL;

const CELL: (i32, i32) = (92, 34);
/// The width of the rows' names, and the height of everything above the first row.
const MARGIN: (i32, i32) = (150, 96);

/// The shades range from orange over white to blue. Colour-blind readers can also distinguish them.
const WORST: RGBColor = RGBColor(230, 120, 30);
const BEST: RGBColor = RGBColor(40, 120, 190);

/// Draws a table.
pub fn svg(heat: &Heat) -> String {
    let mut text = String::new();
    let width = MARGIN.0 + CELL.0 * heat.columns.len() as i32 + 20;
    let height = MARGIN.1 + CELL.1 * heat.rows.len() as i32 + 20;
    {
        let area = SVGBackend::with_string(&mut text, (width as u32, height as u32)).into_drawing_area();
        area.fill(&WHITE).expect(CANNOT_FAIL);
        let say = |what: &str, at: (i32, i32), size: i32, anchor: HPos| {
            let style = ("sans-serif", size).into_font().color(&BLACK).pos(Pos::new(anchor, VPos::Center));
            area.draw(&Text::new(what.to_owned(), at, style)).expect(CANNOT_FAIL);
        };
        say(&heat.title, (width / 2, 22), 20, HPos::Center);
        say(&heat.note, (width / 2, 46), 14, HPos::Center);
        for (nth, name) in heat.columns.iter().enumerate() {
            say(name, (MARGIN.0 + CELL.0 * nth as i32 + CELL.0 / 2, MARGIN.1 - 16), 14, HPos::Center);
        }
        for (line, (name, cells)) in heat.rows.iter().enumerate() {
            let top = MARGIN.1 + CELL.1 * line as i32;
            say(name, (MARGIN.0 - 12, top + CELL.1 / 2), 14, HPos::Right);
            for (nth, cell) in cells.iter().enumerate() {
                let left = MARGIN.0 + CELL.0 * nth as i32;
                let corners = [(left + 1, top + 1), (left + CELL.0 - 1, top + CELL.1 - 1)];
                area.draw(&Rectangle::new(corners, shade(cell.good).filled())).expect(CANNOT_FAIL);
                if cell.framed {
                    area.draw(&Rectangle::new(corners, BLACK.stroke_width(2))).expect(CANNOT_FAIL);
                }
                say(&cell.text, (left + CELL.0 / 2, top + CELL.1 / 2), 14, HPos::Center);
            }
        }
        area.present().expect(CANNOT_FAIL);
    }
    let _ = writeln!(text);
    text
}

/// Returns the shade of a value from 0 (worst) to 1 (best). 0.5 is white.
fn shade(good: f64) -> RGBColor {
    if good.is_nan() {
        return RGBColor(245, 245, 245);
    }
    let away = good.clamp(0.0, 1.0) * 2.0 - 1.0;
    let RGBColor(red, green, blue) = if away < 0.0 { WORST } else { BEST };
    let mix = |full: u8| (255.0 + (f64::from(full) - 255.0) * away.abs() * 0.8) as u8;
    RGBColor(mix(red), mix(green), mix(blue))
}

#[cfg(test)]
mod tests {
    use comity_papers::figure::Cell;

    use super::*;

    #[test]
    fn each_cell_is_there_in_its_shade() {
        let cell = |text: &str, good: f64, framed: bool| Cell { text: text.to_owned(), good, framed };
        let heat = Heat {
            title: "A & B".into(),
            note: "more is better".into(),
            columns: vec!["left".into(), "right".into()],
            rows: vec![
                ("one".into(), vec![cell("0.1", 0.0, false), cell("0.9", 1.0, true)]),
                ("two".into(), vec![cell("0.5", 0.5, false), cell("none", f64::NAN, false)]),
            ],
        };
        let svg = svg(&heat);
        for text in ["A &amp; B", "more is better", "left", "right", "one", "two", "0.1", "0.9", "0.5", "none"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        // The picture has a background, four cells and a frame.
        assert_eq!(svg.matches("<rect").count(), 6);
        let shades = [0.0, 0.5, 1.0, f64::NAN].map(shade);
        assert_eq!(shades[1], WHITE);
        assert!(shades.iter().all(|one| shades.iter().filter(|other| one == *other).count() == 1), "{shades:?}");
    }
}
