//! The root manifest: its `[patch]` entry for rayon-core, and what `disable` needs to know later.
//!
//! Only the entry and the memory are edited. All other bytes stay; where that cannot be kept, nothing is written.

use std::cell::RefCell;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use comity_console::{Failure, output};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, TomlError, value};

use super::lock::Locked;
use super::source::{self, Found, Source};

/// The name that `[patch]` has for crates.io, and the addresses that it may go by as well.
const CRATES_IO: [&str; 3] =
    ["crates-io", "https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/"];

/// Which keys of an entry say where the package is.
const PLACES: [&str; 6] = ["path", "git", "rev", "branch", "tag", "version"];

/// A manifest as it was read.
#[derive(Debug)]
pub struct Manifest {
    path: PathBuf,
    text: String,
    document: DocumentMut,
    /// What this command has read or written there last.
    left: RefCell<String>,
}

/// Which package the patch of rayon-core names.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// None: there is no such patch.
    None,
    /// Comity, at a path.
    Folder,
    /// Comity, from a repository.
    Git,
    /// Another's, with the entry as it stands there.
    Foreign(String),
}

/// What `enable` leaves behind for `disable`, under [`MEMORY`] in a table `metadata`, which cargo keeps out of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What the lock file held before and not after; `None` where there was no lock file.
    pub locked: Option<Vec<Locked>>,
    /// Whether the table that holds the entry was made for it.
    pub made_table: bool,
}

impl Manifest {
    /// Reads and understands it.
    pub fn read(path: &Path) -> Result<Manifest, Failure> {
        let refuse =
            |why: &dyn Display| Failure::Run(format!("cannot read '{}': {why}; nothing was changed", path.display()));
        // The file that a link points to is written, not the link.
        let path = fs::canonicalize(path).map_err(|error| refuse(&error))?;
        let text = fs::read_to_string(&path).map_err(|error| refuse(&error))?;
        let document: DocumentMut = Shape::of(&text).take_off(&text).parse().map_err(|error| refuse(&error))?;
        let left = RefCell::new(text.clone());
        Ok(Manifest { path, text, document, left })
    }

    /// The same manifest with another text.
    pub fn with_text(&self, text: &str) -> Result<Manifest, Failure> {
        let refuse = |why: TomlError| Failure::Run(format!("an earlier '{}' is no TOML: {why}", self.path.display()));
        let document: DocumentMut = Shape::of(text).take_off(text).parse().map_err(refuse)?;
        Ok(Manifest { path: self.path.clone(), text: text.to_owned(), document, left: RefCell::new(text.to_owned()) })
    }

    /// Which package the patch of rayon-core names here.
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
            (Some(Found::Comity { .. }), _) => Entry::Folder,
            // A checkout that has gone and a repository show no mark.
            (Some(Found::Nothing), _) if self.memory().is_some() => Entry::Folder,
            (None, Some(_)) if self.memory().is_some() => Entry::Git,
            _ => foreign(),
        }
    }

    /// Returns the address of the repository that the patch of rayon-core names, if it names one.
    pub fn repository(&self) -> Option<&str> {
        self.core_patch()?.2.get("git")?.as_str()
    }

    /// Returns the folder that the patch of rayon-core names, if it names one that is no longer there.
    pub fn lost_folder(&self) -> Option<&str> {
        let path = self.core_patch()?.2.get("path")?.as_str()?;
        (source::inspect(&self.folder().join(path)) == Found::Nothing).then_some(path)
    }

    /// What an earlier `enable` left behind.
    pub fn memory(&self) -> Option<Memory> {
        let comity = HOLDERS.iter().find_map(|holder| self.document.get(holder)?.get("metadata")?.get(MEMORY))?;
        let locked = comity.get("locked").and_then(|item| item.as_array()).map(|locked| {
            // What is not understood is not brought back; cargo then chooses.
            locked.iter().filter_map(|text| text.as_str()?.parse().ok()).collect()
        });
        let made_table = comity.get("made-table").and_then(|item| item.as_bool()).unwrap_or(false);
        Some(Memory { locked, made_table })
    }

    /// Its text with the entry pointing to `source` (or where it points already), and with `memory` if there is
    /// anything to remember.
    pub fn with_entry(&self, source: Option<&Source>, memory: Option<&Memory>) -> Result<String, Failure> {
        let mut document = self.document.clone();
        if let Some(source) = source {
            let entry = table_in(document.as_item_mut(), "patch", true)
                .and_then(|patch| table_in(patch, CRATES_IO[0], false))
                .and_then(|crates_io| entry_in(crates_io, source));
            entry.ok_or_else(|| self.no_table("patch.crates-io"))?;
        }
        if let Some(memory) = memory
            && self.memory().as_ref() != Some(memory)
        {
            forget(&mut document);
            let holder = HOLDERS.into_iter().find(|holder| document.contains_key(holder)).unwrap_or(HOLDERS[0]);
            let remembered = table_in(document.as_item_mut(), holder, false)
                .and_then(|holder| table_in(holder, "metadata", true))
                .and_then(|metadata| remember(metadata, memory));
            remembered.ok_or_else(|| self.no_table("metadata"))?;
        }
        self.faithful(&document)
    }

    /// Its text without the entry, and without tables that held nothing else and were made for it; with `keep_memory`
    /// still with the memory.
    pub fn without_entry(&self, keep_memory: bool) -> Result<String, Failure> {
        let mut document = self.document.clone();
        let memory = self.memory().unwrap_or_default();
        if let Some(patch) = document.get_mut("patch") {
            if let Some(crates_io) = patch.get_mut(CRATES_IO[0]).and_then(|item| item.as_table_like_mut())
                && self.entry() != Entry::None
            {
                crates_io.remove("rayon-core");
            }
            if memory.made_table {
                take_back(patch, CRATES_IO[0]);
            }
        }
        drop_if_hidden(document.as_item_mut(), "patch");
        if !keep_memory {
            forget(&mut document);
        }
        self.faithful(&document)
    }

    /// Whether the table for the entry has a header of its own already.
    pub fn has_table(&self) -> bool {
        let crates_io = self.document.get("patch").and_then(|patch| patch.get(CRATES_IO[0]));
        crates_io.is_some_and(|item| !item.as_table().is_some_and(Table::is_implicit))
    }

    /// Replaces the file, unless another program has changed it meanwhile.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        if !self.is_as_left() {
            return Err(Failure::Run(format!(
                "'{}' was changed while this command worked on it; nothing of that was lost, so try again",
                self.path.display()
            )));
        }
        output::replace(&self.path, text.as_bytes())
            // Only the kind: the rest names a temporary file, which would mislead.
            .map_err(|error| Failure::Run(format!("cannot write '{}': {}", self.path.display(), error.kind())))?;
        self.left.replace(text.to_owned());
        Ok(())
    }

    /// Whether the file is as this command has read or written it last.
    pub fn is_as_left(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|now| now == *self.left.borrow())
    }

    /// As it was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The registry, the key and the entry of the patch of rayon-core.
    fn core_patch(&self) -> Option<(&str, &str, &Item)> {
        self.patches().find(|(_, name, item)| package(name, item) == "rayon-core")
    }

    fn patches(&self) -> impl Iterator<Item = (&str, &str, &Item)> {
        CRATES_IO.into_iter().flat_map(|registry| {
            let entries = self.document.get("patch").and_then(|patch| patch.get(registry)?.as_table_like());
            entries.into_iter().flat_map(TableLike::iter).map(move |(name, item)| (registry, name, item))
        })
    }

    fn no_table(&self, name: &str) -> Failure {
        Failure::Run(format!("'{}': {name} is no table, so nothing can be put into it", self.path.display()))
    }

    /// The edited text in the file's own shape.
    fn faithful(&self, document: &DocumentMut) -> Result<String, Failure> {
        let shape = Shape::of(&self.text);
        if shape.put_on(&self.document.to_string()) != self.text {
            return Err(Failure::Run(format!(
                "'{}' cannot be edited without changing other lines, probably because its line ends are not all alike; \
                 make them alike first",
                self.path.display()
            )));
        }
        Ok(shape.put_on(&document.to_string()))
    }
}

/// Which tables may hold `metadata`, the preferred one first.
const HOLDERS: [&str; 2] = ["workspace", "package"];

/// The memory's name. `metadata.comity` may be the user's own.
const MEMORY: &str = "comity-rayon";

const NOTE: &str = "\n# Written by `comity rayon enable`; `comity rayon disable` takes it out.\n";

/// An entry may have a name of its own and say with `package` what it stands for.
fn package<'a>(name: &'a str, item: &'a Item) -> &'a str {
    item.get("package").and_then(|item| item.as_str()).unwrap_or(name)
}

/// Whether tables within `item` can have headers.
fn has_headers(item: &Item) -> bool {
    item.as_table().is_some_and(|table| !table.is_dotted())
}

/// The table `key` of `parent`, made in the parent's own style where there is none: a header under headers, a
/// dotted key beside dotted keys. A hidden one shows only in the names of what is in it. `None` if something else
/// has that name.
fn table_in<'a>(parent: &'a mut Item, key: &str, hidden: bool) -> Option<&'a mut Item> {
    if parent.get(key).is_none() {
        let mut table = Table::new();
        table.set_implicit(hidden);
        let mut braces = InlineTable::new();
        braces.set_dotted(hidden);
        let item = match parent {
            Item::Table(parent) if !parent.is_dotted() => Item::Table(table),
            Item::Table(_) if hidden => {
                table.set_dotted(true);
                Item::Table(table)
            }
            _ => value(braces),
        };
        parent.as_table_like_mut()?.insert(key, item);
    }
    parent.get_mut(key).filter(|item| item.is_table_like())
}

/// An entry that is there keeps its form and its comments.
fn entry_in(crates_io: &mut Item, source: &Source) -> Option<()> {
    let crates_io = crates_io.as_table_like_mut()?;
    if !crates_io.contains_key("rayon-core") {
        crates_io.insert("rayon-core", value(InlineTable::new()));
    }
    let entry = crates_io.get_mut("rayon-core")?.as_table_like_mut()?;
    let fields = source.fields();
    for key in PLACES.into_iter().filter(|key| !fields.iter().any(|(field, _)| field == key)) {
        entry.remove(key);
    }
    for (key, text) in fields {
        if entry.get(key).and_then(|item| item.as_str()) != Some(text) {
            entry.insert(key, value(text));
        }
    }
    Some(())
}

fn remember(metadata: &mut Item, memory: &Memory) -> Option<()> {
    let headers = has_headers(metadata);
    let mut table = Table::new();
    table.decor_mut().set_prefix(NOTE);
    if let Some(locked) = &memory.locked {
        table.insert("locked", value(locked.iter().map(ToString::to_string).collect::<Array>()));
    }
    if memory.made_table {
        table.insert("made-table", value(true));
    }
    let item = if headers { Item::Table(table) } else { value(table.into_inline_table()) };
    metadata.as_table_like_mut()?.insert(MEMORY, item);
    Some(())
}

fn forget(document: &mut DocumentMut) {
    for holder in HOLDERS {
        let Some(holder) = document.get_mut(holder) else { continue };
        if let Some(metadata) = holder.get_mut("metadata").and_then(|item| item.as_table_like_mut()) {
            metadata.remove(MEMORY);
        }
        drop_if_hidden(holder, "metadata");
    }
}

/// Without a hidden table that is empty, the text is what it was before the table.
fn drop_if_hidden(parent: &mut Item, key: &str) {
    let hidden = |item: &Item| match item {
        Item::Table(table) => table.is_empty() && (table.is_implicit() || table.is_dotted()),
        item => item.as_inline_table().is_some_and(|table| table.is_empty() && table.is_dotted()),
    };
    if parent.get(key).is_some_and(hidden) {
        parent.as_table_like_mut().and_then(|parent| parent.remove(key));
    }
}

/// Takes back a table that was made for the entry: what others have put there meanwhile stays.
fn take_back(parent: &mut Item, key: &str) {
    let Some(table) = parent.get_mut(key) else { return };
    if table.as_table_like().is_some_and(TableLike::is_empty) {
        parent.as_table_like_mut().and_then(|parent| parent.remove(key));
    } else if let Some(table) = table.as_table_mut() {
        // The header shows all the same while there are entries under it.
        table.set_implicit(true);
    }
}

/// What the parser does not keep of a text.
#[derive(Clone, Copy, Debug)]
struct Shape {
    byte_order_mark: bool,
    carriage_returns: bool,
    ends_its_last_line: bool,
}

impl Shape {
    fn of(text: &str) -> Shape {
        let lines = text.matches('\n').count();
        Shape {
            byte_order_mark: text.starts_with('\u{feff}'),
            carriage_returns: lines > 0 && text.matches("\r\n").count() == lines,
            ends_its_last_line: text.ends_with('\n'),
        }
    }

    fn take_off(self, text: &str) -> String {
        let text = text.trim_start_matches('\u{feff}');
        if self.carriage_returns { text.replace("\r\n", "\n") } else { text.to_owned() }
    }

    fn put_on(self, text: &str) -> String {
        let text = if self.ends_its_last_line { text } else { text.strip_suffix('\n').unwrap_or(text) };
        let text = if self.carriage_returns { text.replace('\n', "\r\n") } else { text.to_owned() };
        if self.byte_order_mark { format!("\u{feff}{text}") } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: &str = "[package]\nname = \"rayon-core\"\n[package.metadata.comity]\n";

    /// A folder with a manifest, and Comity's rayon-core in `core`.
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

    fn memory(manifest: &Manifest) -> Memory {
        Memory { locked: Some(vec!["rayon-core 1.12.1".parse().unwrap()]), made_table: !manifest.has_table() }
    }

    /// Enables in a project with `text` as its manifest and returns the new one; checks that all else stands there
    /// as it did, and that disabling brings `text` back.
    #[track_caller]
    fn there_and_back(text: &str) -> String {
        let folder = folder(text);
        let path = folder.path().join("core").canonicalize().unwrap().to_str().unwrap().to_owned();
        let manifest = read(&folder);
        let memory = memory(&manifest);
        let enabled =
            manifest.with_entry(Some(&Source::Folder { path: path.clone(), records: false }), Some(&memory)).unwrap();
        manifest.write(&enabled).unwrap();
        let manifest = read(&folder);
        assert_eq!(manifest.entry(), Entry::Folder, "{enabled}");
        assert_eq!(manifest.memory(), Some(memory), "{enabled}");
        let before: Vec<&str> = text.split_inclusive('\n').collect();
        let mut left = enabled.split_inclusive('\n');
        let kept = before.iter().all(|line| left.any(|other| other == *line));
        // What is on one line with the entry changes that line.
        assert!(kept || text.contains("= {") || !text.ends_with('\n'), "{enabled}");
        assert_eq!(manifest.without_entry(false).unwrap(), text, "{enabled}");
        enabled.replace(&path, "CORE")
    }

    #[test]
    fn an_edit_that_came_between_is_not_overwritten() {
        let folder = folder("[package]\nname = \"x\"\n");
        let path = folder.path().join("Cargo.toml");
        let manifest = Manifest::read(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        let Err(Failure::Run(sentence)) = manifest.write("ours") else { panic!("it was overwritten") };
        assert!(sentence.contains("was changed while this command worked on it"), "{sentence}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn a_manifest_without_patches_gets_two_tables_and_loses_them_again() {
        let text = "[package]\nname = \"x\" # mine\n\n[dependencies]\nrayon = \"1\"\n";
        let enabled = "[package]\nname = \"x\" # mine\n\n\
            # Written by `comity rayon enable`; `comity rayon disable` takes it out.\n\
            [package.metadata.comity-rayon]\nlocked = [\"rayon-core 1.12.1\"]\nmade-table = true\n\n\
            [dependencies]\nrayon = \"1\"\n\n[patch.crates-io]\nrayon-core = { path = \"CORE\" }\n";
        assert_eq!(there_and_back(text), enabled);
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
        there_and_back("\u{feff}[package]\nname = \"x\"\n");
        there_and_back("[package]\r\nname = \"x\" # mine\r\n\r\n# end\r\n");
        there_and_back("[package]\r\nname = \"x\"\r\n[dependencies]\r\nrayon = \"1\"");
        let mixed = folder("[package]\r\nname = \"x\"\n");
        let manifest = read(&mixed);
        let refused = manifest.with_entry(Some(&Source::Folder { path: "/c".to_owned(), records: false }), None);
        assert!(matches!(refused, Err(Failure::Run(why)) if why.contains("line ends")));
    }

    #[test]
    fn what_others_put_beside_the_entry_meanwhile_stays() {
        let folder = folder("[package]\nname = \"x\"\n");
        let manifest = read(&folder);
        let source = Source::Folder { path: folder.path().join("core").to_str().unwrap().to_owned(), records: false };
        let enabled = manifest.with_entry(Some(&source), Some(&memory(&manifest))).unwrap();
        manifest.write(&format!("{enabled}foo = {{ path = \"foo\" }} # dear\n\n[profile.dev]\ndebug = 1\n")).unwrap();
        let text = "[package]\nname = \"x\"\n\n[patch.crates-io]\nfoo = { path = \"foo\" } # dear\n\n[profile.dev]\ndebug = 1\n";
        assert_eq!(read(&folder).without_entry(false).unwrap(), text);
    }

    #[test]
    fn an_entry_is_ours_by_its_folder_or_by_what_is_remembered() {
        let remembered = "[package.metadata.comity-rayon]\n";
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
        let enabled = read(&folder).with_entry(Some(&git), None).unwrap();
        assert!(enabled.contains("rayon-core = { git = \"u\", rev = \"r\" } # ours\n"), "{enabled}");
        let moved =
            read(&folder).with_entry(Some(&Source::Folder { path: "/c".to_owned(), records: false }), None).unwrap();
        assert!(moved.contains("rayon-core = { path = \"/c\" } # ours\n"), "{moved}");
    }
}
