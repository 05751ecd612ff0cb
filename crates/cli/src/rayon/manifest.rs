//! The root manifest: its `[patch]` entry for rayon-core, and a note for `disable`.
//!
//! `enable` appends its own table as text, so that no other byte of the file changes. An entry that the user wrote,
//! and an entry within an inline table, are edited in place. If an edit would change other bytes too, nothing is
//! written.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use comity_console::{Failure, output};
use toml_edit::{DocumentMut, InlineTable, Item, Value, value};

use super::lock::Locked;
use super::source::{self, FolderContent, Source};

/// The key of crates.io in `[patch]`, and the addresses that also stand for it.
const CRATES_IO: [&str; 3] =
    ["crates-io", "https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/"];

/// The keys of an entry that define the source and the version of the package.
const PLACES: [&str; 6] = ["path", "git", "rev", "branch", "tag", "version"];

/// The first line of the appended text. An entry with this note is Comity's even if its folder is gone.
const NOTE: &str = "# Written by `comity rayon enable`; `comity rayon disable` takes it out.";

/// The beginning of the second line of the appended text. It is followed by the packages that the lock file held
/// before `enable` and not after it.
const LOCKED: &str = "# Cargo.lock had ";

/// The third line of the appended text: the header of the entry.
const HEADER: &str = "[patch.crates-io.rayon-core]";

/// A manifest as it was read.
#[derive(Debug)]
pub struct Manifest {
    path: PathBuf,
    text: String,
    document: DocumentMut,
}

/// The package that the patch of rayon-core names.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// No package, because the manifest has no patch of rayon-core.
    None,
    /// The package of Comity, at a path.
    Folder,
    /// The package of Comity, from a repository.
    Git,
    /// Another package, with the text of the entry.
    Foreign(String),
}

/// A text, split around the part that `enable` has appended.
#[derive(Default)]
struct Parts<'a> {
    before: &'a str,
    /// The packages of the note. `None` if there is no note.
    locked: Option<Vec<Locked>>,
    /// The entry below the note, with its header.
    entry: &'a str,
    after: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Parts<'a> {
        let Some((before, rest)) = text.split_once(NOTE) else { return Parts { before: text, ..Parts::default() } };
        let (_, mut rest) = split_line(rest);
        let mut locked = Vec::new();
        if let (line, below) = split_line(rest)
            && let Some(list) = line.strip_prefix(LOCKED)
        {
            // A name that cannot be parsed is not restored. Cargo then chooses the version.
            locked = list.trim_end().trim_end_matches('.').split(", ").filter_map(|name| name.parse().ok()).collect();
            rest = below;
        }
        let mut after = rest;
        if rest.starts_with(HEADER) {
            after = split_line(rest).1;
            while !after.trim_start_matches([' ', '\t']).starts_with(['[', '#', '\r', '\n']) && !after.is_empty() {
                after = split_line(after).1;
            }
        }
        let entry = &rest[..rest.len() - after.len()];
        // The line end that `enable` put before the note is removed.
        let without = before.strip_suffix('\n').map_or(before, |text| text.strip_suffix('\r').unwrap_or(text));
        let before = if after.is_empty() || without.ends_with('\n') { without } else { before };
        Parts { before, locked: Some(locked), entry, after }
    }
}

fn split_line(text: &str) -> (&str, &str) {
    text.split_at(text.find('\n').map_or(text.len(), |end| end + 1))
}

impl Manifest {
    /// Reads and parses the manifest.
    pub fn read(path: &Path) -> Result<Manifest, Failure> {
        let refuse =
            |why: &dyn Display| Failure::Run(format!("cannot read '{}': {why}. Nothing was changed", path.display()));
        // If the path is a link, its target is written, not the link.
        let path = fs::canonicalize(path).map_err(|error| refuse(&error))?;
        let text = fs::read_to_string(&path).map_err(|error| refuse(&error))?;
        Manifest::of(path, text)
    }

    /// Returns a manifest with the path of this manifest and another text.
    pub fn with_text(&self, text: &str) -> Result<Manifest, Failure> {
        Manifest::of(self.path.clone(), text.to_owned())
    }

    fn of(path: PathBuf, text: String) -> Result<Manifest, Failure> {
        match text.trim_start_matches('\u{feff}').parse() {
            Ok(document) => Ok(Manifest { path, text, document }),
            Err(error) => Err(Failure::Run(format!("'{}' is not TOML: {error}", path.display()))),
        }
    }

    /// Returns the package that the patch of rayon-core names here.
    pub fn entry(&self) -> Entry {
        let Some((registry, name, item)) = self.core_patch() else { return Entry::None };
        let text = |key| item.get(key).and_then(|item| item.as_str());
        let foreign = || {
            let inline = item.clone().into_value().map_or_else(|item| item.to_string(), |value| value.to_string());
            Entry::Foreign(format!("{name} = {}", inline.trim()))
        };
        if registry != CRATES_IO[0] || name != "rayon-core" {
            return foreign();
        }
        match (text("path").map(|path| source::inspect(&self.folder().join(path))), text("git")) {
            (Some(FolderContent::Comity { .. }), _) => Entry::Folder,
            // A package in a missing folder or in a repository cannot be inspected, so the note decides.
            (Some(FolderContent::Nothing), _) if self.locked().is_some() => Entry::Folder,
            (None, Some(_)) if self.locked().is_some() => Entry::Git,
            _ => foreign(),
        }
    }

    /// Returns the address of the repository that the patch of rayon-core names, if it names one.
    pub fn repository(&self) -> Option<&str> {
        self.core_patch()?.2.get("git")?.as_str()
    }

    /// Returns the folder that the patch of rayon-core names, if that folder no longer exists.
    pub fn lost_folder(&self) -> Option<&str> {
        let path = self.core_patch()?.2.get("path")?.as_str()?;
        (source::inspect(&self.folder().join(path)) == FolderContent::Nothing).then_some(path)
    }

    /// Returns the packages in the note of an earlier `enable`: the packages that the lock file held before `enable`
    /// and not after it.
    pub fn locked(&self) -> Option<Vec<Locked>> {
        Parts::of(&self.text).locked
    }

    /// Returns the manifest's text with an entry that points to `source`, and with `locked` in the note. Without a
    /// `source`, the entry keeps its own. An entry that the user wrote gets a note only if a note is necessary.
    pub fn with_entry(&self, source: Option<&Source>, locked: &[Locked]) -> Result<String, Failure> {
        let parts = Parts::of(&self.text);
        let rest = self.with_text(&[parts.before, parts.after].concat())?;
        let is_apart = parts.entry.is_empty() && (rest.core_patch().is_some() || rest.has_inline_patches());
        let new_line = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        let mut note = format!("\n{NOTE}\n");
        if !locked.is_empty() {
            let names: Vec<String> = locked.iter().map(ToString::to_string).collect();
            note += &format!("{LOCKED}{}.\n", names.join(", "));
        }
        if !is_apart && let Some(source) = source {
            note += &format!("{HEADER}\n");
            for (key, text) in source.fields() {
                note += &format!("{key} = {}\n", Value::from(text));
            }
        }
        note = note.replace('\n', new_line);
        if !is_apart {
            let entry = if source.is_none() { parts.entry } else { "" };
            return Ok([parts.before, &note, entry, parts.after].concat());
        }
        let mut text = match source {
            Some(source) => rest.edited(|document| put(document, source))?,
            None => rest.text.clone(),
        };
        if self.core_patch().is_none() || parts.locked.is_some() || !locked.is_empty() {
            text += &note;
        }
        Ok(text)
    }

    /// Returns the manifest's text without the entry and the note.
    pub fn without_entry(&self) -> Result<String, Failure> {
        let parts = Parts::of(&self.text);
        let rest = self.with_text(&[parts.before, parts.after].concat())?;
        if rest.entry() == Entry::None { Ok(rest.text) } else { rest.edited(take_out) }
    }

    /// Writes `text` to the file. Fails if another program has changed the file: it must still have the text that was
    /// read, or the text that this command `wrote`.
    pub fn write(&self, wrote: Option<&str>, text: &str) -> Result<(), Failure> {
        if !fs::read_to_string(&self.path).is_ok_and(|now| now == wrote.unwrap_or(&self.text)) {
            return Err(Failure::Run(format!(
                "another program has changed '{}' at the same time. Its changes are kept: run this command again",
                self.path.display()
            )));
        }
        output::replace(&self.path, text.as_bytes())
            // The message has only the kind of the error, because the rest names a temporary file and would mislead.
            .map_err(|error| Failure::Run(format!("cannot write '{}': {}", self.path.display(), error.kind())))
    }

    /// Returns the manifest's text as it was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Returns the registry, the key and the entry of the patch of rayon-core.
    fn core_patch(&self) -> Option<(&str, &str, &Item)> {
        // An entry may have another name, and give the package's name with `package`.
        let package =
            |name, item: &Item| item.get("package").and_then(|item| item.as_str()).unwrap_or(name) == "rayon-core";
        CRATES_IO.into_iter().find_map(|registry| {
            let entries = self.document.get("patch")?.get(registry)?.as_table_like()?;
            let (name, item) = entries.iter().find(|(name, item)| package(name, item))?;
            Some((registry, name, item))
        })
    }

    /// True if the patches are in an inline table. TOML does not allow a header to add an entry to such a table.
    fn has_inline_patches(&self) -> bool {
        let Some(patch) = self.document.get("patch") else { return false };
        let is_inline = |item: &Item| item.is_inline_table();
        is_inline(patch) || patch.get(CRATES_IO[0]).is_some_and(is_inline)
    }

    /// Returns the text after `change`. Restores the file's line ends and byte-order mark, which the parser does not
    /// keep. Fails if `change` would not be the only difference.
    fn edited(&self, change: impl FnOnce(&mut DocumentMut)) -> Result<String, Failure> {
        let shaped = |document: &DocumentMut| {
            let mut text = document.to_string();
            if !self.text.ends_with('\n') && text.ends_with('\n') {
                text.pop();
            }
            if self.text.contains("\r\n") {
                text = text.replace('\n', "\r\n");
            }
            if self.text.starts_with('\u{feff}') { format!("\u{feff}{text}") } else { text }
        };
        let mut document = self.document.clone();
        if shaped(&document) != self.text {
            return Err(Failure::Run(format!(
                "cannot edit '{}' without changing other lines, probably because it has different line ends. Make all \
                 line ends the same",
                self.path.display()
            )));
        }
        change(&mut document);
        Ok(shaped(&document))
    }
}

/// Makes the entry point to `source`. An existing entry keeps its form and its comments.
fn put(document: &mut DocumentMut, source: &Source) {
    let entry = &mut document["patch"][CRATES_IO[0]]["rayon-core"];
    if entry.is_none() {
        *entry = value(InlineTable::new());
    }
    let Some(entry) = entry.as_table_like_mut() else { return };
    let fields = source.fields();
    for key in PLACES.into_iter().filter(|key| !fields.iter().any(|(field, _)| field == key)) {
        entry.remove(key);
    }
    for (key, text) in fields {
        if entry.get(key).and_then(|item| item.as_str()) != Some(text) {
            entry.insert(key, value(text));
        }
    }
}

/// Removes the entry, and the braces around it if they are empty then.
fn take_out(document: &mut DocumentMut) {
    let Some(patch) = document.get_mut("patch").and_then(Item::as_table_like_mut) else { return };
    let Some(crates_io) = patch.get_mut(CRATES_IO[0]) else { return };
    if let Some(entries) = crates_io.as_table_like_mut() {
        entries.remove("rayon-core");
    }
    if crates_io.as_inline_table().is_some_and(InlineTable::is_empty) {
        patch.remove(CRATES_IO[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: &str = "[package]\nname = \"rayon-core\"\n[package.metadata.comity]\n";

    /// Returns a folder with a manifest, and with Comity's rayon-core in `core`.
    fn folder(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("core")).unwrap();
        fs::write(folder.path().join("core/Cargo.toml"), CORE).unwrap();
        fs::write(folder.path().join("Cargo.toml"), text).unwrap();
        folder
    }

    fn read(folder: &tempfile::TempDir) -> Manifest {
        Manifest::read(&folder.path().join("Cargo.toml")).unwrap()
    }

    fn at(path: &str) -> Source {
        Source::Folder { path: path.to_owned(), records: false }
    }

    /// Enables Comity in a project with `text` as its manifest, and returns the new manifest. Checks that all other
    /// text is unchanged, and that disabling restores `text`.
    #[track_caller]
    fn there_and_back(text: &str) -> String {
        let folder = folder(text);
        let path = folder.path().join("core").canonicalize().unwrap().to_str().unwrap().to_owned();
        let locked = ["rayon-core 1.12.1", "libgit2-sys 0.17.0+1.8.1"].map(|text| text.parse().unwrap());
        let enabled = read(&folder).with_entry(Some(&at(&path)), &locked).unwrap();
        read(&folder).write(None, &enabled).unwrap();
        let manifest = read(&folder);
        assert_eq!(manifest.entry(), Entry::Folder, "{enabled}");
        assert_eq!(manifest.locked().unwrap(), locked, "{enabled}");
        // A line with braces changes if the entry is in it.
        assert!(enabled.starts_with(text) || text.contains("= {"), "{enabled}");
        assert_eq!(manifest.without_entry().unwrap(), text, "{enabled}");
        // Another source replaces the entry, and the same source changes nothing.
        let moved = manifest.with_entry(Some(&at("/c")), &locked).unwrap();
        assert_eq!(moved, enabled.replace(&path, "/c"));
        assert_eq!(manifest.with_entry(Some(&at(&path)), &locked).unwrap(), enabled);
        assert_eq!(manifest.with_entry(None, &locked).unwrap(), enabled);
        enabled.replace(&path, "CORE")
    }

    #[test]
    fn an_edit_that_came_between_is_not_overwritten() {
        let folder = folder("[package]\nname = \"x\"\n");
        let path = folder.path().join("Cargo.toml");
        let manifest = Manifest::read(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        let Err(Failure::Run(sentence)) = manifest.write(None, "ours") else { panic!("it was overwritten") };
        assert!(sentence.contains("another program has changed '"), "{sentence}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn a_manifest_gets_a_table_at_its_end_and_loses_it_again() {
        let text = "[package]\nname = \"x\" # mine\n\n[dependencies]\nrayon = \"1\"\n";
        let added = "\n# Written by `comity rayon enable`; `comity rayon disable` takes it out.\n\
            # Cargo.lock had rayon-core 1.12.1, libgit2-sys 0.17.0+1.8.1.\n\
            [patch.crates-io.rayon-core]\npath = \"CORE\"\n";
        assert_eq!(there_and_back(text), format!("{text}{added}"));
    }

    #[test]
    fn every_way_to_write_patches_and_metadata_is_kept() {
        for text in [
            "[workspace]\nmembers = [\"a\"]\n\n# end\n",
            "[workspace.dependencies]\nrayon = \"1\"\n[package]\nname = \"x\"",
            "[patch.crates-io]\nfoo = { path = \"foo\" } # dear\n# baz = 1\n\n[package]\nname = \"x\"\n",
            "[patch.crates-io]\n[package]\nname = \"x\"\n",
            "[patch.crates-io.foo]\npath = \"foo\"\n[package]\nname = \"x\"\n",
            "[patch]\ncrates-io.foo.path = \"foo\"\n[package]\nname = \"x\"\n",
            "[patch]\n[package]\nname = \"x\"\n",
            "[patch.other]\nfoo.path = \"foo\"\n[package]\nname = \"x\"\n",
            "[patch]\ncrates-io = { foo = { path = \"foo\" } }\n[package]\nname = \"x\"\n",
            "patch = { crates-io = { foo = { path = \"foo\" } } }\n[package]\nname = \"x\"\n",
            "patch = { other = { foo = { path = \"foo\" } } }\n[package]\nname = \"x\"\n",
            "patch.crates-io.foo.path = \"foo\"\npackage.name = \"x\"\n",
            "patch.other.foo.path = \"foo\"\npackage.name = \"x\"\npackage.metadata.docs.all = true\n",
            "[package]\nname = \"x\"\nmetadata = { docs = { all = true } }\n",
            "[package]\nname = \"x\"\nmetadata.docs.all = true\n[dependencies]\n",
            "[package]\nname = \"x\"\n[package.metadata]\n[package.metadata.docs]\nall = true\n[[bin]]\nname = \"y\"\n",
            "package = { name = \"x\" }\n",
            "[package]\nname = \"x\"\n\n[package.metadata.comity]\nmine = true\n",
        ] {
            there_and_back(text);
        }
    }

    #[test]
    fn line_ends_and_the_byte_order_mark_stay() {
        for patches in ["", "[patch]\r\ncrates-io = { foo = { path = \"foo\" } }\r\n"] {
            there_and_back(&format!("\u{feff}[package]\r\nname = \"x\"\r\n{patches}"));
            there_and_back(&format!("{patches}[package]\r\nname = \"x\" # mine\r\n\r\n# end\r\n"));
            there_and_back(&format!("{patches}[package]\r\nname = \"x\"\r\n[dependencies]\r\nrayon = \"1\""));
        }
        let enabled = there_and_back("[package]\r\nname = \"x\"\r\n");
        assert_eq!(enabled.matches('\n').count(), enabled.matches("\r\n").count());
        there_and_back("[package]\r\nname = \"x\"\n");
        let mixed = folder("[package]\r\nname = \"x\"\n[patch]\ncrates-io = {}\n");
        let refused = read(&mixed).with_entry(Some(&at("/c")), &[]);
        assert!(matches!(refused, Err(Failure::Run(why)) if why.contains("line ends")));
    }

    #[test]
    fn what_others_put_around_the_entry_meanwhile_stays() {
        let text = "[package]\nname = \"x\"\n";
        let theirs = "\n[patch.crates-io]\nfoo = { path = \"foo\" } # dear\n\n[profile.dev]\ndebug = 1\n";
        let enabled = there_and_back(text).replace("CORE", "core");
        for gap in ["", "\n"] {
            // A tool may have removed the empty line.
            let folder = folder(&(enabled.replacen("\n\n#", "\n#", 1 - gap.len()) + theirs));
            assert_eq!(read(&folder).entry(), Entry::Folder);
            assert_eq!(read(&folder).without_entry().unwrap(), format!("{text}{theirs}"));
        }
    }

    #[test]
    fn an_entry_is_ours_by_its_folder_or_by_what_is_remembered() {
        let remembered = format!("{NOTE}\n");
        let foreign = |text: &str| Entry::Foreign(text.to_owned());
        for (rest, expected) in [
            ("", Entry::None),
            ("[patch.crates-io]\nfoo = { path = \"core\" }\n", Entry::None),
            ("[patch.crates-io]\nrayon-core = { path = \"core\" }\n", Entry::Folder),
            ("[patch.crates-io.rayon-core]\npath = \"core\"\n", Entry::Folder),
            ("[patch.crates-io]\nrayon-core = { path = \"gone\" }\n", foreign("rayon-core = { path = \"gone\" }")),
            ("[patch.crates-io]\nrayon-core = { git = \"u\" }\n", foreign("rayon-core = { git = \"u\" }")),
            (
                "[patch.crates-io]\nrc = { package = \"rayon-core\", path = \"core\" }\n",
                foreign("rc = { package = \"rayon-core\", path = \"core\" }"),
            ),
            (
                "[patch.\"https://github.com/rust-lang/crates.io-index\"]\nrayon-core = { path = \"core\" }\n",
                foreign("rayon-core = { path = \"core\" }"),
            ),
            ("[patch.crates-io.rayon-core]\ngit = \"u\"\n", foreign("rayon-core = { git = \"u\" }")),
            (&format!("[patch.crates-io]\nrayon-core = {{ path = \"gone\" }}\n{remembered}"), Entry::Folder),
            (&format!("[patch.crates-io]\nrayon-core = {{ git = \"u\" }}\n{remembered}"), Entry::Git),
            (
                &format!("[patch.crates-io]\nrayon-core = {{ path = \".\" }}\n{remembered}"),
                foreign("rayon-core = { path = \".\" }"),
            ),
        ] {
            assert_eq!(read(&folder(&format!("[package]\nname = \"x\"\n{rest}"))).entry(), expected, "{rest}");
        }
    }

    #[test]
    fn an_entry_that_is_there_changes_its_place_and_nothing_else() {
        let text = "[package]\nname = \"x\"\n[patch.crates-io]\nrayon-core = { path = \"core\" } # ours\n";
        let folder = folder(text);
        let git = Source::Git { url: "u".to_owned(), rev: Some("r".to_owned()) };
        let enabled = read(&folder).with_entry(Some(&git), &[]).unwrap();
        assert!(enabled.contains("rayon-core = { git = \"u\", rev = \"r\" } # ours\n"), "{enabled}");
        let moved = read(&folder).with_entry(Some(&at("/c")), &[]).unwrap();
        assert_eq!(moved, text.replace("core\" }", "/c\" }"));
    }
}
