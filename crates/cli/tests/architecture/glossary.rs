//! Tests of GLOSSARY.md against the sources: its identifiers exist, and its retired words are not used.

use std::collections::{BTreeMap, BTreeSet};

use super::tracked;

/// The folders that must be free of retired words, in addition to the Markdown files of the root.
const FREE: [&str; 5] = ["docs/", "crates/", "lab/", "checks/", "packaging/"];

/// The extensions of files that are checked.
const READ: [&str; 6] = [".md", ".rs", ".sh", ".py", ".toml", ".patch"];

const RETIRED: &str = "Retired words";

/// The texts in which a retired word is not used. The table in GLOSSARY.md has these names.
pub const ALL_FILES: &str = "all files";
pub const PROSE: &str = "prose";
pub const PRINTED: &str = "printed texts";

fn glossary() -> String {
    tracked::text("GLOSSARY.md")
}

/// Returns the rows: the names, their meaning, the identifiers in the code, and the source.
fn entries(glossary: &str) -> Vec<Vec<&str>> {
    let (entries, _) = glossary.split_once(&format!("\n## {RETIRED}\n")).expect("retired words have a section");
    let rows = tracked::rows(entries);
    assert!(rows.len() > 100 && rows.iter().all(|row| row.len() == 4), "{rows:?}");
    rows
}

/// Returns the words of a text. Parts that an underscore or a hyphen joins are one word, as in the names of functions
/// and files.
pub fn words(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric() && !['_', '-'].contains(&letter));
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Returns the retired words and phrases that GLOSSARY.md lists for `texts`, each as its words.
pub fn retired(texts: &str) -> Vec<Vec<String>> {
    let glossary = glossary();
    let rows = tracked::rows(tracked::section(&glossary, RETIRED));
    assert!(rows.iter().all(|row| [ALL_FILES, PROSE, PRINTED].contains(&row[2])), "{rows:?}");
    let phrases: Vec<Vec<String>> = rows.iter().filter(|row| row[2] == texts).map(|row| words(row[0])).collect();
    assert!(phrases.len() >= 5 && phrases.iter().all(|phrase| !phrase.is_empty()), "{phrases:?}");
    phrases
}

/// True if the words contain the phrase.
pub fn contain(words: &[String], phrase: &[String]) -> bool {
    words.windows(phrase.len()).any(|words| words == phrase)
}

#[test]
fn what_the_glossary_names_is_in_the_sources() {
    let files = tracked::files();
    let sources = files.iter().filter(|file| file.ends_with(".rs") && !file.contains("/tests/architecture/"));
    let identifier = |letter: char| letter.is_alphanumeric() || letter == '_';
    let sources: Vec<String> = sources.map(|file| tracked::text(file)).collect();
    let known: BTreeSet<&str> = sources
        .iter()
        .flat_map(|text| text.split(|letter| !identifier(letter)))
        .filter(|word| !word.is_empty())
        .collect();
    let glossary = glossary();
    for row in entries(&glossary) {
        for name in tracked::quoted(row[2]) {
            let is_there = match name {
                _ if name.starts_with("crates/") || name.starts_with("lab/") => {
                    files.iter().any(|file| file == name || file.starts_with(&format!("{name}/")))
                }
                _ if name.ends_with(".rs") => files.contains(&format!("crates/{name}")),
                _ => name.split(|letter| !identifier(letter)).all(|word| word.is_empty() || known.contains(word)),
            };
            assert!(is_there, "`{name}`, which the glossary has for {:?}, is not in the sources", row[0]);
        }
    }
}

#[test]
fn no_name_has_two_entries_and_entries_are_in_order() {
    let glossary = glossary();
    let mut names: Vec<&str> = Vec::new();
    let mut in_code: BTreeMap<&str, &str> = BTreeMap::new();
    let mut before = String::new();
    for row in entries(&glossary) {
        names.extend(row[0].split(", "));
        for name in tracked::quoted(row[2]) {
            let other = in_code.insert(name, row[0]);
            assert!(other.is_none(), "`{name}` stands for {:?} and for {:?}", other.unwrap(), row[0]);
        }
        let this = row[0].to_lowercase();
        assert!(before < this, "{before:?} stands before {this:?}");
        before = this;
    }
    names.sort_unstable();
    assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
}

#[test]
fn no_retired_word_is_left() {
    let glossary = glossary();
    let retired = retired(ALL_FILES);
    let is_read = |file: &str| {
        READ.iter().any(|end| file.ends_with(end))
            && !file.contains("/records/")
            && !file.contains("/architecture/")
            && (FREE.iter().any(|folder| file.starts_with(folder)) || !file.contains('/') && file.ends_with(".md"))
    };
    let mut found = Vec::new();
    for file in tracked::files().iter().filter(|file| is_read(file)) {
        let mut text = tracked::text(file);
        if file == "GLOSSARY.md" {
            text = text.replace(tracked::section(&glossary, RETIRED), "");
        }
        let words = words(&text);
        for phrase in &retired {
            if contain(&words, phrase) {
                found.push(format!("{file}: {}", phrase.join(" ")));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn words_are_what_a_reader_takes_for_one() {
    assert_eq!(
        words("So *nobody's* `nobody_sleeps`, wakes-nobody.\nWhoever"),
        ["so", "nobody", "s", "nobody_sleeps", "wakes-nobody", "whoever"]
    );
}
