//! `comity run`: any program, unmodified, as a member of the core table.
//!
//! This process becomes the command, by `exec`, and a coordinator beside it takes part in the table on its behalf
//! ([`coordinate`]). So whatever is done to the command is done to it: there is no process between it and its terminal, its
//! signals, its parent and its exit status. The coordinator is nobody's child and in a session of its own, and ends when the
//! command has ended, whatever that died of.

pub mod coordinate;
mod demand;
mod tree;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use comity_os::census::Stat;
use comity_os::{cores, process};
use comity_table::Location;

use crate::failure::Failure;

/// What the coordinator says when it takes part.
const JOINED: &str = "joined";

/// The weight of a program that says nothing, and the largest, as pools have it.
const USUAL_WEIGHT: u32 = 100;
const MOST_WEIGHT: u32 = 10_000;

/// Where common runtimes and tools read how many threads to start.
const THREAD_VARIABLES: [&str; 15] = [
    "COMITY_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMBA_NUM_THREADS",
    "GOMAXPROCS",
    "JULIA_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "POLARS_MAX_THREADS",
    "CMAKE_BUILD_PARALLEL_LEVEL",
    "CARGO_BUILD_JOBS",
];

const EXAMPLES: &str = "Examples:
  comity run make -j8
  comity run --weight 300 -- python train.py --epochs 3
  comity run --cores 2 ffmpeg -i in.mkv out.mp4
  COMITY_TABLE=/srv/shared/comity comity run ./solver

While other programs of the core table have work, all threads of the command and of what it starts are kept on the
cores that are its own; alone it may use all. A thread that has bound itself to some cores stays within them, as far
as they are the command's. While it has no core at all (more programs than cores, which then go round every 100 ms)
its threads run where they like. See `comity table` for who has which core, and `comity table --help` for
COMITY_TABLE.

With --cores auto the command desires as many cores as it has threads that run or wait for a core, looked at every 10
ms; one that does nothing desires none. With --cores N it desires N while it lives.

The command has COMITY_TABLE=off, so that it is not counted twice, and COMITY_RUN, by which what it starts is known.
These variables, where they are not set, say how many cores it may get: COMITY_NUM_THREADS, RAYON_NUM_THREADS,
OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, MKL_NUM_THREADS, BLIS_NUM_THREADS, VECLIB_MAXIMUM_THREADS, NUMEXPR_MAX_THREADS,
NUMBA_NUM_THREADS, GOMAXPROCS, JULIA_NUM_THREADS, TOKIO_WORKER_THREADS, POLARS_MAX_THREADS,
CMAKE_BUILD_PARALLEL_LEVEL, CARGO_BUILD_JOBS.

This process becomes the command, so signals, the terminal and the exit status are the command's own, SIGKILL
included; only SIGPIPE, where it was ignored, is at its default. A process beside it, `comity coordinate`, takes part
in the table (as the first process of a container, the command gets it as a child that ends after it); when the
command ends, that leaves the table and lets go what the command has left running. Only if that one is killed
(SIGKILL) do threads stay on the cores that they had. Without a table that can be used, the command runs all the same,
after a line on standard error.

Exit codes: the command's own; 126 it cannot be executed; 127 it is not there; 2 the command line is at fault.";

/// Run any program as a member of the core table, so that it shares cores with others
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// How many cores it desires, or auto: as many as its threads can use
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_cores)]
    cores: Cores,
    /// How much it counts beside others, from 1 to 10000 [default: COMITY_WEIGHT, or 100]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_WEIGHT)))]
    weight: Option<u32>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy)]
enum Cores {
    Auto,
    Number(u16),
}

fn parse_cores(text: &str) -> Result<Cores, String> {
    let number = || text.parse().ok().filter(|number| *number > 0).map(Cores::Number);
    let cores = if text == "auto" { Some(Cores::Auto) } else { number() };
    cores.ok_or_else(|| "give a whole number from 1, or auto".to_owned())
}

/// Runs the verb. It returns only if the command cannot be started.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let most = u16::try_from(cores::usable().get()).unwrap_or(u16::MAX);
    let desired = match arguments.cores {
        Cores::Auto => None,
        Cores::Number(number) if number <= most => Some(number),
        Cores::Number(number) => {
            return Err(Failure::Usage(format!(
                "--cores {number} is more than the {most} that this process may use; give a number up to {most}, or auto"
            )));
        }
    };
    let weight = arguments.weight.map_or_else(weight_from_environment, Ok)?;
    let [program, words @ ..] = arguments.command.as_slice() else { unreachable!("the parser asks for a command") };
    if let Some(location) = Location::from_environment()
        && let Err(why) = start_coordinator(&location, name(program), weight, desired, most)
    {
        eprintln!("comity: {why}; the command runs without sharing cores");
    }
    let mut command = Command::new(program);
    command.args(words).env("COMITY_TABLE", "off");
    let own = std::process::id();
    command.envs(Stat::of_process(own).map(|stat| (tree::MARK, tree::mark(own, stat.start))));
    let is_free = |variable: &&str| env::var_os(variable).is_none_or(|value| value.is_empty());
    let threads = desired.unwrap_or(most).to_string();
    command.envs(THREAD_VARIABLES.iter().filter(|variable| is_free(variable)).map(|variable| (variable, &threads)));
    Err(not_started(program, &command.exec()))
}

fn weight_from_environment() -> Result<u32, Failure> {
    let text = match env::var_os("COMITY_WEIGHT") {
        Some(text) if !text.is_empty() => text,
        _ => return Ok(USUAL_WEIGHT),
    };
    let weight = text.to_str().and_then(|text| text.parse().ok()).filter(|weight| (1..=MOST_WEIGHT).contains(weight));
    weight.ok_or_else(|| {
        let text = text.display();
        Failure::Usage(format!(
            "COMITY_WEIGHT={text} is not a whole number from 1 to {MOST_WEIGHT}; {USUAL_WEIGHT} is usual"
        ))
    })
}

fn name(program: &OsStr) -> String {
    Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
}

/// Starts the process that takes part on behalf of this one, and waits until it does.
fn start_coordinator(
    location: &Location,
    name: String,
    weight: u32,
    desired: Option<u16>,
    most: u16,
) -> Result<(), String> {
    let mut command = Command::new(env::current_exe().map_err(|error| format!("cannot find itself: {error}"))?);
    command.arg0("comity").args(["coordinate", "--process", &std::process::id().to_string()]);
    command.args(["--weight", &weight.to_string(), "--most", &most.to_string()]);
    command.args(desired.map(|desired| format!("--cores={desired}")));
    // Within another command it is none of that command's processes.
    command.env_remove(tree::MARK);
    command.arg(format!("--name={name}"));
    // It does not keep the folder from being unmounted, so a path from here must stand for itself.
    if let Location::At(path) = location {
        let path = std::path::absolute(path).map_err(|error| format!("cannot tell the current folder: {error}"))?;
        command.env("COMITY_TABLE", path);
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let started = process::start_detached(&mut command);
    let mut coordinator = started.map_err(|error| format!("cannot start a coordinator: {error}"))?;
    let mut line = String::new();
    if let Some(answer) = coordinator.stdout.take() {
        // Without a line it has ended.
        let _none: io::Result<usize> = BufReader::new(answer).read_line(&mut line);
    }
    match line.trim_end() {
        JOINED => Ok(()),
        "" => Err("its coordinator has ended".to_owned()),
        why => Err(why.to_owned()),
    }
}

fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    let program = program.display();
    match error.kind() {
        io::ErrorKind::NotFound => Failure::Start(
            format!("cannot run '{program}': there is no such program; give its path or look at PATH"),
            127,
        ),
        _ => Failure::Start(format!("cannot run '{program}': {error}"), 126),
    }
}
