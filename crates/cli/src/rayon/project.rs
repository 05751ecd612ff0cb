//! A cargo project: the paths of its root manifest and its lock file, and cargo's answers about it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::MetadataCommand;
use cargo_metadata::semver::Version;
use comity_console::{Failure, loudness};
use comity_os::process::die_with_this_thread;

use super::tree::Tree;

/// The workspace that a path belongs to. A package outside of a workspace is a workspace of its own.
#[derive(Debug)]
pub struct Project {
    /// The folder in which cargo runs. It determines the toolchain and `.cargo/config.toml`.
    folder: PathBuf,
    /// The root manifest. Cargo ignores `[patch]` in all other manifests.
    root: PathBuf,
}

impl Project {
    /// Finds the project. Without a path, cargo searches upwards from the current folder as usual. A path must name
    /// the project itself, so that a typing error does not select a project above it.
    pub fn find(path: Option<&Path>) -> Result<Project, Failure> {
        let folder = match path {
            None => current_folder()?,
            Some(path) => folder_of(path)?,
        };
        let found = cargo_in(&folder, &["locate-project", "--workspace", "--message-format", "plain"])?;
        let root = found.strip_suffix(b"\n").unwrap_or(&found).to_vec();
        Ok(Project { folder, root: PathBuf::from(OsString::from_vec(root)) })
    }

    /// Returns the workspace's root manifest.
    pub fn manifest(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of the root manifest.
    pub fn root(&self) -> &Path {
        self.root.parent().unwrap_or(Path::new("/"))
    }

    /// Returns the path of the lock file, which may not exist.
    pub fn lock(&self) -> PathBuf {
        self.root.with_file_name("Cargo.lock")
    }

    /// Runs cargo in the project's folder and returns its output.
    pub fn cargo(&self, words: &[&str]) -> Result<Vec<u8>, Failure> {
        cargo_in(&self.folder, words).map_err(|failure| match self.elsewhere() {
            Some(sentence) => Failure::Run(format!("{}\n{sentence}", failure.into_sentence())),
            None => failure,
        })
    }

    /// Returns a hint that explains a failure of cargo, if cargo's configuration replaces crates.io by another source.
    pub fn elsewhere(&self) -> Option<String> {
        let config = self.replaced_sources()?;
        Some(format!(
            "'{}' replaces crates.io by another source. The packages that Comity needs must be \
             there, too: vendor them",
            config.display()
        ))
    }

    /// Checks that the toolchain of the folder is new enough for Comity.
    pub fn check_toolchain(&self) -> Result<(), Failure> {
        let printed = cargo_in(&self.folder, &["--version"])?;
        let said = String::from_utf8_lossy(&printed);
        let needed = env!("CARGO_PKG_RUST_VERSION");
        let release = |text: &str| Version::parse(text).ok().map(|version| (version.major, version.minor));
        let found = said.split(' ').nth(1).and_then(|text| release(text.trim()));
        // A cargo with an unknown version is accepted.
        if found.is_some_and(|found| Some(found) < release(&format!("{needed}.0"))) {
            return Err(Failure::Run(format!(
                "'{}' is built with {}, but Comity needs Rust {needed} or later. Look for a rust-toolchain file \
                 (nothing was changed)",
                self.root.display(),
                said.trim()
            )));
        }
        Ok(())
    }

    /// Returns the file of cargo's configuration that replaces the source of packages, if there is one.
    fn replaced_sources(&self) -> Option<PathBuf> {
        let folder = fs::canonicalize(&self.folder).ok()?;
        let configurations =
            folder.ancestors().flat_map(|above| ["config.toml", "config"].map(|name| above.join(".cargo").join(name)));
        let replaces = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains("replace-with"));
        configurations.into_iter().find(replaces)
    }

    /// Returns the packages that the project links. Cargo may write the lock file, as it does before a build.
    pub fn tree(&self) -> Result<Tree, Failure> {
        self.metadata(&[])
    }

    /// Returns the packages that the project would link now. Fails if the lock file is not up to date, so cargo
    /// writes no file.
    pub fn look_locked(&self) -> Result<Tree, Failure> {
        self.metadata(&["--locked"])
    }

    /// Returns the packages with all features, because a lock file and a `[patch]` do not depend on features, and
    /// because a feature may enable the dependency on rayon.
    fn metadata(&self, extra: &[&str]) -> Result<Tree, Failure> {
        let words = [&["metadata", "--format-version", "1", "--all-features"], extra].concat();
        let printed = String::from_utf8_lossy(&self.cargo(&words)?).into_owned();
        match MetadataCommand::parse(&printed) {
            Ok(metadata) => Ok(Tree::new(&metadata)),
            Err(error) => Err(Failure::Run(format!("cannot read the output of `cargo metadata`: {error}"))),
        }
    }
}

fn current_folder() -> Result<PathBuf, Failure> {
    let folder =
        env::current_dir().map_err(|error| Failure::Usage(format!("cannot find the current folder: {error}")))?;
    if folder.ancestors().any(|above| above.join("Cargo.toml").exists()) {
        return Ok(folder);
    }
    let folder = folder.display();
    Err(Failure::Usage(format!(
        "neither '{folder}' nor a folder above it has a Cargo.toml. Give the folder of a cargo project"
    )))
}

fn folder_of(path: &Path) -> Result<PathBuf, Failure> {
    let is_manifest = path.file_name().is_some_and(|name| name == "Cargo.toml");
    let folder = if is_manifest && !path.is_dir() { path.parent().unwrap_or(path) } else { path };
    // The parent of a path without a slash is the empty path.
    let folder = if folder == Path::new("") { Path::new(".") } else { folder };
    let why = match path.try_exists() {
        Err(error) => format!("cannot be read: {error}"),
        Ok(false) => "does not exist".to_owned(),
        Ok(true) if !folder.is_dir() => "is not a Cargo.toml".to_owned(),
        Ok(true) => match folder.join("Cargo.toml").try_exists() {
            Ok(true) => return Ok(folder.to_owned()),
            Ok(false) => "has no Cargo.toml".to_owned(),
            Err(error) => format!("has a Cargo.toml that cannot be read: {error}"),
        },
    };
    let path = path.display();
    Err(Failure::Usage(format!("'{path}' {why}. Give the folder of a cargo project, or its Cargo.toml")))
}

fn cargo_in(folder: &Path, words: &[&str]) -> Result<Vec<u8>, Failure> {
    #[expect(clippy::disallowed_methods, reason = "it is cargo's variable")]
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    command.args(["--color", "never"]).args(words).current_dir(folder);
    if rustix::stdio::stderr().is_terminal() || loudness::is_verbose() {
        loudness::hint(format!("comity: runs `cargo {}` in '{}'", words.join(" "), folder.display()));
    }
    // Cargo must not continue after this command is killed, because it would run together with the next command.
    let output = die_with_this_thread(&mut command).output();
    let output = output.map_err(|error| {
        let cargo = cargo.display();
        Failure::Run(format!("cannot start '{cargo}': {error}. Install Rust, or set CARGO to the path of cargo"))
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = words.join(" ");
    Err(Failure::Run(format!("`cargo {line}` failed in '{}':\n{}", folder.display(), complaint(&said))))
}

/// Returns the error in cargo's output without the progress before it. The error is indented, to set it apart from
/// the text around it.
fn complaint(said: &str) -> String {
    let from = said.lines().position(|line| line.starts_with("error")).unwrap_or(0);
    said.trim_end().lines().skip(from).map(|line| format!("    {line}")).collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_cargos_words_the_error_is_passed_on() {
        assert_eq!(
            complaint("    Updating index\nerror: no\n\nCaused by:\n  rain\n"),
            "    error: no\n    \n    Caused by:\n      rain"
        );
        assert_eq!(complaint("Killed\n"), "    Killed");
        assert_eq!(complaint(""), "");
    }
}
