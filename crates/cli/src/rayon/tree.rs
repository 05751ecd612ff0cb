//! The packages that a project links, as cargo resolved them.

use std::fmt;

use cargo_metadata::{Metadata, Package};
use serde::Serialize;

/// The packages named rayon and rayon-core in cargo's resolved dependency tree.
#[derive(Debug, PartialEq, Eq)]
pub struct Tree {
    /// The version of each package named rayon.
    pub rayons: Vec<String>,
    /// Each package named rayon-core.
    pub cores: Vec<Core>,
}

/// A rayon-core, as text and in the schema `comity-rayon/1`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Core {
    /// The version.
    version: String,
    /// The origin.
    kind: Kind,
    /// The folder, or the source in cargo's notation.
    from: String,
    /// True if it is Comity's recording variant.
    records: bool,
}

/// The origin of a rayon-core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Comity's rayon-core.
    Comity,
    /// The rayon-core of crates.io.
    Stock,
    /// A fork of rayon-core.
    Other,
}

/// The rayon-core that a project links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// A single rayon-core.
    One(Kind),
    /// Several packages named rayon-core. Cargo refuses two packages with the same `links` key, but a fork may have
    /// no such key.
    Several,
    /// No rayon-core.
    None,
}

impl Tree {
    /// Returns the tree of `metadata`, which contains only the packages that the resolved tree uses.
    pub fn new(metadata: &Metadata) -> Tree {
        let called = |name| metadata.packages.iter().filter(move |package: &&Package| *package.name == name);
        Tree {
            rayons: called("rayon").map(|package| package.version.to_string()).collect(),
            cores: called("rayon-core").map(Core::new).collect(),
        }
    }

    /// Returns the rayon-core that the project links.
    pub fn links(&self) -> Links {
        match self.cores.as_slice() {
            [] => Links::None,
            [core] => Links::One(core.kind),
            _ => Links::Several,
        }
    }

    /// True if Comity's rayon-core is linked, alone or together with others.
    pub fn has_comity(&self) -> bool {
        self.cores.iter().any(|core| core.kind == Kind::Comity)
    }

    /// True if a linked rayon-core records task graphs.
    pub fn records(&self) -> bool {
        self.cores.iter().any(|core| core.records)
    }

    /// Returns the folder of a rayon-core that is neither Comity's nor from a registry or repository.
    pub fn core_in_a_folder(&self) -> Option<&str> {
        let is_folder = |core: &&Core| core.kind == Kind::Other && core.from.starts_with('/');
        self.cores.iter().find(is_folder).map(|core| core.from.as_str())
    }

    /// Returns rayon with its versions as part of a sentence, for example `rayon 1.12.0`.
    pub fn rayon(&self) -> String {
        if self.rayons.is_empty() {
            "rayon-core without rayon".to_owned()
        } else {
            format!("rayon {}", list(&self.rayons))
        }
    }

    /// Returns the packages named rayon-core as part of a sentence.
    pub fn cores_in_words(&self) -> String {
        list(&self.cores)
    }
}

impl Core {
    fn new(package: &Package) -> Core {
        let stock = package.source.as_ref().is_some_and(|source| source.is_crates_io());
        let kind = match package.metadata.get("comity") {
            _ if stock => Kind::Stock,
            Some(_) => Kind::Comity,
            None => Kind::Other,
        };
        let folder = package.manifest_path.parent().unwrap_or(&package.manifest_path);
        let from = package.source.as_ref().map_or_else(|| folder.to_string(), |source| source.repr.clone());
        let mark = package.metadata.get("comity").and_then(|mark| mark.get("records")?.as_bool());
        let records = kind == Kind::Comity && mark == Some(true);
        Core { version: package.version.to_string(), kind, from, records }
    }
}

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Comity if self.records => {
                write!(f, "Comity's recording rayon-core {} ({})", self.version, self.from)
            }
            Kind::Comity => write!(f, "Comity's rayon-core {} ({})", self.version, self.from),
            Kind::Stock => write!(f, "the stock rayon-core {}", self.version),
            Kind::Other => write!(f, "the rayon-core {} of {}", self.version, self.from),
        }
    }
}

impl Links {
    /// Returns the word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Links::One(Kind::Comity) => "comity",
            Links::One(Kind::Stock) => "stock",
            Links::One(Kind::Other) => "other",
            Links::Several => "several",
            Links::None => "none",
        }
    }
}

/// Formats a list as `a`, `a and b` or `a, b and c`.
pub fn list(items: &[impl fmt::Display]) -> String {
    let words: Vec<String> = items.iter().map(ToString::to_string).collect();
    match words.as_slice() {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_sentences_do() {
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
    }
}
