//! The rules of the project's prose that a program can check, for the comments of sources and for the user documents.

use super::glossary::{self, words};
use super::tracked;

/// The words with which the documentation of an item must not begin, because they continue another text or do not
/// name a thing.
const NO_BEGINNINGS: [&str; 30] = [
    "and", "as", "at", "but", "by", "for", "from", "how", "in", "it", "none", "nor", "not", "of", "on", "one", "or",
    "so", "such", "that", "they", "those", "to", "what", "where", "whether", "which", "who", "with", "without",
];

/// The maximum number of words in a sentence.
pub const MOST_WORDS: usize = 30;

/// A paragraph of prose: the line at which it begins, and its text.
struct Paragraph {
    line: usize,
    text: String,
    /// True if it is the first paragraph of an item's documentation.
    begins_item: bool,
}

/// Collects lines into paragraphs.
#[derive(Default)]
struct Collector {
    done: Vec<Paragraph>,
    open: Option<Paragraph>,
    in_code: bool,
}

impl Collector {
    fn end(&mut self) {
        self.done.extend(self.open.take());
    }

    /// Adds a line of prose without its comment mark. `begins_item` is true if a paragraph that begins here is the
    /// first paragraph of an item's documentation.
    fn add(&mut self, line: usize, text: &str, begins_item: bool) {
        let text = text.trim();
        if text.starts_with("```") {
            self.in_code = !self.in_code;
            return self.end();
        }
        let is_prose = !self.in_code && !text.is_empty() && !text.starts_with(['|', '#', '<', '!', '>']);
        if !is_prose {
            return self.end();
        }
        let numbered = text.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if text.starts_with("- ") || text.starts_with("* ") || numbered {
            self.end();
        }
        match &mut self.open {
            Some(open) => open.text.extend([" ", text]),
            None => self.open = Some(Paragraph { line, text: text.to_owned(), begins_item }),
        }
    }
}

/// Returns the paragraphs of a source's comments.
fn comments(source: &str) -> Vec<Paragraph> {
    let mut collector = Collector::default();
    let mut mark_before = "";
    for (nth, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let mark = ["///", "//!", "//"].into_iter().find(|mark| line.starts_with(mark)).unwrap_or("");
        if mark != mark_before {
            collector.end();
            collector.in_code = false;
        }
        if !mark.is_empty() {
            collector.add(nth + 1, &line[mark.len()..], mark == "///" && mark_before != "///");
        }
        mark_before = mark;
    }
    collector.end();
    collector.done
}

/// Returns the paragraphs of a Markdown document.
fn paragraphs(document: &str) -> Vec<Paragraph> {
    let mut collector = Collector::default();
    document.lines().enumerate().for_each(|(nth, line)| collector.add(nth + 1, line, false));
    collector.end();
    collector.done
}

/// Returns the text with one word in the place of each code between backquotes.
fn without_code(text: &str) -> String {
    text.split('`').enumerate().map(|(nth, part)| if nth % 2 == 0 { part } else { "code" }).collect()
}

/// Describes each rule that a paragraph breaks. `retired` are the phrases that it must not have.
fn findings(paragraph: &Paragraph, retired: &[Vec<String>]) -> Vec<String> {
    let text = without_code(&paragraph.text);
    let all = words(&text);
    let mut found = Vec::new();
    let first = all.first().map_or("", String::as_str);
    let begins_with_code = paragraph.text.starts_with(['`', '[']);
    if paragraph.begins_item && !begins_with_code && (NO_BEGINNINGS.contains(&first) || text.starts_with("The same ")) {
        found.push(format!("begins with {first:?}"));
    }
    let retired = retired.iter().filter(|phrase| glossary::contain(&all, phrase));
    found.extend(retired.map(|phrase| format!("has {:?}", phrase.join(" "))));
    let is_end = |word: &str| word.trim_end_matches([')', '"', '*']).ends_with(['.', '?', '!', ':', ';']);
    let (mut count, mut beginning) = (0, "");
    for word in text.split_whitespace() {
        count += usize::from(word.contains(char::is_alphanumeric));
        beginning = if count == 1 { word } else { beginning };
        if count == MOST_WORDS + 1 {
            found.push(format!("has a sentence of more than {MOST_WORDS} words, which begins with {beginning:?}"));
        }
        if is_end(word) {
            count = 0;
        }
    }
    found
}

#[test]
fn comments_and_user_documents_keep_the_rules_of_prose() {
    let retired = glossary::retired(glossary::PROSE);
    let mut broken = Vec::new();
    let mut seen = 0;
    for file in tracked::files() {
        let paragraphs = match &file {
            file if file.ends_with(".rs") => comments(&tracked::text(file)),
            file if file == "README.md" || file.starts_with("docs/guide/src/") && file.ends_with(".md") => {
                paragraphs(&tracked::text(file))
            }
            _ => continue,
        };
        seen += paragraphs.len();
        for paragraph in &paragraphs {
            broken.extend(
                findings(paragraph, &retired).into_iter().map(|what| format!("{file}:{}: {what}", paragraph.line)),
            );
        }
    }
    assert!(seen > 10_000, "only {seen} paragraphs were found: the search is broken");
    assert!(broken.is_empty(), "{} paragraphs break the rules of prose:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn what_breaks_the_rules_of_prose_is_found() {
    let retired = glossary::retired(glossary::PROSE);
    let found = |source: &str| -> Vec<String> {
        comments(source).iter().flat_map(|paragraph| findings(paragraph, &retired)).collect()
    };
    assert_eq!(found("/// What a worker does.\nfn f() {}"), ["begins with \"what\""]);
    assert_eq!(found("/// The same of a moment."), ["begins with \"the\""]);
    assert_eq!(found("// The program goes\n// on without it."), ["has \"goes on\""]);
    assert_eq!(found("/// Returns it.\n///\n/// And more.\n/// ```\n/// // What\n/// ```"), [""; 0]);
    assert_eq!(found("/// `What` is code.\n// What a comment may begin with."), [""; 0]);
    assert_eq!(found(&format!("//! {}.", "word ".repeat(31).trim())).len(), 1);
    assert_eq!(found(&format!("//! {0}. {0}.", "word ".repeat(30).trim())), [""; 0]);
}
