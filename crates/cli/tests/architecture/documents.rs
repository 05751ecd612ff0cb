//! Tests of the references in Markdown files: links, decisions, and the functions of docs/where.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, PathBuf};

use super::tracked;

/// Tests the first table of docs/where.md, which leads from a question to the code: each file exists, and has the
/// functions that the table names.
#[test]
fn what_is_said_to_be_decided_somewhere_is_there() {
    let text = tracked::text("docs/where.md");
    let rows = tracked::rows(tracked::section(&text, "Where is it decided"));
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        // The number of groups of files equals the number of groups of functions in these files.
        let (files, functions): (Vec<&str>, Vec<&str>) = (row[1].split(';').collect(), row[2].split(';').collect());
        assert_eq!(files.len(), functions.len(), "{row:?}");
        for (files, functions) in files.into_iter().zip(functions) {
            for file in tracked::quoted(files) {
                let source = tracked::text(&format!("crates/{file}"));
                for function in tracked::quoted(functions) {
                    let is_there = ["(", "<"].iter().any(|next| source.contains(&format!("fn {function}{next}")));
                    assert!(is_there, "crates/{file} has no {function}");
                }
            }
        }
    }
}

/// Tests that a crate's README describes exactly the crate's features, because `docs.rs` lists them without a
/// description. Crates that are not published need no README.
#[test]
fn every_feature_is_documented() {
    let mut features = 0;
    for manifest in tracked::files().iter().filter(|file| file.ends_with("/Cargo.toml")) {
        let readme = format!("{}/README.md", manifest.trim_end_matches("/Cargo.toml"));
        let manifest: toml_edit::DocumentMut = tracked::text(manifest).parse().unwrap();
        let names = manifest.get("features").and_then(|item| item.as_table()).into_iter().flatten();
        let names: BTreeSet<&str> = names.map(|(name, _)| name).filter(|name| *name != "default").collect();
        let is_published = manifest["package"].get("publish").is_none();
        if names.is_empty() || !is_published && !tracked::files().contains(&readme) {
            continue;
        }
        let text = tracked::text(&readme);
        let said = tracked::section(&text, "Features").lines().filter(|line| line.starts_with("- `"));
        let said: BTreeSet<&str> = said.filter_map(|line| tracked::quoted(line).next()).collect();
        assert_eq!(said, names, "{readme}");
        features += names.len();
    }
    assert!(features > 3, "only {features} were found");
}

/// Tests the second table of docs/where.md: its files and folders exist.
#[test]
fn what_is_to_be_looked_at_for_a_change_is_there() {
    let text = tracked::text("docs/where.md");
    let rows = tracked::rows(tracked::section(&text, "Where to change what"));
    assert!(rows.len() > 10, "{rows:?}");
    let files = tracked::files();
    let is_there = |path: &str| files.iter().any(|file| file == path || file.starts_with(&format!("{path}/")));
    for row in rows {
        for name in tracked::quoted(row[1]).filter(|name| name.contains('/')) {
            let name = name.trim_end_matches('/');
            assert!(is_there(name) || is_there(&format!("crates/{name}")), "there is no {name}, of {:?}", row[0]);
        }
    }
}

#[test]
fn every_decision_has_a_status_and_stands_in_the_index() {
    let index = tracked::text("docs/decisions/README.md");
    let listed: BTreeMap<String, &str> =
        tracked::rows(&index).into_iter().map(|row| (row[0].to_owned(), row[2])).collect();
    let files = tracked::files();
    let names =
        files.iter().filter_map(|file| file.strip_prefix("docs/decisions/")).filter(|name| *name != "README.md");
    let names: Vec<&str> = names.collect();
    assert_eq!(names.len(), listed.len());
    for (nth, name) in names.iter().enumerate() {
        let number = format!("{:04}", nth + 1);
        assert!(name.starts_with(&format!("{number}-")), "{name} should have the number {number}");
        let text = tracked::text(&format!("docs/decisions/{name}"));
        let status = text.lines().nth(2).unwrap_or_default();
        let in_index = listed.get(&format!("[{number}]({name})")).unwrap_or_else(|| panic!("the index lacks {name}"));
        let status = status.strip_prefix("Status: ").unwrap_or_else(|| panic!("{name} has no status: {status:?}"));
        let kinds = ["in force", "superseded in part by ", "superseded by "];
        let kind = kinds.into_iter().find(|kind| status.starts_with(kind));
        let kind = kind.unwrap_or_else(|| panic!("{name}: {status:?} is no status"));
        assert!(in_index.starts_with(kind), "{name}: {in_index:?} in the index, {status:?} in its file");
        // If the index names later decisions that replace a decision, the decision's file has links to them.
        for later in in_index.split([' ', ',']).filter(|word| word.parse::<u32>().is_ok()) {
            assert!(text.contains(&format!("[{later}](")), "{name} has no link to {later}");
        }
    }
}

/// Returns the targets of the relative links of a Markdown file, without code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        // Text between backquotes is no link, but a link's text may be between backquotes.
        let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("…");
        for part in line.split("](").skip(1) {
            found.extend(part.split(')').next().map(|target| target.split(' ').next().unwrap().to_owned()));
        }
    }
    found
}

/// Returns the anchors of a file's headings, in the form that GitHub gives them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if in_code || level == 0 || !line[level..].starts_with(' ') {
            continue;
        }
        let is_kept = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
        let anchor: String = line[level..].trim().to_lowercase().chars().filter(is_kept).collect();
        let anchor = anchor.replace(' ', "-");
        let again = (1..).map(|nth| format!("{anchor}-{nth}"));
        let name = std::iter::once(anchor.clone()).chain(again).find(|name| !found.contains(name));
        found.extend(name);
    }
    found
}

#[test]
fn every_link_leads_to_a_tracked_file_and_its_heading() {
    let files: BTreeSet<String> = tracked::files().into_iter().collect();
    let (mut seen, mut broken) = (0, Vec::new());
    for file in files.iter().filter(|file| file.ends_with(".md")) {
        for link in links(&tracked::text(file)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let mut to = PathBuf::from(file);
            if !path.is_empty() {
                to.pop();
                for part in PathBuf::from(path).components() {
                    match part {
                        Component::ParentDir => assert!(to.pop(), "{file}: {link}"),
                        Component::CurDir => {}
                        part => to.push(part),
                    }
                }
            }
            let to = to.to_str().unwrap();
            let is_folder =
                files.range(format!("{to}/")..).next().is_some_and(|next| next.starts_with(&format!("{to}/")));
            let is_there = to.is_empty() || files.contains(to) || is_folder;
            let has_anchor = || to.ends_with(".md") && anchors(&tracked::text(to)).contains(anchor);
            if !is_there || !anchor.is_empty() && !has_anchor() {
                broken.push(format!("{file}: {link}"));
            }
        }
    }
    assert!(seen > 200, "only {seen} links were found: the search is broken");
    assert_eq!(broken, [""; 0]);
}

#[test]
fn links_and_anchors_are_found_as_a_reader_sees_them() {
    assert_eq!(links("a [b](c.md#d), [`e`](f) and `[g](h)`\n```\n[i](j)\n```\n"), ["c.md#d", "f"]);
    let anchors = anchors("# What `comity` costs\n\n## On 16 cores: speed\n\n## It\n\n## It\n```\n# no\n```\n");
    assert_eq!(anchors.into_iter().collect::<Vec<_>>(), ["it", "it-1", "on-16-cores-speed", "what-comity-costs"]);
}
