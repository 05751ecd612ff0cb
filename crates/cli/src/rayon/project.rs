//! A cargo project: where its root manifest and its lock file are, and what cargo answers about it.

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

/// The workspace that a path belongs to; of a single package, the package.
#[derive(Debug)]
pub struct Project {
    /// Where cargo runs: `.cargo/config.toml` and the toolchain go by the folder.
    folder: PathBuf,
    /// The root manifest: no other's `[patch]` counts.
    root: PathBuf,
}

impl Project {
    /// Without a path, cargo searches upwards from the current folder as it always does. A path must name the project
    /// itself, or a typing error would reach whatever lies above.
    pub fn find(path: Option<&Path>) -> Result<Project, Failure> {
        let folder = match path {
            None => current_folder()?,
            Some(path) => folder_of(path)?,
        };
        let found = cargo_in(&folder, &["locate-project", "--workspace", "--message-format", "plain"])?;
        let root = found.strip_suffix(b"\n").unwrap_or(&found).to_vec();
        Ok(Project { folder, root: PathBuf::from(OsString::from_vec(root)) })
    }

    /// The workspace's root manifest.
    pub fn manifest(&self) -> &Path {
        &self.root
    }

    /// The folder of that.
    pub fn root(&self) -> &Path {
        self.root.parent().unwrap_or(Path::new("/"))
    }

    /// The lock file, there or not.
    pub fn lock(&self) -> PathBuf {
        self.root.with_file_name("Cargo.lock")
    }

    /// Runs cargo there and returns what it printed.
    pub fn cargo(&self, words: &[&str]) -> Result<Vec<u8>, Failure> {
        cargo_in(&self.folder, words).map_err(|failure| match self.elsewhere() {
            Some(sentence) => Failure::Run(format!("{}\n{sentence}", failure.into_sentence())),
            None => failure,
        })
    }

    /// What stands in the way where cargo does not take packages from crates.io.
    pub fn elsewhere(&self) -> Option<String> {
        let config = self.replaced_sources()?;
        Some(format!(
            "'{}' has cargo take packages from elsewhere than crates.io (vendored?): what Comity is made of must be there too, so \
             vendor it as well",
            config.display()
        ))
    }

    /// Whether the toolchain that the folder asks for is new enough for Comity.
    pub fn check_toolchain(&self) -> Result<(), Failure> {
        let printed = cargo_in(&self.folder, &["--version"])?;
        let said = String::from_utf8_lossy(&printed);
        let needed = env!("CARGO_PKG_RUST_VERSION");
        let release = |text: &str| Version::parse(text).ok().map(|version| (version.major, version.minor));
        let found = said.split(' ').nth(1).and_then(|text| release(text.trim()));
        // A cargo of unknown version is let try.
        if found.is_some_and(|found| Some(found) < release(&format!("{needed}.0"))) {
            return Err(Failure::Run(format!(
                "'{}' is built with {}, and Comity needs Rust {needed} or later; a rust-toolchain file may pin that (nothing was \
                 changed)",
                self.root.display(),
                said.trim()
            )));
        }
        Ok(())
    }

    /// The file of cargo's configuration that replaces the source of packages, if one does.
    fn replaced_sources(&self) -> Option<PathBuf> {
        let folder = fs::canonicalize(&self.folder).ok()?;
        let configurations =
            folder.ancestors().flat_map(|above| ["config.toml", "config"].map(|name| above.join(".cargo").join(name)));
        let replaces = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains("replace-with"));
        configurations.into_iter().find(replaces)
    }

    /// What the project links. Cargo may write the lock file, as it does before any build.
    pub fn tree(&self) -> Result<Tree, Failure> {
        self.metadata(&[])
    }

    /// What the project would link if it were built now, if its lock file is up to date: then cargo has nothing to
    /// write.
    pub fn look_locked(&self) -> Result<Tree, Failure> {
        self.metadata(&["--locked"])
    }

    /// With all features, because a lock file and a `[patch]` know no others, and a rayon may hide behind one.
    fn metadata(&self, extra: &[&str]) -> Result<Tree, Failure> {
        let words = [&["metadata", "--format-version", "1", "--all-features"], extra].concat();
        let printed = String::from_utf8_lossy(&self.cargo(&words)?).into_owned();
        match MetadataCommand::parse(&printed) {
            Ok(metadata) => Ok(Tree::new(&metadata)),
            Err(error) => Err(Failure::Run(format!("cannot read what `cargo metadata` printed: {error}"))),
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
        "'{folder}' has no Cargo.toml, nor has any folder above it; name a cargo project's folder"
    )))
}

fn folder_of(path: &Path) -> Result<PathBuf, Failure> {
    let is_manifest = path.file_name().is_some_and(|name| name == "Cargo.toml");
    let folder = if is_manifest && !path.is_dir() { path.parent().unwrap_or(path) } else { path };
    // The parent of a name alone is empty.
    let folder = if folder == Path::new("") { Path::new(".") } else { folder };
    let why = match path.try_exists() {
        Err(error) => format!("cannot be read: {error}"),
        Ok(false) => "does not exist".to_owned(),
        Ok(true) if !folder.is_dir() => "is no Cargo.toml".to_owned(),
        Ok(true) => match folder.join("Cargo.toml").try_exists() {
            Ok(true) => return Ok(folder.to_owned()),
            Ok(false) => "has no Cargo.toml".to_owned(),
            Err(error) => format!("has a Cargo.toml that cannot be read: {error}"),
        },
    };
    let path = path.display();
    Err(Failure::Usage(format!("'{path}' {why}; name the folder of a cargo project or its Cargo.toml")))
}

fn cargo_in(folder: &Path, words: &[&str]) -> Result<Vec<u8>, Failure> {
    #[expect(clippy::disallowed_methods, reason = "it is cargo's variable")]
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    command.args(["--color", "never"]).args(words).current_dir(folder);
    if rustix::stdio::stderr().is_terminal() || loudness::is_verbose() {
        loudness::hint(format!("comity: asks `cargo {}` in '{}'", words.join(" "), folder.display()));
    }
    // What a killed command has begun is not to go on beside the next one.
    let output = die_with_this_thread(&mut command).output();
    let output = output.map_err(|error| {
        let cargo = cargo.display();
        Failure::Run(format!("cannot start '{cargo}': {error}; install Rust, or name cargo in CARGO"))
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = words.join(" ");
    Err(Failure::Run(format!("`cargo {line}` failed in '{}' and said:\n{}", folder.display(), complaint(&said))))
}

/// What cargo says before its error is progress. Indented, so that its words can be told from ours.
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
