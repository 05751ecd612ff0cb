//! The page: the frame of its sections, its style, and the elements from which sections are made.

use std::fmt::Write;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::figure::COLOURS;

/// The section of one file, or of all timelines.
pub struct Section {
    /// The lines of the contents for this section, in order.
    pub entries: Vec<Entry>,
    /// The headings of the entries, and the text below them.
    pub body: Markup,
}

/// A line of the contents.
pub struct Entry {
    /// The id of the heading.
    pub id: String,
    /// The title: the file, or the subject of several files.
    pub title: String,
    /// A summary in a few words.
    pub gist: String,
    /// True if the entry is a part of the entry above it.
    pub is_part: bool,
}

const STYLE: &str = include_str!("page.css");

/// The beginning of an HTML page. Pages of this command begin with it, too.
const BEGINNING: &[u8] = b"<!doctype html";

/// True if a file with this beginning is an HTML page.
pub fn is_page(start: &[u8]) -> bool {
    let start = start.trim_ascii_start();
    start.len() >= BEGINNING.len() && start[..BEGINNING.len()].eq_ignore_ascii_case(BEGINNING)
}

/// Returns the whole page, which needs no other file.
pub fn html(title: &str, sections: &[Section]) -> String {
    let entries = || sections.iter().flat_map(|section| &section.entries);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "comity-lab report " (env!("CARGO_PKG_VERSION")) };
                // This policy keeps the browser from running or loading content of a file, should a text not be
                // escaped.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'";
                link rel="icon" href="data:,";
                title { (clean(title)) }
                style { (PreEscaped(palette())) (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { (clean(title)) } }
                nav aria-label="Contents" {
                    h2 { "Contents" }
                    ul {
                        @for entry in entries() {
                            li class=[entry.is_part.then_some("part")] {
                                a href={ "#" (entry.id) } { (clean(&entry.title)) }
                                " " span.gist { (clean(&entry.gist)) }
                            }
                        }
                    }
                }
                main { @for section in sections { section { (section.body) } } }
                footer {
                    "Made by " code { "comity-lab report" } ", version " (env!("CARGO_PKG_VERSION"))
                    ". The numbers of dots and bars are in the tables below the figures."
                }
            }
        }
    };
    page.into_string()
}

/// Returns CSS for the colours of all figures of this command.
fn palette() -> String {
    let mut css = String::from(":root{");
    for (nth, colour) in COLOURS.iter().enumerate() {
        let _ = write!(css, "--c{nth}:rgb({},{},{});", colour.0, colour.1, colour.2);
    }
    css.push('}');
    for nth in 0..COLOURS.len() {
        let _ = write!(css, ".c{nth}{{--hue:var(--c{nth})}}");
    }
    css
}

/// Replaces control characters, for example in the name of a file, by spaces.
pub fn clean(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Formats a duration with the unit that fits.
pub fn duration(seconds: f64) -> String {
    if seconds == 0.0 { "0 s".to_owned() } else { crate::corun::table::seconds(seconds) }
}

/// Returns the heading of a file.
pub fn heading(id: &str, kind: &str, title: &str) -> Markup {
    html! { h2 id=(id) { span.kind { (kind) } " " (clean(title)) } }
}

/// Lists facts about the origin of a file, each with a name.
pub fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! {
        dl.facts { @for (name, what) in facts { div { dt { (name) } dd { (what) } } } }
    }
}

/// Returns a highlighted note.
pub fn warning(text: &str) -> Markup {
    html! { p.warning { strong { "Note: " } (clean(text)) } }
}

/// A cell of a table.
pub struct Cell {
    /// The content.
    text: Markup,
    /// True if the content reports something wrong.
    is_wrong: bool,
    /// True if the content may take several lines.
    is_long: bool,
}

/// The number of letters above which a text may take several lines.
const LINE_LETTERS: usize = 24;

impl Cell {
    /// Makes a cell with a drawing.
    pub fn drawn(text: Markup) -> Cell {
        Cell { text, is_wrong: false, is_long: false }
    }

    fn class(&self, is_text: bool) -> Option<String> {
        let classes = [(is_text, "text"), (self.is_wrong, "wrong"), (self.is_long, "long")];
        let classes: Vec<&str> = classes.into_iter().filter_map(|(has, class)| has.then_some(class)).collect();
        (!classes.is_empty()).then(|| classes.join(" "))
    }

    /// Marks the cell if its content is wrong.
    pub fn wrong_if(self, is_wrong: bool) -> Cell {
        Cell { is_wrong, ..self }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        let text = clean(text.as_ref());
        Cell { text: html! { (text) }, is_wrong: false, is_long: text.chars().count() > LINE_LETTERS }
    }
}

/// Makes a table, in which the first `texts` columns are text and the others are numbers.
pub fn table(title: &str, header: &[&str], texts: usize, rows: &[Vec<Cell>]) -> Markup {
    html! {
        p.caption { (title) }
        div.scroll tabindex="0" role="region" aria-label=(title) {
            table aria-label=(title) {
                thead {
                    tr {
                        @for (nth, name) in header.iter().enumerate() {
                            th class=[(nth < texts).then_some("text")] scope="col" { (clean(name)) }
                        }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            @for (nth, cell) in row.iter().enumerate() {
                                td class=[cell.class(nth < texts)] { (cell.text) }
                            }
                        }
                    }
                }
            }
        }
    }
}
