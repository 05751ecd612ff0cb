//! The page: what stands around the sections, how it looks, and the parts that all of them are made of.

use std::fmt::Write;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::figure::COLOURS;

/// What is shown of one file, or of all timelines.
pub struct Section {
    /// What the contents list, in order.
    pub entries: Vec<Entry>,
    /// The headings of the entries, and what is below them.
    pub body: Markup,
}

/// A line of the contents.
pub struct Entry {
    /// The heading's.
    pub id: String,
    /// The file, or what is drawn of several.
    pub title: String,
    /// In a few words.
    pub gist: String,
    /// Whether it is a part of the one above it.
    pub is_part: bool,
}

const STYLE: &str = include_str!("page.css");

/// How a page of this command begins, and any other.
const BEGINNING: &[u8] = b"<!doctype html";

/// Whether a file that begins so is an HTML page.
pub fn is_page(start: &[u8]) -> bool {
    let start = start.trim_ascii_start();
    start.len() >= BEGINNING.len() && start[..BEGINNING.len()].eq_ignore_ascii_case(BEGINNING)
}

/// All of it, which needs no other file.
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
                // Should anything of a file get past the escaping, a browser would neither run nor load it.
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
                    ". Dots and bars show their numbers in the tables below them."
                }
            }
        }
    };
    page.into_string()
}

/// The colours of every figure of this command.
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

/// A name of a file, without what moves the cursor or is not text.
pub fn clean(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// With the unit that fits.
pub fn duration(seconds: f64) -> String {
    if seconds == 0.0 { "0 s".to_owned() } else { crate::corun::table::seconds(seconds) }
}

/// The heading of a file.
pub fn heading(id: &str, kind: &str, title: &str) -> Markup {
    html! { h2 id=(id) { span.kind { (kind) } " " (clean(title)) } }
}

/// What a file says of where it comes from: names, and what they are.
pub fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! {
        dl.facts { @for (name, what) in facts { div { dt { (name) } dd { (what) } } } }
    }
}

/// Something that must not be overlooked.
pub fn warning(text: &str) -> Markup {
    html! { p.warning { strong { "Note: " } (clean(text)) } }
}

/// What stands in a table.
pub struct Cell {
    /// Its words.
    text: Markup,
    /// Whether it tells of something wrong.
    is_wrong: bool,
    /// Whether it may take several lines.
    is_long: bool,
}

/// Longer texts take several lines.
const LINE_LETTERS: usize = 24;

impl Cell {
    /// What is drawn.
    pub fn drawn(text: Markup) -> Cell {
        Cell { text, is_wrong: false, is_long: false }
    }

    fn class(&self, is_text: bool) -> Option<String> {
        let classes = [(is_text, "text"), (self.is_wrong, "wrong"), (self.is_long, "long")];
        let classes: Vec<&str> = classes.into_iter().filter_map(|(has, class)| has.then_some(class)).collect();
        (!classes.is_empty()).then(|| classes.join(" "))
    }

    /// So that no reader takes it to be right.
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

/// A table: so many columns of text, and then numbers.
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
