//! Many independent runs. They use all cores, are written to a file one by one, and can be divided among machines.
//!
//! With a folder, each completed run is a line of a file there, so an interrupted sweep can continue. With `--shard
//! i/n`, a command does only every n-th run. With `--merge`, a command takes the files of all shards, from one or
//! several folders. The results do not depend on the division of the runs among commands and threads.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::OnceLock;

use clap::Args;
use comity_console::{Failure, loudness};
use comity_papers::{Runner, Stop};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backend::workers_range;
use crate::filing::{Check, Filing, Header, Meanwhile, RUNS, take, unchecked};
use crate::progress::Progress;

/// Options of verbs that do many runs.
#[derive(Default, Args)]
pub struct Options {
    /// Folder for results. Each finished run is saved there at once. With the same folder, an interrupted command
    /// continues
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Do only the runs of shard I of N, from 1/N to N/N, and save them. For batch systems
    #[arg(long, value_name = "I/N", requires = "out")]
    pub shard: Option<Shard>,
    /// Use the runs saved in this folder, for example by shards, and do no others; can be repeated
    #[arg(long, value_name = "DIR", conflicts_with = "shard")]
    pub merge: Vec<PathBuf>,
    /// Number of threads [default: the usable cores]
    #[arg(long, value_name = "N", value_parser = workers_range())]
    pub workers: Option<u16>,
}

/// A shard: one of several parts of a sweep's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The index of the shard, from 0.
    nth: usize,
    of: usize,
}

impl Shard {
    /// Makes the shard `nth`, counted from 1, of `of` shards.
    ///
    /// # Panics
    /// If `nth` is 0 or greater than `of`.
    pub fn new(nth: usize, of: usize) -> Shard {
        assert!((1..=of).contains(&nth), "shard {nth} of {of}");
        Shard { nth: nth - 1, of }
    }

    /// Returns the shard as a part of a file's name, for example `2-of-8`.
    pub fn name(self) -> String {
        format!("{}-of-{}", self.nth + 1, self.of)
    }

    /// True if the file with this name has runs of this shard.
    pub fn is_file(self, name: &str) -> bool {
        name.strip_suffix(".jsonl").is_some_and(|stem| stem.ends_with(&format!("{SHARD}{}", self.name())))
    }

    fn has(self, run: usize) -> bool {
        run % self.of == self.nth
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.nth + 1, self.of)
    }
}

impl FromStr for Shard {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Shard, &'static str> {
        let numbers = text.split_once('/').and_then(|(nth, of)| Some((nth.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((nth, of)) if (1..=of).contains(&nth) => Ok(Shard::new(nth, of)),
            _ => Err("write I/N, from 1/N to N/N; for example, 2/8 is the second of eight shards"),
        }
    }
}

/// The runs of a command, with the pool that does them.
pub struct Sweep {
    options: Options,
    /// The settings on which all runs depend. A file with other settings is refused.
    setting: String,
    pool: comity::ThreadPool,
}

impl Sweep {
    /// Makes a sweep whose runs depend only on `setting` and on the number of runs. Makes the folder for results,
    /// too.
    pub fn new(options: Options, setting: String) -> Result<Sweep, Failure> {
        if let Some(out) = &options.out {
            Filing::folder(out)?;
        }
        let builder = comity::ThreadPoolBuilder::new();
        let builder = match options.workers {
            Some(workers) => builder.num_threads(workers.into()),
            None => builder,
        };
        let setting = format!("{setting}, simulator {}", comity_sim::REVISION);
        let pool = builder.build().map_err(|error| Failure::Run(error.to_string()))?;
        loudness::detail(|| {
            let out = options.out.as_deref().map_or_else(String::new, |out| format!(", filed in '{}'", out.display()));
            format!("{setting}\n{} threads{out}", pool.current_num_threads())
        });
        Ok(Sweep { options, setting, pool })
    }

    /// Returns the folder for results.
    pub fn out(&self) -> Option<&Path> {
        self.options.out.as_deref()
    }

    /// Returns the shard that this command does. `None` if the command does all runs.
    pub fn shard(&self) -> Option<Shard> {
        self.options.shard
    }

    /// Returns the message of a command that has done only its shard.
    pub fn elsewhere(&self) -> String {
        let shard = self.shard().map_or_else(String::new, |shard| shard.to_string());
        format!(
            "The runs of shard {shard} are done and saved. After all shards, give --merge with the folder of each \
             shard.\n"
        )
    }

    /// Returns the name of the file to which this command writes. Shards can share a folder, so their files have
    /// different names.
    fn file(&self, name: &str) -> String {
        match self.shard() {
            Some(shard) => format!("{name}{SHARD}{}.jsonl", shard.name()),
            None => format!("{name}.jsonl"),
        }
    }

    fn header(&self, runs: usize) -> Header {
        Header::new(self.setting.clone(), runs)
    }
}

/// The text before the shard in the name of a file.
const SHARD: &str = ".shard-";

impl Runner for Sweep {
    type Stop = Stop;

    fn run<R, W>(&self, name: &str, runs: usize, work: W) -> Result<Vec<R>, Stop>
    where
        R: Serialize + DeserializeOwned + Send + Sync,
        W: Fn(usize) -> R + Sync,
    {
        self.run_checked(name, runs, work, &unchecked)
    }

    fn is_part(&self) -> bool {
        self.shard().is_some()
    }
}

impl Sweep {
    /// Does the runs as [`Runner::run`] does. Also checks each outcome from a file with `check`, and refuses the file
    /// if it has an error.
    pub fn run_checked<R, W>(&self, name: &str, runs: usize, work: W, check: Check<'_, R>) -> Result<Vec<R>, Stop>
    where
        R: Serialize + DeserializeOwned + Send + Sync,
        W: Fn(usize) -> R + Sync,
    {
        let header = self.header(runs);
        let mut outcomes: Vec<OnceLock<R>> = Vec::new();
        outcomes.resize_with(runs, OnceLock::new);
        for folder in &self.options.merge {
            let folder = folder.join(RUNS);
            if !folder.is_dir() {
                let what = format!("there is no folder '{}'. Give the folder of an earlier --out", folder.display());
                return Err(Stop::Failed(Failure::Usage(what)));
            }
            read(&folder, name, &header, &outcomes, check)?;
        }
        let file = match self.out() {
            Some(out) => {
                let folder = out.join(RUNS);
                // A shard waits, because an engine can restart a shard before the killed process of this shard has
                // ended.
                let meanwhile = if self.shard().is_some() { Meanwhile::Wait } else { Meanwhile::Refuse };
                let own = Filing::open(&folder.join(self.file(name)), &header, &outcomes, check, meanwhile)?;
                // Runs in the files of shards in the same folder are done already.
                if self.shard().is_none() {
                    read(&folder, name, &header, &outcomes, check)?;
                }
                Some(own)
            }
            None => None,
        };
        let is_ours = |run: usize| self.shard().is_none_or(|shard| shard.has(run));
        let missing = |run: &usize| outcomes[*run].get().is_none();
        let ours: Vec<usize> = (0..runs).filter(|run| is_ours(*run)).filter(missing).collect();
        if !self.options.merge.is_empty() && !ours.is_empty() {
            let first: Vec<String> = ours.iter().take(5).map(|run| run.to_string()).collect();
            let count = ours.len();
            return Err(Stop::Failed(Failure::Run(format!(
                "{count} of the {runs} runs of '{name}' are missing in the --merge folders (number {} …). First run \
                 the shards that they belong to",
                first.join(", ")
            ))));
        }
        let progress = Progress::new(ours.len(), 0, "runs");
        progress.doing(|| name.to_owned());
        let failure = Mutex::new(None);
        self.pool.install(|| {
            comity::for_range(0..ours.len(), 1, |part| {
                for run in part.map(|nth| ours[nth]) {
                    // After an error of the file, the outcomes of further runs would be lost.
                    if failure.lock().expect("no run panics with it").is_some() {
                        return;
                    }
                    let outcome = work(run);
                    if let Some(Err(error)) = file.as_ref().map(|file| file.note(run, &outcome)) {
                        *failure.lock().expect("no run panics with it") = Some(error);
                    }
                    assert!(outcomes[run].set(outcome).is_ok(), "run {run} is run once");
                    progress.inc();
                }
            });
        });
        if !ours.is_empty() {
            progress.end_of_block(name);
        }
        progress.end();
        if let Some(error) = failure.into_inner().expect("no run panics with it") {
            return Err(Stop::Failed(error));
        }
        let outcomes: Option<Vec<R>> = outcomes.into_iter().map(OnceLock::into_inner).collect();
        outcomes.ok_or(Stop::Elsewhere)
    }
}

/// Stores the outcomes in a folder's files: the file of the whole sweep, and the files of its shards.
fn read<R: DeserializeOwned>(
    folder: &Path,
    name: &str,
    header: &Header,
    outcomes: &[OnceLock<R>],
    check: Check<'_, R>,
) -> Result<(), Failure> {
    let failed = |path: &Path, error| Failure::Run(format!("cannot read '{}': {error}", path.display()));
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        let stem = path.file_name().and_then(|file| file.to_str()?.strip_suffix(".jsonl"));
        if stem.is_some_and(|stem| stem.split(SHARD).next() == Some(name)) {
            let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
            take(&path, &bytes, header, outcomes, check)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(out: Option<&Path>, shard: Option<&str>, merge: &[&Path]) -> Sweep {
        let options = Options {
            out: out.map(Path::to_owned),
            shard: shard.map(|shard| shard.parse().unwrap()),
            merge: merge.iter().map(|path| path.to_path_buf()).collect(),
            workers: Some(2),
        };
        Sweep::new(options, "seed 1".into()).unwrap()
    }

    fn squares(sweep: &Sweep, runs: usize) -> Result<Vec<f64>, Stop> {
        sweep.run("squares", runs, |run| (run as f64).sqrt())
    }

    fn expected(runs: usize) -> Vec<f64> {
        (0..runs).map(|run| (run as f64).sqrt()).collect()
    }

    fn sentence(outcome: Result<Vec<f64>, Stop>) -> String {
        match outcome {
            Err(Stop::Failed(failure)) => failure.into_sentence(),
            Err(Stop::Elsewhere) => "elsewhere".into(),
            Ok(outcomes) => panic!("{outcomes:?}"),
        }
    }

    #[test]
    fn what_is_filed_is_not_run_again_and_comes_back_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let first = sweep(Some(folder.path()), None, &[]);
        assert!(squares(&first, 100).ok().unwrap() == expected(100));
        let again = first.run("squares", 100, |run| -> f64 { panic!("{run} is run again") });
        assert!(again.ok().unwrap() == expected(100));
    }

    #[test]
    fn an_interrupted_sweep_goes_on_after_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let sweep = sweep(Some(folder.path()), None, &[]);
        squares(&sweep, 20).ok().unwrap();
        let path = folder.path().join(RUNS).join("squares.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 7]).unwrap();
        let again = std::sync::atomic::AtomicU32::new(0);
        let outcomes = sweep.run("squares", 20, |run| {
            again.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            (run as f64).sqrt()
        });
        assert!(outcomes.ok().unwrap() == expected(20));
        assert_eq!(again.into_inner(), 1);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 21);
    }

    #[test]
    fn shards_together_are_the_whole() {
        let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
        for (nth, folder) in folders.iter().enumerate() {
            let shard = sweep(Some(folder.path()), Some(&format!("{}/3", nth + 1)), &[]);
            assert_eq!(sentence(squares(&shard, 10)), "elsewhere");
        }
        let all: Vec<&Path> = folders.iter().map(|folder| folder.path()).collect();
        assert!(squares(&sweep(None, None, &all), 10).ok().unwrap() == expected(10));
        let two = sentence(squares(&sweep(None, None, &all[..2]), 10));
        // All shards write to one folder. The whole sweep with this folder then has no run left to do.
        let one = tempfile::tempdir().unwrap();
        for nth in 1..=3 {
            let shard = sweep(Some(one.path()), Some(&format!("{nth}/3")), &[]);
            assert_eq!(sentence(squares(&shard, 10)), "elsewhere");
        }
        assert!(squares(&sweep(None, None, &[one.path()]), 10).ok().unwrap() == expected(10));
        let whole = sweep(Some(one.path()), None, &[]);
        let again = whole.run("squares", 10, |run| -> f64 { panic!("{run} is run again") });
        assert!(again.ok().unwrap() == expected(10));
        assert!(two.contains("3 of the 10 runs of 'squares'") && two.contains("number 2, 5, 8"), "{two}");
    }

    #[test]
    fn two_at_once_do_not_file_in_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let sweep = sweep(Some(folder.path()), None, &[]);
        let outcomes = sweep.run("squares", 2, |run| {
            let meanwhile = sentence(squares(&sweep, 2));
            assert!(meanwhile.contains("another command saves its runs there"), "{meanwhile}");
            (run as f64).sqrt()
        });
        assert!(outcomes.ok().unwrap() == expected(2));
        assert!(squares(&sweep, 2).ok().unwrap() == expected(2));
    }

    #[test]
    fn files_of_another_setting_and_broken_lines_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let sweep = sweep(Some(folder.path()), None, &[]);
        squares(&sweep, 3).ok().unwrap();
        let other = sentence(squares(&sweep, 4));
        assert!(other.contains("line 1: it has runs of another setting"), "{other}");
        let path = folder.path().join(RUNS).join("squares.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen("outcome", "income", 1)).unwrap();
        assert!(sentence(squares(&sweep, 3)).contains("line 2: not a run"));
        fs::write(&path, format!("{text}{}\n", text.lines().last().unwrap())).unwrap();
        assert!(sentence(squares(&sweep, 3)).contains("is in line 4 too"));
    }

    #[test]
    fn a_shard_is_one_of_so_many() {
        assert_eq!("2/8".parse::<Shard>().unwrap().to_string(), "2/8");
        for wrong in ["0/4", "5/4", "1", "1/0", "a/b", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
