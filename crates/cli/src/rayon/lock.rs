//! What a lock file holds, and how a package in it goes back to an earlier version.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

use cargo_metadata::semver::Version;
use comity_console::Failure;
use toml_edit::{DocumentMut, Table, TomlError};

use super::project::Project;

/// A package from a registry at the version that a lock file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked {
    /// As its manifest calls it.
    pub name: String,
    /// Its version.
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
        read().ok_or_else(|| format!("'{text}' is no name and version, as in 'rayon-core 1.12.1'"))
    }
}

/// What a lock file holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Lock {
    /// Everything from registries.
    pub packages: Vec<Locked>,
    /// True if there is a rayon-core from a registry or a repository. Cargo forgets one from a folder as soon as the
    /// manifest names the folder no more.
    pub has_core: bool,
}

impl Lock {
    /// `None` where there is no such file.
    pub fn read(path: &Path) -> Result<Option<Lock>, Failure> {
        let refuse = |why: &dyn fmt::Display| Failure::Run(format!("cannot read '{}': {why}", path.display()));
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refuse(&error)),
        };
        text.parse().map(Some).map_err(|error: TomlError| refuse(&error))
    }

    /// What this lock file holds at a version that is too old for Comity's rayon-core, each with the lowest that
    /// serves; what others need comes before them.
    pub fn too_old(&self) -> Vec<(Locked, Locked)> {
        let older = |floor: &Locked| {
            let is_older = |locked: &&Locked| takes_the_place_of(floor, locked) && locked.version < floor.version;
            self.packages.iter().find(is_older).map(|locked| (locked.clone(), floor.clone()))
        };
        floors().iter().filter_map(older).collect()
    }

    /// What stands in `now` at a higher version than it must, beside the one to go back to; what needs others comes
    /// before them. Nothing where all that this lock file held has moved no further than it must: what is new may
    /// be as new as it is then.
    pub fn too_far(&self, now: &Lock) -> Vec<(Locked, Version)> {
        let held = |locked: &Locked| self.packages.iter().find(|old| takes_the_place_of(locked, old));
        let floors = floors();
        let of_ours = now.packages.iter().filter_map(|locked| {
            let place = floors.iter().position(|floor| takes_the_place_of(floor, locked))?;
            let floor = floors[place].version.clone();
            let lowest = held(locked).map_or(floor.clone(), |old| old.version.clone().max(floor));
            (locked.version > lowest).then(|| (place, locked.clone(), lowest))
        });
        let mut of_ours: Vec<(usize, Locked, Version)> = of_ours.collect();
        if !of_ours.iter().any(|(_, locked, _)| held(locked).is_some()) {
            return Vec::new();
        }
        of_ours.sort_by_key(|(place, ..)| std::cmp::Reverse(*place));
        of_ours.into_iter().map(|(_, locked, lowest)| (locked, lowest)).collect()
    }

    /// The rayon-core from a registry.
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

/// The lowest versions that Comity's rayon-core is built and tested with: its lock file has no others. What others
/// need comes first.
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
        // Of those that need each other, the first.
        let ready = left.iter().position(is_ready).unwrap_or(0);
        floors.push(left.remove(ready).1);
    }
    floors
}

/// The version of Comity's rayon-core.
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

/// How `now` differs from `before`, for people: what has moved, and what is new.
pub fn changes(before: &[Locked], now: &[Locked]) -> [Vec<String>; 2] {
    let new = missing(now, before);
    let old = missing(before, now);
    let place = |new: &Locked| old.iter().find(|old| takes_the_place_of(new, old));
    let (moved, added): (Vec<&Locked>, Vec<&Locked>) = new.iter().partition(|new| place(new).is_some());
    let arrow = |new: &Locked| place(new).map(|old| format!("{old} -> {}", new.version));
    [moved.into_iter().filter_map(arrow).collect(), added.into_iter().map(ToString::to_string).collect()]
}

/// Whether no package has moved but those that Comity's rayon-core and the stock one are made of.
pub fn differ_by_comity_alone(before: &[Locked], now: &[Locked]) -> bool {
    let floors = floors();
    let is_part = |locked: &Locked| locked.name == "rayon-core" || floors.iter().any(|floor| floor.name == locked.name);
    let old = missing(before, now);
    missing(now, before).iter().filter(|new| old.iter().any(|old| takes_the_place_of(new, old))).all(is_part)
}

/// What of `before` is no longer in `now`.
pub fn missing(before: &[Locked], now: &[Locked]) -> Vec<Locked> {
    before.iter().filter(|locked| !now.contains(locked)).cloned().collect()
}

/// Has cargo take everything in `wanted` back into the lock file that the tree still has a use for. The answer is what
/// cargo would not take: the project may have moved on since.
pub fn bring_back(project: &Project, wanted: &[Locked]) -> Result<Vec<Locked>, Failure> {
    loop {
        let now = Lock::read(&project.lock())?.map_or_else(Vec::new, |lock| lock.packages);
        let left = missing(wanted, &now);
        let newer: Vec<(Locked, &Locked)> = left
            .into_iter()
            .filter_map(|locked| {
                let newer = now.iter().find(|other| takes_the_place_of(other, &locked) && !wanted.contains(other))?;
                Some((locked, newer))
            })
            .collect();
        // One may be possible only after another. Each turn takes one back or is the last.
        let taken = newer.iter().any(|(locked, newer)| {
            let (from, to) = (format!("{}@{}", newer.name, newer.version), locked.version.to_string());
            project.cargo(&["update", "--package", &from, "--precise", &to]).is_ok()
        });
        if !taken {
            return Ok(newer.into_iter().map(|(locked, _)| locked).collect());
        }
    }
}

/// Whether cargo would keep only one of the two: the same package, and versions that one requirement accepts.
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
        let old = |name: &str| Locked {
            name: name.to_owned(),
            version: Version::new(floors[at(name)].version.major, floors[at(name)].version.minor, 0),
        };
        let newest = Locked { name: "libc".to_owned(), version: Version::new(0, 2, 9_999) };
        let lock = Lock { packages: vec![newest, old("crossbeam-epoch")], has_core: true };
        assert_eq!(lock.too_old(), [(old("crossbeam-epoch"), floors[at("crossbeam-epoch")].clone())]);
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
