//! The files that git tracks, for the tests of documents.

use std::fs;
use std::process::Command;

use super::workspace;

/// The folder of another project's files, which are kept as they were published.
const FOREIGN: &str = "crates/rayon-core/upstream/";

/// Returns the paths of the tracked files, relative to the workspace's root and sorted. Leaves out the folder
/// `FOREIGN`.
pub fn files() -> Vec<String> {
    let output =
        Command::new("git").args(["ls-files", "-z"]).current_dir(workspace()).output().expect("git is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).unwrap();
    let names = names.split('\0').filter(|name| !name.is_empty() && !name.starts_with(FOREIGN));
    // A file that is removed but not committed is still listed.
    let files: Vec<String> = names.filter(|name| workspace().join(name).exists()).map(str::to_owned).collect();
    assert!(files.len() > 500, "{files:?}");
    files
}

/// Returns the text of a file.
pub fn text(file: &str) -> String {
    fs::read_to_string(workspace().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns the part of a Markdown text below this heading of the second level.
///
/// # Panics
/// If there is no such heading.
pub fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let (_, below) = text.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("there is no {heading:?}"));
    below.split("\n## ").next().unwrap()
}

/// Returns the cells of a table's rows, without its header.
pub fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().filter(|line| line.starts_with("| ") || line.starts_with("|-"));
    let below = rows.skip_while(|line| !line.starts_with("|-")).skip(1);
    below.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Returns the texts between backquotes.
pub fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}
