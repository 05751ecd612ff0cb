//! The engines that queue, place and restart the shards. There is one file per engine.

mod hyperqueue;
mod slurm;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use clap::ValueEnum;
use comity_console::Failure;
use comity_console::loudness::{detail, hint};

use super::file::{Campaign, Hyperqueue, Slurm};

/// The place where a sweep runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Here, on the threads of this command, without shards
    Local,
    /// A task array of HyperQueue; its server must run
    Hyperqueue,
    /// A job array of Slurm
    Slurm,
}

/// The array of shards that an engine runs.
pub struct Array<'a> {
    /// The shards to run, counted from 1, in ascending order.
    shards: Vec<usize>,
    /// The number of shards of the sweep.
    of: usize,
    /// The name of the array in the engine.
    name: String,
    /// The command of a shard, without the option for the shard.
    command: Vec<OsString>,
    /// The current folder of all tasks.
    folder: PathBuf,
    /// The folder in which each task writes its output, as `I.log`.
    logs: PathBuf,
    cpus: u16,
    restarts: u32,
    hyperqueue: &'a Hyperqueue,
    slurm: &'a Slurm,
}

impl Engine {
    /// Runs the shards by the engine, and waits until the engine has ended. The exit status does not show which
    /// shards succeeded: see their notes ([`Part::is_done`](super::part::Part::is_done)).
    ///
    /// # Errors
    /// If the engine is not installed or cannot be run.
    ///
    /// # Panics
    /// If the engine is [`Engine::Local`], which has no shards.
    pub fn run(self, array: &Array<'_>) -> Result<ExitStatus, Failure> {
        let (name, (mut command, input)) = match self {
            Engine::Local => panic!("what runs here has no shards"),
            Engine::Hyperqueue => ("HyperQueue", (hyperqueue::submission(array)?, None)),
            Engine::Slurm => ("Slurm", (slurm::submission(array)?, Some(slurm::script(array)))),
        };
        let program = command.get_program().to_string_lossy().into_owned();
        detail(|| {
            // A word with a line break is a script, which is too long to print.
            let words = command.get_args().map(|word| word.to_string_lossy()).filter(|word| !word.contains('\n'));
            format!("{program} {}", words.collect::<Vec<_>>().join(" "))
        });
        let count = array.shards.len();
        let (of, logs) = (array.of, array.logs.display());
        hint(format!("{count} of {of} shards are submitted to {name}; their output is in '{logs}'"));
        // The engine's output goes to standard error, because standard output is for results.
        let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
        #[expect(clippy::disallowed_methods, reason = "the engine writes there")]
        let child = command.stdin(stdin).stdout(io::stderr()).spawn();
        let mut child = child.map_err(|error| Failure::Run(format!("cannot run '{program}': {error}")))?;
        if let Some((mut pipe, text)) = child.stdin.take().zip(input) {
            // A write error is ignored: an engine that does not read its input has refused the array, and prints the
            // reason.
            let _ = io::Write::write_all(&mut pipe, text.as_bytes());
        }
        child.wait().map_err(|error| Failure::Run(format!("cannot wait for {name}: {error}")))
    }
}

/// True if a program exists and succeeds with these words.
fn answers(program: &str, words: &[&str]) -> bool {
    let status =
        Command::new(program).args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl<'a> Array<'a> {
    /// Makes the array that runs `shards` of the sweep in `file`.
    pub fn new(file: &Path, campaign: &'a Campaign, shards: Vec<usize>) -> Result<Array<'a>, Failure> {
        let here = |error: io::Error| Failure::Run(format!("cannot find the current folder or this program: {error}"));
        let (program, folder) = (env::current_exe().map_err(here)?, env::current_dir().map_err(here)?);
        let logs = campaign.out.join("logs");
        fs::create_dir_all(&logs).map_err(|error| {
            Failure::Usage(format!("cannot create the folder '{}': {error}. Choose another out", logs.display()))
        })?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let command =
            vec![program.into(), "sweep".into(), file.into(), "--workers".into(), campaign.cpus.to_string().into()];
        let Campaign { shards: of, cpus, restarts, hyperqueue, slurm, .. } = campaign;
        let (of, cpus, restarts) = (*of, *cpus, *restarts);
        let name = format!("comity-{stem}");
        Ok(Array { shards, of, name, command, folder, logs, cpus, restarts, hyperqueue, slurm })
    }

    /// Returns the shards in the notation that both engines use, for example `1-3,5`.
    fn ids(&self) -> String {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for shard in &self.shards {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == *shard => *last = *shard,
                _ => ranges.push((*shard, *shard)),
            }
        }
        let each = ranges.iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
        each.collect::<Vec<_>>().join(",")
    }

    /// Returns the error message for an array with shards that are not done.
    pub fn not_done(&self, left: &[usize], ended: &ExitStatus) -> String {
        let of = self.of;
        let which: Vec<String> = left.iter().take(5).map(usize::to_string).collect();
        let which = which.join(", ") + if left.len() > 5 { ", …" } else { "" };
        let first = self.logs.join(format!("{}.log", left[0]));
        let said = fs::read_to_string(&first).ok().and_then(|text| {
            let last = text.lines().rfind(|line| !line.trim().is_empty())?;
            Some(format!("'{}' ends with: {last}", first.display()))
        });
        let said = said.unwrap_or_else(|| format!("'{}' has not been written to", first.display()));
        format!(
            "{} of {of} shards are not done (number {which}), and the engine ended with {ended}; {said}\nThe same \
             command continues; saved runs are not done again",
            left.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an array for the tests of an engine.
    pub fn array<'a>(hyperqueue: &'a Hyperqueue, slurm: &'a Slurm, shards: &[usize]) -> Array<'a> {
        Array {
            shards: shards.to_vec(),
            of: 8,
            name: "comity-sweep".to_owned(),
            command: ["/bin/lab", "sweep", "/a b/sweep.toml"].map(OsString::from).to_vec(),
            folder: "/here".into(),
            logs: "/a b/out/logs".into(),
            cpus: 2,
            restarts: 4,
            hyperqueue,
            slurm,
        }
    }

    /// Returns the words of a command, the program first.
    pub fn words(command: &Command) -> Vec<String> {
        let all = [command.get_program()].into_iter().chain(command.get_args());
        all.map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn shards_are_written_as_ranges() {
        let (hyperqueue, slurm) = Default::default();
        for (shards, expected) in
            [(&[1, 2, 3, 4][..], "1-4"), (&[3], "3"), (&[1, 3, 4, 8], "1,3-4,8"), (&[1, 2, 4], "1-2,4")]
        {
            assert_eq!(array(&hyperqueue, &slurm, shards).ids(), expected);
        }
    }

    #[test]
    fn what_is_not_done_is_told_with_the_last_word_of_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let (hyperqueue, slurm) = Default::default();
        let array = Array { logs: folder.path().to_owned(), ..array(&hyperqueue, &slurm, &[2, 3]) };
        let ended = Command::new("false").status().unwrap();
        let silent = array.not_done(&[2, 3], &ended);
        assert!(silent.contains("2 of 8 shards are not done (number 2, 3)") && silent.contains("has not been written"));
        fs::write(folder.path().join("2.log"), "runs\nerror: the scenario is wrong\n\n").unwrap();
        let told = array.not_done(&[2, 3], &ended);
        assert!(told.contains("2.log' ends with: error: the scenario is wrong") && told.contains("exit status: 1"));
    }
}
