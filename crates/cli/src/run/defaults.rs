//! The configuration files of `comity run`: defaults for its options.

use std::env;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use clap::ValueEnum;
use comity_console::Failure;
use comity_os::{environment, files};
use rustix::fs::{Mode, OFlags, open};
use toml_edit::{DocumentMut, Item};

use super::jobserver::Style;
use crate::{label, weight};

/// The name of the file in a project: in the current folder or a folder above it.
const IN_PROJECT: &str = ".comity.toml";

/// The name of the user's file, in `$XDG_CONFIG_HOME` or `~/.config`.
const OF_USER: &str = "comity.toml";

/// The number of bytes that are read of a file.
const LONGEST: u64 = 65_536;

/// Defaults for the options of `comity run`. `None`: no file sets it.
#[derive(Debug, Default, PartialEq)]
pub struct Defaults {
    /// The default of `--weight`.
    pub weight: Option<u32>,
    /// The default of `--cores`.
    pub cores: Option<u16>,
    /// The default of `--label`.
    pub label: Option<String>,
    /// The default of `--jobserver`. `Some(None)` stands for `--no-jobserver`.
    pub jobserver: Option<Option<Style>>,
}

impl Defaults {
    /// Reads the project's file and the user's file. A value of the project's file precedes.
    ///
    /// # Errors
    /// If a file exists and cannot be read, or has an unknown key or a bad value.
    pub fn read() -> Result<Defaults, Failure> {
        let mut defaults = Defaults::default();
        for (path, file) in [in_project(), of_user()].into_iter().flatten() {
            let mut text = String::new();
            let read = file.take(LONGEST).read_to_string(&mut text).map_err(|error| error.to_string());
            let read = read.and_then(|_| Defaults::parse(&text));
            let read = read.map_err(|why| Failure::Usage(format!("{}: {why}", path.display())))?;
            defaults = defaults.or(read);
        }
        Ok(defaults)
    }

    fn or(self, other: Defaults) -> Defaults {
        Defaults {
            weight: self.weight.or(other.weight),
            cores: self.cores.or(other.cores),
            label: self.label.or(other.label),
            jobserver: self.jobserver.or(other.jobserver),
        }
    }

    fn parse(text: &str) -> Result<Defaults, String> {
        let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
        let mut defaults = Defaults::default();
        for (key, value) in document.iter() {
            let is_read = match key {
                "weight" => {
                    defaults.weight = number(value, weight::MOST.into());
                    defaults.weight.is_some()
                }
                "cores" => {
                    defaults.cores = number(value, u16::MAX.into());
                    defaults.cores.is_some()
                }
                "label" => {
                    defaults.label = value.as_str().map(label::parse).transpose()?;
                    defaults.label.is_some()
                }
                "jobserver" => {
                    defaults.jobserver = match value.as_str() {
                        Some("off") => Some(None),
                        Some(style) => Style::from_str(style, false).ok().map(Some),
                        None => None,
                    };
                    defaults.jobserver.is_some()
                }
                _ => return Err(format!("'{key}' is unknown. Use weight, cores, label or jobserver")),
            };
            if !is_read {
                let allowed = match key {
                    "weight" => format!("a whole number from 1 to {}", weight::MOST),
                    "cores" => "a whole number from 1".to_owned(),
                    "label" => "a text in quotes".to_owned(),
                    _ => r#""auto", "fifo", "pipe" or "off""#.to_owned(),
                };
                return Err(format!("'{key}' must be {allowed}"));
            }
        }
        Ok(defaults)
    }
}

fn number<T: TryFrom<i64>>(value: &Item, most: i64) -> Option<T> {
    value.as_integer().filter(|number| (1..=most).contains(number)).and_then(|number| T::try_from(number).ok())
}

/// Opens the file of the project. A file of another user, or a symbolic link, has no effect: it may be in a folder that
/// all users may write to, such as `/tmp`.
fn in_project() -> Option<(PathBuf, File)> {
    let folder = env::current_dir().ok()?;
    let open = |path: PathBuf| {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(open(&path, flags, Mode::empty()).ok()?);
        let metadata = file.metadata().ok()?;
        let is_trusted = metadata.is_file() && [0, files::user()].contains(&metadata.uid());
        is_trusted.then_some((path, file))
    };
    folder.ancestors().map(|folder| folder.join(IN_PROJECT)).find_map(open)
}

fn of_user() -> Option<(PathBuf, File)> {
    let absolute = |name: &str| environment::variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(env::home_dir()?.join(".config")))?;
    let path = folder.join(OF_USER);
    let file = File::open(&path).ok()?;
    Some((path, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_names_of_options() {
        let text = "# for agents\nweight = 50\ncores = 2\nlabel = \"agent\"\njobserver = \"off\"\n";
        let all = Defaults { weight: Some(50), cores: Some(2), label: Some("agent".to_owned()), jobserver: Some(None) };
        assert_eq!(Defaults::parse(text), Ok(all));
        let fifo = Defaults { jobserver: Some(Some(Style::Fifo)), ..Defaults::default() };
        assert_eq!(Defaults::parse("jobserver = \"fifo\""), Ok(fifo));
        assert_eq!(Defaults::parse(""), Ok(Defaults::default()));
    }

    #[test]
    fn what_is_wrong_in_a_file_is_said() {
        for (text, part) in [
            ("weight = 0", "'weight' must be a whole number from 1 to 10000"),
            ("weight = \"50\"", "'weight' must be"),
            ("cores = 70000", "'cores' must be"),
            ("label = 7", "'label' must be a text"),
            ("label = \"7\"", "a label is no number"),
            ("jobserver = \"on\"", "\"fifo\""),
            ("wieght = 50", "'wieght' is unknown"),
            ("weight 50", "line 1"),
        ] {
            let why = Defaults::parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
