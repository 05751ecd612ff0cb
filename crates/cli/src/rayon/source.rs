//! Where Comity's rayon-core is: a folder, or a repository that cargo fetches it from.

use std::fs;
use std::path::{Path, PathBuf};

use comity_console::Failure;
use toml_edit::DocumentMut;

/// Where this command was built from. It need not be there any more.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rayon-core");

/// What a `[patch]` entry points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An absolute path, because a manifest's relative ones break when it moves.
    Folder(String),
    /// A repository; cargo finds the package in it.
    Git {
        /// As cargo takes it.
        url: String,
        /// A commit, branch or tag; otherwise the default branch.
        rev: Option<String>,
    },
}

impl Source {
    /// The keys of the entry, with their values.
    pub fn fields(&self) -> Vec<(&'static str, &str)> {
        match self {
            Source::Folder(path) => vec![("path", path)],
            Source::Git { url, rev } => {
                [Some(("git", url.as_str())), rev.as_deref().map(|rev| ("rev", rev))].into_iter().flatten().collect()
            }
        }
    }

    /// The rayon-core beside the sources of this command.
    pub fn built_in() -> Result<Source, Failure> {
        Source::beside_the_command(Path::new(BUILT_FROM))
    }

    fn beside_the_command(folder: &Path) -> Result<Source, Failure> {
        match inspect(folder) {
            Found::Comity => absolute(folder),
            Found::Nothing | Found::Other(_) => Err(Failure::Usage(format!(
                "'{}', where this command was built from, has no rayon-core of Comity's any more; name a folder that has \
                 it with --source DIR, or a repository with --git URL",
                folder.display()
            ))),
        }
    }

    /// The rayon-core in a folder that somebody named.
    pub fn in_folder(folder: &Path) -> Result<Source, Failure> {
        let why = match inspect(folder) {
            Found::Comity => return absolute(folder),
            Found::Nothing => "has no Cargo.toml".to_owned(),
            Found::Other(what) => what,
        };
        Err(Failure::Usage(format!(
            "--source '{}' {why}; name Comity's crates/rayon-core, whose Cargo.toml has [package.metadata.comity]",
            folder.display()
        )))
    }
}

fn absolute(folder: &Path) -> Result<Source, Failure> {
    let refuse = |why: &dyn std::fmt::Display| Failure::Usage(format!("cannot use '{}': {why}", folder.display()));
    let path: PathBuf = fs::canonicalize(folder).map_err(|error| refuse(&error))?;
    let path = path.into_os_string().into_string();
    path.map(Source::Folder).map_err(|_| refuse(&"its path is not UTF-8, which a Cargo.toml must be"))
}

/// What a folder turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Comity's rayon-core.
    Comity,
    /// Something else; the words go on from its name.
    Other(String),
    /// No folder with a manifest.
    Nothing,
}

/// Looks at a folder's manifest. The mark counts, not the place: checkouts move.
pub fn inspect(folder: &Path) -> Found {
    let Ok(text) = fs::read_to_string(folder.join("Cargo.toml")) else { return Found::Nothing };
    let Ok(manifest) = text.parse::<DocumentMut>() else {
        return Found::Other("has a Cargo.toml that is no TOML".to_owned());
    };
    let package = manifest.get("package");
    let name = package.and_then(|package| package.get("name")).and_then(|name| name.as_str()).unwrap_or("no package");
    let marked = package.and_then(|package| package.get("metadata")).is_some_and(|data| data.get("comity").is_some());
    match (name, marked) {
        ("rayon-core", true) => Found::Comity,
        ("rayon-core", false) => Found::Other("has a rayon-core that is not Comity's".to_owned()),
        (name, _) => Found::Other(format!("has {name}, not rayon-core")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(manifest: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
        folder
    }

    #[test]
    fn only_a_marked_rayon_core_is_ours() {
        for (manifest, part) in [
            ("[package]\nname = \"rayon-core\"\n", "not Comity's"),
            ("[package]\nname = \"mine\"\n[package.metadata.comity]\n", "has mine, not rayon-core"),
            ("[workspace]\n", "has no package"),
            ("[package\n", "no TOML"),
        ] {
            let folder = folder(manifest);
            let Err(Failure::Usage(why)) = Source::in_folder(folder.path()) else { panic!("{manifest}") };
            assert!(why.contains(part) && why.contains("crates/rayon-core"), "{why}");
        }
        let ours = folder("[package]\nname = \"rayon-core\"\n[package.metadata.comity]\n");
        assert!(matches!(Source::in_folder(ours.path()), Ok(Source::Folder(path)) if path.starts_with('/')));
    }

    #[test]
    fn a_checkout_that_is_gone_is_said_with_the_way_out() {
        assert!(Source::built_in().is_ok());
        let Err(Failure::Usage(why)) = Source::beside_the_command(Path::new("/no/such/rayon-core")) else { panic!() };
        assert!(why.contains("'/no/such/rayon-core'") && why.contains("--source DIR"), "{why}");
    }
}
