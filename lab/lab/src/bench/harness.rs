//! How every bench measures: blocks one after the other, each of so many rounds. After each round there is
//! something to tell, and a signal that ends the command has it told. With `--out` each round is filed at once, and
//! the same command goes on where it was.

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

/// A bench, as it is run and reported.
pub struct Harness<'a> {
    /// The bench, as on the command line.
    pub name: &'static str,
    /// What a round depends on, besides its block, the machine and the versions.
    pub setting: String,
    /// Whether the programs of the bench share cores by a core table of their own.
    pub has_own_table: bool,
    /// In their order.
    pub blocks: Vec<Block>,
    /// Whether JSON is printed instead of words.
    pub json: bool,
    /// A folder for results, in which each round is filed at once.
    pub out: Option<&'a Path>,
}

/// Rounds that belong together.
pub struct Block {
    /// What is measured in it, and by what it depends on more than on the setting.
    pub name: String,
    /// How many rounds.
    pub rounds: usize,
}

impl Block {
    /// One for each round: where a round takes seconds, each has a line of progress.
    pub fn each_round(rounds: u32) -> Vec<Block> {
        (1..=rounds).map(|nth| Block { name: format!("round {nth}"), rounds: 1 }).collect()
    }
}

/// A round that is to be run.
#[derive(Clone, Copy)]
pub struct Turn {
    /// The block, by its place.
    pub block: usize,
    /// The round within the block, from 0.
    pub round: usize,
    /// Whether this process has run none of the block yet: what has to be warm is not.
    pub is_first: bool,
}

impl Turn {
    /// Measures each of these once, in their order or another. Over the blocks, each comes first once.
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

/// An empty table, as all benches print it.
pub fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table
}

/// What a bench tells of its rounds.
pub trait Report: Serialize {
    /// Of its JSON's schema: a field that changes its meaning, or is no more, makes it another.
    const SCHEMA: u32 = 1;

    /// For people.
    fn in_words(&self) -> String;

    /// Files that were asked for, and what is to be in them.
    fn files(&self) -> Vec<(&ResultFile, String)> {
        Vec::new()
    }
}

/// The JSON of a bench.
#[derive(Serialize)]
struct Framed<'a, R> {
    schema: String,
    machine: Machine,
    versions: Versions,
    /// Whether a signal ended the command before all rounds were done.
    partial: bool,
    #[serde(flatten)]
    report: &'a R,
}

/// The rounds that are done, by block.
type Record<S> = Arc<Mutex<Vec<Vec<S>>>>;

/// How the outcomes are told, and where.
struct Teller<F> {
    name: &'static str,
    report: F,
    json: bool,
    result: Option<ResultFile>,
}

impl Harness<'_> {
    /// Runs all rounds, and tells what came out. `report` is given what is done, by block.
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
        let record: Record<S> = Arc::new(Mutex::new(found));
        let teller = Arc::new(Teller { name: self.name, report, json: self.json, result });
        descendants::look_after()?;
        let (interrupted, told) = (Arc::clone(&record), Arc::clone(&teller));
        descendants::at_a_signal(move || {
            let record = comity_os::lock(&interrupted);
            told.interrupted(&record, all);
            // For ever: no block is told after the part that it is not in.
            std::mem::forget(record);
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
            let from = comity_os::lock(&record)[block].len();
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
                let mut record = comity_os::lock(&record);
                record[block].push(outcome);
                progress.inc();
                if turn + 1 == *rounds {
                    progress.end_of_block(name);
                }
            }
            nth += rounds;
        }
        progress.end();
        let report = (teller.report)(&comity_os::lock(&record));
        let filed = descendants::finish(|| teller.file(&report, false));
        filed.and(teller.print(&report, None))
    }

    fn all(&self) -> usize {
        self.blocks.iter().map(|block| block.rounds).sum()
    }

    /// Where rounds are filed, which ones are, and where the result goes.
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
        // Rounds are filed in their order, so those of a block are its first.
        let mut found = Vec::new();
        for block in &self.blocks {
            let own: Vec<Option<S>> = outcomes.by_ref().take(block.rounds).collect();
            let first = own.iter().take_while(|round| round.is_some()).count();
            if own.iter().skip(first).any(Option::is_some) {
                let what = format!("round {first} of '{}' is missing before later ones", block.name);
                return Err(Failure::Usage(format!(
                    "'{}': {what}; put its line back, or choose another --out",
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

    /// Where it is a part, `part` says so before the words.
    fn print<R: Report>(&self, report: &R, part: Option<&str>) -> Result<(), Failure> {
        output::print(&if self.json {
            self.json(report, part.is_some())
        } else {
            format!("{}{}", part.unwrap_or_default(), report.in_words())
        })
    }

    /// When a signal ends the command.
    fn interrupted<S, R: Report>(&self, record: &[Vec<S>], all: usize)
    where
        F: Fn(&[Vec<S>]) -> R,
    {
        let done = record.iter().map(Vec::len).sum();
        if descendants::say_interrupted(done, all, "rounds", (done == 0).then_some("nothing has been measured yet")) {
            let report = (self.report)(record);
            let part = format!("A PART, for the command was interrupted after {done} of {all} rounds. ");
            descendants::say_failures([self.file(&report, true), self.print(&report, Some(&part))]);
        }
    }
}
