//! Reads cargo's lock files, and lets cargo change the versions of single packages in them.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

use cargo_metadata::semver::Version;
use comity_console::Failure;
use toml_edit::{DocumentMut, Table, TomlError};

use super::project::Project;

/// A package from a registry, with the version in a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked {
    /// The name of the package in its manifest.
    pub name: String,
    /// The version in the lock file.
    pub version: Version,
}

impl fmt::Display for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

impl FromStr for Locked {
    type Err = String;

    fn from_str(text: &str) -> Result<Locked, String> {
        let read = || {
            let (name, version) = text.split_once(' ')?;
            Some(Locked { name: name.to_owned(), version: version.parse().ok()? })
        };
        read().ok_or_else(|| format!("'{text}' is not a name and a version, for example 'rayon-core 1.12.1'"))
    }
}

/// The content of a lock file.
#[derive(Debug, PartialEq, Eq)]
pub struct Lock {
    /// All packages from registries.
    pub packages: Vec<Locked>,
    /// True if a package named rayon-core from a registry or a repository is in the lock file. Cargo drops a
    /// rayon-core from a folder as soon as the manifest does not name the folder any more.
    pub has_core: bool,
}

impl Lock {
    /// Reads a lock file. Returns `None` if there is no such file.
    pub fn read(path: &Path) -> Result<Option<Lock>, Failure> {
        let refuse = |why: &dyn fmt::Display| Failure::Run(format!("cannot read '{}': {why}", path.display()));
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refuse(&error)),
        };
        text.parse().map(Some).map_err(|error: TomlError| refuse(&error))
    }

    /// Returns the packages that this lock file holds at versions too old for Comity, each with the lowest sufficient
    /// version. Dependencies come first.
    pub fn too_old(&self) -> Vec<Locked> {
        let is_older = |floor: &Locked| {
            self.packages.iter().any(|held| takes_the_place_of(floor, held) && held.version < floor.version)
        };
        floors().into_iter().filter(is_older).collect()
    }

    /// Returns the packages that are newer in `now` than necessary, each with the version to go back to. Dependents
    /// come first. Returns an empty list if this lock file held none of these packages, because packages that are new
    /// in `now` may have any version.
    pub fn too_far(&self, now: &Lock) -> Vec<Locked> {
        let mut has_moved = false;
        let mut too_far = Vec::new();
        for mut floor in floors().into_iter().rev() {
            let place = |lock: &Lock| lock.packages.iter().find(|held| takes_the_place_of(held, &floor)).cloned();
            let (held, Some(locked)) = (place(self), place(now)) else { continue };
            floor.version = held.iter().map(|held| held.version.clone()).fold(floor.version, Ord::max);
            if locked.version > floor.version {
                has_moved |= held.is_some();
                too_far.push(floor);
            }
        }
        if has_moved { too_far } else { Vec::new() }
    }

    /// Returns the rayon-core from a registry.
    pub fn stock_core(&self) -> Option<&Locked> {
        self.packages.iter().find(|locked| locked.name == "rayon-core")
    }
}

impl FromStr for Lock {
    type Err = TomlError;

    fn from_str(text: &str) -> Result<Lock, TomlError> {
        let document: DocumentMut = text.parse()?;
        let packages = document.get("package").and_then(|item| item.as_array_of_tables());
        let packages = || packages.into_iter().flatten();
        let is_core = |package: &Table| package.get("name").and_then(|name| name.as_str()) == Some("rayon-core");
        let has_core = packages().any(|package| is_core(package) && package.contains_key("source"));
        Ok(Lock { packages: packages().filter_map(from_registry).collect(), has_core })
    }
}

/// Returns the lowest versions with which Comity's rayon-core is built and tested: the packages in its lock file.
/// Dependencies come first.
fn floors() -> Vec<Locked> {
    let document: DocumentMut = include_str!("floors.lock").parse().expect("cargo writes lock files that can be read");
    let packages = document.get("package").and_then(|item| item.as_array_of_tables());
    let mut left: Vec<(&Table, Locked)> =
        packages.into_iter().flatten().filter_map(|package| Some((package, from_registry(package)?))).collect();
    let mut floors = Vec::new();
    while !left.is_empty() {
        let needs = |package: &Table, other: &Locked| {
            let needed = package.get("dependencies").and_then(|item| item.as_array());
            let names = |text: &str| text.split(' ').next() == Some(other.name.as_str());
            needed.into_iter().flatten().any(|needed| needed.as_str().is_some_and(names))
        };
        let is_ready = |(package, _): &(&Table, Locked)| !left.iter().any(|(_, other)| needs(package, other));
        // If packages depend on each other in a cycle, the first package is taken.
        let ready = left.iter().position(is_ready).unwrap_or(0);
        floors.push(left.remove(ready).1);
    }
    floors
}

/// Returns the version of Comity's rayon-core.
pub fn comity_version() -> String {
    let document: DocumentMut = include_str!("core.toml").parse().expect("cargo reads this manifest too");
    document["package"]["version"].as_str().expect("a package has a version").to_owned()
}

fn from_registry(package: &Table) -> Option<Locked> {
    let text = |key| package.get(key)?.as_str();
    let source = text("source")?;
    if !source.starts_with("registry+") && !source.starts_with("sparse+") {
        return None;
    }
    Some(Locked { name: text("name")?.to_owned(), version: text("version")?.parse().ok()? })
}

/// Returns two lists as text: the packages whose version differs between `before` and `now`, and the packages that
/// only `now` has.
pub fn changes(before: &[Locked], now: &[Locked]) -> [Vec<String>; 2] {
    let new = missing(now, before);
    let old = missing(before, now);
    let place = |new: &Locked| old.iter().find(|old| takes_the_place_of(new, old));
    let (moved, added): (Vec<&Locked>, Vec<&Locked>) = new.iter().partition(|new| place(new).is_some());
    let arrow = |new: &Locked| place(new).map(|old| format!("{old} -> {}", new.version));
    [moved.into_iter().filter_map(arrow).collect(), added.into_iter().map(ToString::to_string).collect()]
}

/// True if each package whose version has changed is rayon-core itself or a dependency of Comity's rayon-core.
pub fn differ_by_comity_alone(before: &[Locked], now: &[Locked]) -> bool {
    let floors = floors();
    let is_part = |locked: &Locked| locked.name == "rayon-core" || floors.iter().any(|floor| floor.name == locked.name);
    let old = missing(before, now);
    missing(now, before).iter().filter(|new| old.iter().any(|old| takes_the_place_of(new, old))).all(is_part)
}

/// Returns the packages of `before` that are not in `now`.
pub fn missing(before: &[Locked], now: &[Locked]) -> Vec<Locked> {
    before.iter().filter(|locked| !now.contains(locked)).cloned().collect()
}

/// Asks cargo to put the packages in `wanted` into the lock file, in place of other versions of these packages.
/// Returns the packages that cargo refuses, each with the version that stays and cargo's reason.
pub fn bring(project: &Project, wanted: &[Locked]) -> Result<Vec<(Locked, Locked, Failure)>, Failure> {
    let mut refused = Vec::new();
    // Cargo may accept a package only after another one. Each pass changes one package. A pass without a change is
    // the last.
    for _ in 0..=wanted.len() {
        let now = Lock::read(&project.lock())?.map_or_else(Vec::new, |lock| lock.packages);
        refused.clear();
        let is_taken = missing(wanted, &now).into_iter().any(|locked| {
            let stays = now.iter().find(|other| takes_the_place_of(other, &locked) && !wanted.contains(other));
            let Some(stays) = stays else { return false };
            let (from, to) = (format!("{}@{}", stays.name, stays.version), locked.version.to_string());
            let failed = project.cargo(&["update", "--package", &from, "--precise", &to]).err();
            let is_taken = failed.is_none();
            refused.extend(failed.map(|failure| (locked, stays.clone(), failure)));
            is_taken
        });
        if !is_taken {
            break;
        }
    }
    Ok(refused)
}

/// True if both are the same package in semver-compatible versions. Cargo keeps only one of two such versions.
fn takes_the_place_of(other: &Locked, locked: &Locked) -> bool {
    let leading = |version: &Version| match (version.major, version.minor, version.patch) {
        (0, 0, patch) => (0, 0, patch),
        (0, minor, _) => (0, minor, 0),
        (major, _, _) => (major, 0, 0),
    };
    other.name == locked.name && leading(&other.version) == leading(&locked.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_is_read_for_what_came_from_registries() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("Cargo.lock");
        assert_eq!(Lock::read(&path).unwrap(), None);
        let text = "version = 4\n\n[[package]]\nname = \"mine\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"rayon-core\"\n\
                    version = \"1.12.1\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
        fs::write(&path, text).unwrap();
        let core: Locked = "rayon-core 1.12.1".parse().unwrap();
        assert_eq!(Lock::read(&path).unwrap(), Some(Lock { packages: vec![core.clone()], has_core: true }));
        let before = [core];
        assert_eq!(missing(&before, &[]), before);
        assert_eq!(missing(&before, &before), []);
        fs::write(&path, "version = ").unwrap();
        assert!(matches!(Lock::read(&path), Err(Failure::Run(why)) if why.contains("Cargo.lock'")));
    }

    #[test]
    fn what_is_too_old_moves_to_the_lowest_version_that_serves() {
        let floors = floors();
        let at = |name: &str| floors.iter().position(|floor| floor.name == name).unwrap();
        assert!(at("libc") < at("memmap2") && at("crossbeam-utils") < at("crossbeam-epoch"));
        let locked = |text: &str| text.parse::<Locked>().unwrap();
        let lock = |epoch: &str| Lock { packages: vec![locked("libc 0.2.9999"), locked(epoch)], has_core: true };
        let (old, floor) = (lock("crossbeam-epoch 0.9.0"), floors[at("crossbeam-epoch")].clone());
        assert_eq!(old.too_old(), std::slice::from_ref(&floor));
        assert_eq!(old.too_far(&lock("crossbeam-epoch 0.9.9999")), [floor]);
        assert_eq!(old.too_far(&old), []);
    }

    #[test]
    fn the_one_that_records_is_made_of_the_same() {
        let packages = |text: &str| text.parse::<Lock>().unwrap().packages;
        let ordinary = packages(include_str!("floors.lock"));
        assert_eq!(packages(include_str!("../../../rayon-core/recording/Cargo.lock")), ordinary);
    }

    #[test]
    fn what_has_changed_is_told() {
        let locked = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Locked>>();
        let before = locked(&["libc 0.2.1", "rayon-core 1.12.1", "same 1.0.0"]);
        let now = locked(&["libc 0.2.9", "new 0.1.0", "same 1.0.0"]);
        assert_eq!(changes(&before, &now), [vec!["libc 0.2.1 -> 0.2.9".to_owned()], vec!["new 0.1.0".to_owned()]]);
    }

    #[test]
    fn only_a_compatible_version_takes_the_place_of_another() {
        let locked = |text: &str| text.parse::<Locked>().unwrap();
        for (other, one, takes) in [
            ("rayon-core 1.13.0", "rayon-core 1.12.1", true),
            ("rayon-core 2.0.0", "rayon-core 1.12.1", false),
            ("rand 0.3.23", "rand 0.3.1", true),
            ("rand 0.4.6", "rand 0.3.23", false),
            ("x 0.0.2", "x 0.0.1", false),
            ("rayon 1.10.0", "rayon-core 1.12.1", false),
        ] {
            assert_eq!(takes_the_place_of(&locked(other), &locked(one)), takes, "{other} {one}");
        }
        assert!("rayon-core".parse::<Locked>().is_err() && "rayon-core new".parse::<Locked>().is_err());
    }
}
