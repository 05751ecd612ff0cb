//! A part of a sweep: one command of `comity-lab`, with its own folder for results.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use comity_console::{Failure, output};

use super::file::{Campaign, Reproduce, Simulate};
use crate::filing::RUNS;
use crate::runs::Shard;
use crate::{reproduce, simulate};

/// A command of a sweep, and the folder of its results.
#[derive(Debug)]
pub struct Part {
    /// The name of the folder, within the folder of the sweep's results.
    pub name: String,
    /// The path of the folder.
    pub out: PathBuf,
    /// The command, without the options for the folder and for the selection of runs.
    words: Vec<OsString>,
    /// The options about results, which do not apply to a shard.
    told: Vec<OsString>,
}

/// The runs of a part that a command does.
pub enum Role {
    /// All runs that are not in the file yet.
    Whole,
    /// The runs of a shard that are not in its file yet.
    Shard(Shard),
    /// No runs, because the files in these folders have all of them.
    Merge(Vec<PathBuf>),
}

impl Role {
    /// Returns the role that merges the part's runs from `folders`, which are copies of the folder for results. If
    /// the list is empty, returns the role that does all runs.
    pub fn of_merge(folders: &[PathBuf], part: &Part) -> Role {
        match folders {
            [] => Role::Whole,
            _ => Role::Merge(folders.iter().map(|folder| folder.join(&part.name)).collect()),
        }
    }
}

/// The commands that parts are.
#[derive(Parser)]
#[command(name = "comity-lab")]
enum Command {
    Simulate(simulate::Arguments),
    Reproduce(reproduce::Arguments),
}

/// Returns the parts of a sweep, in the order of its file: scenarios, then papers.
pub fn parts(campaign: &Campaign) -> Result<Vec<Part>, Failure> {
    let simulated = campaign
        .simulate
        .iter()
        .flat_map(|simulate| simulate.scenarios.iter().map(|scenario| of_scenario(&campaign.out, simulate, scenario)));
    let reproduced = campaign.reproduce.iter().map(|reproduce| of_paper(&campaign.out, reproduce));
    let parts: Vec<Part> = simulated.chain(reproduced).collect();
    let mut names = BTreeMap::new();
    for part in &parts {
        if names.insert(&part.name, ()).is_some() {
            let what = "Give one of them another name: each has a folder of that name";
            return Err(Failure::Usage(format!("two parts of the sweep are called '{}'. {what}", part.name)));
        }
        let is_plain = |name: &str| !name.is_empty() && name.split('/').all(|part| !["", ".", ".."].contains(&part));
        if !is_plain(&part.name) {
            return Err(Failure::Usage(format!(
                "'{}' cannot be the name of a part, because a folder in `out` has this name",
                part.name
            )));
        }
    }
    for part in &parts {
        let around = |other: &&Part| part.name.strip_prefix(&other.name).is_some_and(|rest| rest.starts_with('/'));
        if let Some(other) = parts.iter().find(around) {
            let what = "Give one of them another name: the folder of one would be inside the folder of the other";
            let (outer, inner) = (&other.name, &part.name);
            return Err(Failure::Usage(format!("two parts of the sweep are called '{outer}' and '{inner}'. {what}")));
        }
    }
    Ok(parts)
}

fn of_scenario(out: &Path, simulate: &Simulate, scenario: &Path) -> Part {
    let stem = scenario.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = match (&simulate.name, simulate.scenarios.len()) {
        (Some(name), 1) => name.clone(),
        (Some(name), _) => format!("{name}/{stem}"),
        (None, _) => stem,
    };
    let out = out.join(&name);
    let mut words: Vec<OsString> = vec!["simulate".into(), scenario.into()];
    for (option, values) in [("--policy", &simulate.policy), ("--set", &simulate.set)] {
        words.extend(values.iter().map(|value| format!("{option}={value}").into()));
    }
    let mut told = Vec::new();
    if simulate.csv {
        told.extend(["--csv".into(), out.join("runs.csv").into()]);
    }
    if simulate.plot {
        told.extend(["--plot".into(), out.join("pictures").into()]);
    }
    Part { name, out, words, told }
}

fn of_paper(out: &Path, reproduce: &Reproduce) -> Part {
    let name = reproduce.name.clone().unwrap_or_else(|| reproduce.paper.clone());
    let mut words: Vec<OsString> = vec!["reproduce".into(), (&reproduce.paper).into()];
    words.extend(reproduce.experiments.iter().map(OsString::from));
    words.extend(reproduce.full.then(|| "--full".into()));
    words.extend(reproduce.options.iter().map(OsString::from));
    let told = reproduce.check.then(|| "--check".into()).into_iter().collect();
    Part { out: out.join(&name), name, words, told }
}

impl Part {
    /// Checks that the part can run: its command line, and for a scenario all varied settings.
    pub fn check(&self) -> Result<(), Failure> {
        match self.parsed(&self.words(&Role::Whole, None))? {
            Command::Simulate(arguments) => simulate::check(&arguments).map_err(|failure| self.named(failure)),
            Command::Reproduce(_) => Ok(()),
        }
    }

    /// Does the part's runs. After a shard, also writes its note, which shows that the shard is done.
    pub fn run(&self, role: &Role, workers: Option<u16>) -> Result<(), Failure> {
        fs::create_dir_all(&self.out).map_err(|error| {
            Failure::Usage(format!("cannot create the folder '{}': {error}. Choose another out", self.out.display()))
        })?;
        output::temporary_beside(&self.out.join(RUNS)).map_err(|error| {
            let (folder, kind) = (self.out.display(), error.kind());
            Failure::Usage(format!("cannot write files in the folder '{folder}': {kind}. Choose another out"))
        })?;
        match self.parsed(&self.words(role, workers))? {
            Command::Simulate(arguments) => simulate::run(arguments)?,
            Command::Reproduce(arguments) => reproduce::run(arguments)?,
        }
        let Role::Shard(shard) = role else { return Ok(()) };
        let note = self.note(*shard);
        output::replace(&note, self.told_of(*shard).as_bytes())
            .map_err(|error| Failure::Run(format!("cannot write '{}': {error}", note.display())))
    }

    /// True if the same command has already done all runs of the shard, and the files of the runs still have the
    /// lengths that they had then.
    pub fn is_done(&self, shard: Shard) -> bool {
        fs::read(self.note(shard)).is_ok_and(|told| told == self.told_of(shard).as_bytes())
    }

    /// Returns the path of the shard's note. The note is in the folder of the runs, so that a copy of this folder
    /// contains it.
    fn note(&self, shard: Shard) -> PathBuf {
        self.out.join(RUNS).join(format!("shard-{}.done", shard.name()))
    }

    /// Returns the text of a shard's note: the command, and the length of each file of the shard's runs. If a line
    /// was removed from a file, its length differs from the note.
    fn told_of(&self, shard: Shard) -> String {
        let words: Vec<_> = self.words.iter().map(|word| word.to_string_lossy()).collect();
        let entries = fs::read_dir(self.out.join(RUNS)).into_iter().flatten().flatten();
        let length = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok().filter(|name| shard.is_file(name))?;
            Some(format!("{name}: {} bytes\n", fs::metadata(entry.path()).ok()?.len()))
        };
        let mut files: Vec<String> = entries.filter_map(length).collect();
        files.sort_unstable();
        format!("{}, simulator {}\n{}", words.join(" "), comity_sim::REVISION, files.concat())
    }

    fn words(&self, role: &Role, workers: Option<u16>) -> Vec<OsString> {
        let mut words = self.words.clone();
        words.extend(["--out".into(), self.out.clone().into()]);
        match role {
            Role::Shard(shard) => words.extend(["--shard".into(), shard.to_string().into()]),
            Role::Merge(folders) => {
                words.extend(folders.iter().flat_map(|folder| ["--merge".into(), folder.clone().into()]));
                words.extend(self.told.clone());
            }
            Role::Whole => words.extend(self.told.clone()),
        }
        words.extend(workers.into_iter().flat_map(|workers| ["--workers".into(), workers.to_string().into()]));
        words
    }

    fn parsed(&self, words: &[OsString]) -> Result<Command, Failure> {
        let all = [OsString::from("comity-lab")].into_iter().chain(words.iter().cloned());
        Command::try_parse_from(all).map_err(|error| {
            let text = error.to_string();
            // The rest of the message, the usage of the command, is left out, because the author of the file has not
            // typed the command.
            let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
            self.named(Failure::Usage(first.to_owned()))
        })
    }

    fn named(&self, failure: Failure) -> Failure {
        Failure::Usage(format!("part '{}' of the sweep: {}", self.name, failure.into_sentence()))
    }
}
