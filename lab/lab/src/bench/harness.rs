//! The measuring loop of every bench. It runs the blocks of a bench one after the other. A block has a number of
//! rounds.
//!
//! A bench can report after any round, and it does so when a signal ends the command. With `--out`, the harness
//! writes each round to a file at once. When the same command runs again, it continues after the last round in the
//! file.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use comfy_table::{Table, presets};
use comity_console::Failure;
use comity_console::machine::{self, Machine, Versions};
use comity_console::output::{self, ResultFile};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::filing::{self, Filing, Header, Meanwhile};
use crate::progress::Progress;
use crate::{choices, descendants};

/// A bench, its rounds and its output.
pub struct Harness<'a> {
    /// The name of the bench, as on the command line.
    pub name: &'static str,
    /// The settings that the rounds depend on, without the block, the machine and the versions.
    pub setting: String,
    /// True if the bench gives its programs their own core table.
    pub has_own_table: bool,
    /// The blocks, in the order in which they run.
    pub blocks: Vec<Block>,
    /// True if the report is printed as JSON, not in words.
    pub json: bool,
    /// A folder for results. Each round is written to a file there at once.
    pub out: Option<&'a Path>,
}

/// A sequence of rounds with the same setting.
pub struct Block {
    /// The name of the block: its subject, and the settings that differ between blocks.
    pub name: String,
    /// The number of rounds in the block.
    pub rounds: usize,
}

impl Block {
    /// Makes one block per round, so that each round has its own line of progress. For rounds that take seconds.
    pub fn each_round(rounds: u32) -> Vec<Block> {
        (1..=rounds).map(|nth| Block { name: format!("round {nth}"), rounds: 1 }).collect()
    }
}

/// The position of a round that is about to run.
#[derive(Clone, Copy)]
pub struct Turn {
    /// The index of the block.
    pub block: usize,
    /// The index of the round within the block, from 0.
    pub round: usize,
    /// True for the first round of the block in this process, in which caches and pools are cold.
    pub is_first: bool,
}

impl Turn {
    /// Measures each element of `all` once and returns the results in the order of `all`. Each block begins with the
    /// next element.
    pub fn in_turn<T, S>(
        self,
        all: &[T],
        mut measure: impl FnMut(&T) -> Result<S, Failure>,
    ) -> Result<Vec<S>, Failure> {
        let first = self.block % all.len();
        let mut outcomes = Vec::with_capacity(all.len());
        for nth in 0..all.len() {
            outcomes.push(measure(&all[(nth + first) % all.len()])?);
        }
        outcomes.rotate_right(first);
        Ok(outcomes)
    }
}

/// Returns an empty table in the style of all benches.
pub fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table
}

/// The report of a bench about its rounds.
pub trait Report: Serialize {
    /// The version of the JSON schema. Increase it when a field changes its meaning or is removed.
    const SCHEMA: u32 = 1;

    /// Formats the report for people.
    fn in_words(&self) -> String;

    /// Returns the files that the user requested, each with its content.
    fn files(&self) -> Vec<(&ResultFile, String)> {
        Vec::new()
    }
}

/// The JSON output of a bench.
#[derive(Serialize)]
struct Framed<'a, R> {
    schema: String,
    machine: Machine,
    versions: Versions,
    /// True if a signal ended the command before all rounds were done.
    partial: bool,
    #[serde(flatten)]
    report: &'a R,
}

/// The outcomes of the rounds that are done, by block.
type Outcomes<S> = Arc<Mutex<Vec<Vec<S>>>>;

/// The writer of reports: it prints and files them.
struct Teller<F> {
    name: &'static str,
    report: F,
    json: bool,
    result: Option<ResultFile>,
}

impl Harness<'_> {
    /// Runs all rounds and reports the outcomes. `report` gets the outcomes of the rounds that are done, by block.
    pub fn run<S, R>(
        self,
        mut round: impl FnMut(Turn) -> Result<S, Failure>,
        report: impl Fn(&[Vec<S>]) -> R + Send + Sync + 'static,
    ) -> Result<(), Failure>
    where
        S: Serialize + DeserializeOwned + Send + 'static,
        R: Report,
    {
        let (filing, found, result) = self.filed()?;
        let (all, done) = (self.all(), found.iter().map(Vec::len).sum());
        let outcomes: Outcomes<S> = Arc::new(Mutex::new(found));
        let teller = Arc::new(Teller { name: self.name, report, json: self.json, result });
        descendants::look_after()?;
        let (interrupted, told) = (Arc::clone(&outcomes), Arc::clone(&teller));
        descendants::at_a_signal(move || {
            let outcomes = comity_os::lock(&interrupted);
            told.interrupted(&outcomes, all);
            // The lock is never released, so that the command prints no further report after this partial one.
            std::mem::forget(outcomes);
        });
        let what = format!("bench {}, {}", self.name, self.setting);
        if self.has_own_table {
            choices::tell_apart(&what)
        } else {
            choices::tell(&what)
        }
        let progress = Progress::new(all, done, "rounds");
        let mut nth = 0;
        for (block, Block { name, rounds }) in self.blocks.iter().enumerate() {
            let from = comity_os::lock(&outcomes)[block].len();
            if from == *rounds {
                nth += rounds;
                continue;
            }
            progress.doing(|| name.clone());
            for turn in from..*rounds {
                let outcome = round(Turn { block, round: turn, is_first: turn == from })?;
                if let Some(filing) = &filing {
                    filing.note(nth + turn, &outcome)?;
                }
                let mut outcomes = comity_os::lock(&outcomes);
                outcomes[block].push(outcome);
                progress.inc();
                if turn + 1 == *rounds {
                    progress.end_of_block(name);
                }
            }
            nth += rounds;
        }
        progress.end();
        let report = (teller.report)(&comity_os::lock(&outcomes));
        let filed = descendants::finish(|| teller.file(&report, false));
        filed.and(teller.print(&report, None))
    }

    fn all(&self) -> usize {
        self.blocks.iter().map(|block| block.rounds).sum()
    }

    /// Opens the file of rounds, reads the rounds in it, and checks that the result file can be written.
    #[expect(clippy::type_complexity, reason = "three things of one folder")]
    fn filed<S: DeserializeOwned>(&self) -> Result<(Option<Filing>, Vec<Vec<S>>, Option<ResultFile>), Failure> {
        let Some(out) = self.out else { return Ok((None, self.blocks.iter().map(|_| Vec::new()).collect(), None)) };
        let blocks: Vec<&str> = self.blocks.iter().map(|block| block.name.as_str()).collect();
        let what = format!("bench {}, {}: {}", self.name, self.setting, blocks.join("; "));
        let header = Header::new(filing::measured(&what), self.all());
        let mut outcomes: Vec<OnceLock<S>> = Vec::new();
        outcomes.resize_with(self.all(), OnceLock::new);
        let folder = Filing::folder(out)?;
        let filing = Filing::open(
            &folder.join(format!("bench-{}.jsonl", self.name)),
            &header,
            &outcomes,
            &filing::unchecked,
            Meanwhile::Refuse,
        )?;
        let result = ResultFile::check(&out.join(format!("bench-{}.json", self.name)), "--out")?;
        let mut outcomes = outcomes.into_iter().map(OnceLock::into_inner);
        // Rounds are written in their order, so the file has the first rounds of each block.
        let mut found = Vec::new();
        for block in &self.blocks {
            let own: Vec<Option<S>> = outcomes.by_ref().take(block.rounds).collect();
            let first = own.iter().take_while(|round| round.is_some()).count();
            if own.iter().skip(first).any(Option::is_some) {
                let what = format!("round {first} of '{}' is missing, and later rounds are there", block.name);
                return Err(Failure::Usage(format!(
                    "'{}': {what}. Restore its line, or choose another --out",
                    out.display()
                )));
            }
            found.push(own.into_iter().flatten().collect());
        }
        Ok((Some(filing), found, Some(result)))
    }
}

impl<F> Teller<F> {
    fn json<R: Report>(&self, report: &R, partial: bool) -> String {
        output::to_json(&Framed {
            schema: format!("comity-bench-{}/{}", self.name, R::SCHEMA),
            machine: machine::describe(None),
            versions: machine::versions(),
            partial,
            report,
        })
    }

    fn file<R: Report>(&self, report: &R, partial: bool) -> Result<(), Failure> {
        let result = self.result.iter().map(|file| (file, self.json(report, partial)));
        let files = report.files().into_iter().chain(result);
        files.map(|(file, text)| file.write(&text)).fold(Ok(()), Result::and)
    }

    /// Prints the report. `part` is the sentence that precedes a partial report; `None` if the report is complete.
    fn print<R: Report>(&self, report: &R, part: Option<&str>) -> Result<(), Failure> {
        output::print(&if self.json {
            self.json(report, part.is_some())
        } else {
            format!("{}{}", part.unwrap_or_default(), report.in_words())
        })
    }

    /// Reports the outcomes so far when a signal ends the command.
    fn interrupted<S, R: Report>(&self, outcomes: &[Vec<S>], all: usize)
    where
        F: Fn(&[Vec<S>]) -> R,
    {
        let done = outcomes.iter().map(Vec::len).sum();
        if descendants::say_interrupted(done, all, "rounds", (done == 0).then_some("nothing has been measured yet")) {
            let report = (self.report)(outcomes);
            let part = format!("PARTIAL: the command was interrupted after {done} of {all} rounds. ");
            descendants::say_failures([self.file(&report, true), self.print(&report, Some(&part))]);
        }
    }
}
