//! The place of Comity's rayon-core: a folder, or a repository from which cargo fetches it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use comity_console::Failure;
use toml_edit::DocumentMut;

/// The path of the installed sources, relative to the folder of the executable.
const INSTALLED: &str = "../share/comity/crates/rayon-core";

/// The folder of rayon-core in the sources from which this command was built. The folder may no longer exist.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rayon-core");

/// The folder of the recording variant, relative to Comity's rayon-core.
const RECORDING: &str = "recording";

/// The target of a `[patch]` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of this machine.
    Folder {
        /// The path of the folder. It is absolute, because relative paths of a manifest break when the manifest
        /// moves.
        path: String,
        /// True if programs that are built with this rayon-core record task graphs.
        records: bool,
    },
    /// A repository, in which cargo finds the package.
    Git {
        /// The address, in the form that cargo accepts.
        url: String,
        /// A commit, branch or tag. `None` means the default branch.
        rev: Option<String>,
    },
}

impl Source {
    /// Returns the keys of the entry, with their values.
    pub fn fields(&self) -> Vec<(&'static str, &str)> {
        match self {
            Source::Folder { path, .. } => vec![("path", path)],
            Source::Git { url, rev } => {
                [Some(("git", url.as_str())), rev.as_deref().map(|rev| ("rev", rev))].into_iter().flatten().collect()
            }
        }
    }

    /// True if programs that are built with this rayon-core record task graphs.
    pub fn records(&self) -> bool {
        matches!(self, Source::Folder { records: true, .. })
    }

    /// Returns the rayon-core that was installed with this command, else the rayon-core in the sources from which
    /// this command was built. With `records`, returns the recording variant.
    pub fn built_in(records: bool) -> Result<Source, Failure> {
        let command = env::current_exe().ok();
        let installed = command.and_then(|command| Some(command.parent()?.join(INSTALLED)));
        Source::of_the_command(installed.as_deref(), Path::new(BUILT_FROM), records)
    }

    fn of_the_command(installed: Option<&Path>, built_from: &Path, records: bool) -> Result<Source, Failure> {
        let installed = installed.filter(|folder| matches!(inspect(folder), FolderContent::Comity { .. }));
        let folder = installed.unwrap_or(built_from);
        let folder = &if records { folder.join(RECORDING) } else { folder.to_owned() };
        match inspect(folder) {
            FolderContent::Comity { records: found } if found == records => absolute(folder, records),
            FolderContent::Comity { .. } | FolderContent::Nothing | FolderContent::Other(_) => {
                Err(Failure::Usage(format!(
                    "cannot find Comity's rayon-core in '{}', and it was not installed with this command. Give its folder \
                 with --source DIR{}",
                    folder.display(),
                    if records { "" } else { ", or a repository with --git URL" }
                )))
            }
        }
    }

    /// Returns the rayon-core in a folder that the user named. With `records`, returns the recording variant in the
    /// folder.
    pub fn in_folder(folder: &Path, records: bool) -> Result<Source, Failure> {
        let why = match inspect(folder) {
            FolderContent::Comity { records: found } if found || !records => return absolute(folder, found),
            FolderContent::Comity { .. } => match inspect(&folder.join(RECORDING)) {
                FolderContent::Comity { records: true } => return absolute(&folder.join(RECORDING), true),
                _ => format!("has no recording rayon-core in '{RECORDING}'"),
            },
            FolderContent::Nothing => "has no Cargo.toml".to_owned(),
            FolderContent::Other(what) => what,
        };
        Err(Failure::Usage(format!(
            "--source '{}' {why}. Give Comity's crates/rayon-core; its Cargo.toml has [package.metadata.comity]",
            folder.display()
        )))
    }
}

fn absolute(folder: &Path, records: bool) -> Result<Source, Failure> {
    let refuse = |why: &dyn std::fmt::Display| Failure::Usage(format!("cannot use '{}': {why}", folder.display()));
    let path: PathBuf = fs::canonicalize(folder).map_err(|error| refuse(&error))?;
    let path = path.into_os_string().into_string();
    path.map(|path| Source::Folder { path, records })
        .map_err(|_| refuse(&"its path is not UTF-8, so a Cargo.toml cannot name it"))
}

/// The content of a folder.
#[derive(Debug, PartialEq, Eq)]
pub enum FolderContent {
    /// Comity's rayon-core.
    Comity {
        /// True if it is the recording variant.
        records: bool,
    },
    /// Something else. The text is the rest of a sentence that begins with the folder's name.
    Other(String),
    /// There is no folder with a manifest.
    Nothing,
}

/// Returns the content of a folder, according to its manifest. A mark in the manifest identifies Comity's rayon-core.
/// The folder's path is not compared, because users move checkouts.
pub fn inspect(folder: &Path) -> FolderContent {
    let Ok(text) = fs::read_to_string(folder.join("Cargo.toml")) else { return FolderContent::Nothing };
    let Ok(manifest) = text.parse::<DocumentMut>() else {
        return FolderContent::Other("has a Cargo.toml that is not TOML".to_owned());
    };
    let package = manifest.get("package");
    let name = package.and_then(|package| package.get("name")).and_then(|name| name.as_str()).unwrap_or("no package");
    let mark = package.and_then(|package| package.get("metadata")).and_then(|data| data.get("comity"));
    let records = mark.and_then(|mark| mark.get("records")?.as_bool()).unwrap_or(false);
    match (name, mark) {
        ("rayon-core", Some(_)) => FolderContent::Comity { records },
        ("rayon-core", None) => FolderContent::Other("has a rayon-core that is not Comity's".to_owned()),
        (name, _) => FolderContent::Other(format!("has {name}, not rayon-core")),
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
            ("[package\n", "not TOML"),
        ] {
            let folder = folder(manifest);
            let Err(Failure::Usage(why)) = Source::in_folder(folder.path(), false) else { panic!("{manifest}") };
            assert!(why.contains(part) && why.contains("crates/rayon-core"), "{why}");
        }
        let ours = folder("[package]\nname = \"rayon-core\"\n[package.metadata.comity]\n");
        let found = Source::in_folder(ours.path(), false);
        assert!(matches!(found, Ok(Source::Folder { path, records: false }) if path.starts_with('/')));
        let Err(Failure::Usage(why)) = Source::in_folder(ours.path(), true) else { panic!() };
        assert!(why.contains("has no recording rayon-core in 'recording'"), "{why}");
    }

    #[test]
    fn a_checkout_that_is_gone_is_said_with_the_way_out() {
        assert!(!Source::built_in(false).unwrap().records() && Source::built_in(true).unwrap().records());
        let gone = Path::new("/no/such/rayon-core");
        let Err(Failure::Usage(why)) = Source::of_the_command(Some(gone), gone, false) else { panic!() };
        assert!(why.contains("'/no/such/rayon-core'") && why.contains("--source DIR"), "{why}");
    }

    #[test]
    fn what_was_installed_with_the_command_is_taken_first() {
        let installed = folder("[package]\nname = \"rayon-core\"\n[package.metadata.comity]\n");
        let found = |installed| Source::of_the_command(Some(installed), Path::new(BUILT_FROM), false).unwrap();
        assert_eq!(found(installed.path()), absolute(installed.path(), false).unwrap());
        let other = folder("[package]\nname = \"rayon-core\"\n");
        assert_eq!(found(other.path()), absolute(Path::new(BUILT_FROM), false).unwrap());
    }
}
