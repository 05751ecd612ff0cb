//! `comity run`: any program, unmodified, as a member of the core table.
//!
//! This process becomes the command, by `exec`, and a copy of it, the coordinator, takes part in the table on its
//! behalf ([`coordinate`]). So whatever is done to the command is done to it: there is no process between it and
//! its terminal, its signals, its parent and its exit status. The coordinator is no child of it and in a session of
//! its own, and ends when the command has ended, whatever that died of. The command waits for nothing that it does.
//!
//! With `--report` it is different: this process starts the command, is its coordinator, and tells at the end
//! ([`report`]).

mod companion;
mod coordinate;
mod record;
mod report;
mod tree;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{self, Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use comity_console::loudness::{detail, hint};
use comity_console::{Failure, choices};
use comity_os::census::Stat;
use comity_os::pidfd::Pidfd;
use comity_os::{cores, detached, environment};
use comity_policy::Policy;
use comity_table::{Location, Member, Snapshot, TableError};

use self::coordinate::Terms;
use crate::weight;

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
  comity run --report make -j8
  comity run --report=make.json -- make -j8
  COMITY_TABLE=/srv/shared/comity comity run ./solver

What is shared is processor time: a command is entitled to an equal part of the
cores, by weight. While it could use that part (the processor time that all its
processes had, and the time that their threads waited for a core), it holds
cores of its own, and all threads of the command and of what it starts are kept
on them; alone it may use all. A thread that has bound itself to some cores
stays within them, as far as they are the command's. A command that uses less,
for it waits, or a quota of its control group stops it, holds no core: its
threads run where they like, on cores that others hold, and what it does not
use others have. The same while there are more programs than cores, which then
go round every 100 ms, and it is not its turn. See `comity table` for which
program has which core, and `comity table --help` for COMITY_TABLE.

With --cores auto the command desires as many cores as it has threads that run
or wait for a core; with --cores N it desires N. Either only while it could use
its part, of N cores at most: cores that it does not use are lent.
COMITY_POLICY=comity:share=slowdown, or time, has the command propose another
part than an equal one, as it has programs that use Comity. Under time, and in
every 16th frame under slowdown, it is out of turn while another has all cores.

The command has COMITY_TABLE=off, so that it is not counted twice, and
COMITY_RUN, by which what it starts is known. These variables, where they are
not set, say how many cores it may get: COMITY_NUM_THREADS, RAYON_NUM_THREADS,
OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, MKL_NUM_THREADS, BLIS_NUM_THREADS,
VECLIB_MAXIMUM_THREADS, NUMEXPR_MAX_THREADS, NUMBA_NUM_THREADS, GOMAXPROCS,
JULIA_NUM_THREADS, TOKIO_WORKER_THREADS, POLARS_MAX_THREADS,
CMAKE_BUILD_PARALLEL_LEVEL, CARGO_BUILD_JOBS.

This process becomes the command, so signals, the terminal and the exit status
are the command's own, SIGKILL included; only SIGPIPE, where it was ignored, is
at its default. A copy of this process beside it, with the name comity: and the
command's number, takes part in the table from 10 ms after the start (as the
first process of a container, the command gets it as a child that ends after
it); when the command ends, that leaves the table and lets go what the command
has left running. If it is killed or stopped, a copy of it, named comity+ and
the command's number, lets the threads go within a second; only if both are
killed at once do they stay on the cores that they had. Without a table that
can be used, the command runs all the same, after a line on standard error.

With --report this process stays, as that of time(1) does: the command is its
child. It hands on SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2, leaves SIGINT and
SIGQUIT of the terminal to the command, and ends as the command did: with its
exit code, or of the same signal. At the end it tells the time, the processor
time and the switches of the command and of what the command waited for, which
cores it used and held over time, what it lent, how long its threads waited for
a core, and an estimate of the time that the command would have taken alone:
each stretch counts for the part of the processor time that its threads could
have used there and had.

Exit codes: the command's own; 126 it cannot be executed; 127 it is not there;
2 the command line is at fault.";

/// Run any program as a member of the core table, so that it shares cores with others
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// How many cores it desires while it could use its part of them, or auto: as many as its threads can use
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_cores)]
    cores: Cores,
    /// How much it counts beside others, from 1 to 10000 [default: COMITY_WEIGHT, or 100]
    #[arg(long, value_name = "W", value_parser = weight::range())]
    weight: Option<u32>,
    /// At the end, tell what the command used, held, lent and lost, on standard error, or in FILE: as JSON if its
    /// name ends in .json
    // With a blank the file's name would be taken for the command.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    report: Option<Option<PathBuf>>,
    /// The program and its arguments; `--` before it ends the options
    // What begins with a hyphen before it is an option of this command, and refused if it is none; all that follows
    // is the program's.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
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

/// Runs the verb. Without a report it returns only if the command cannot be started.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let most = u32::try_from(cores::usable().get()).unwrap_or(u32::MAX);
    let desired = match arguments.cores {
        Cores::Auto => None,
        Cores::Number(number) if u32::from(number) <= most => Some(number.into()),
        Cores::Number(number) => {
            return Err(Failure::Usage(format!(
                "--cores {number} is more than the {most} that this process may use; give a number up to {most}, or auto"
            )));
        }
    };
    let weight = weight::chosen(arguments.weight)?;
    let report = arguments.report.as_ref().map(|path| report::Place::check(path.as_deref())).transpose()?;
    let [program, words @ ..] = arguments.command.as_slice() else { unreachable!("the parser asks for a command") };
    let process = std::process::id();
    let start = Stat::of_process(process).map_or(0, |stat| stat.start);
    let mark = tree::mark(process, start);
    let mut command = Command::new(program);
    command.args(words).env("COMITY_TABLE", "off").env(tree::MARK, &mark);
    let is_free = |variable: &&str| env::var_os(variable).is_none_or(|value| value.is_empty());
    let threads = desired.unwrap_or(most).to_string();
    command.envs(THREAD_VARIABLES.iter().filter(|variable| is_free(variable)).map(|variable| (variable, &threads)));
    let policy = policy()?;
    let terms = Terms { process, start, mark, name: name(program), policy, weight, cores: desired, most };
    let location = Location::from_environment();
    detail(|| {
        let weight = format!("weight: {weight} ({})", weight::chosen_by(arguments.weight));
        let (table, cores) = (choices::table(), choices::cores());
        let by = choices::variable(&["COMITY", "COMITY_POLICY"], "the default");
        format!(
            "comity: {table}\ncomity: {cores}\ncomity: {weight}\ncomity: policy: {policy} ({by})\ncomity: runs '{}' with {threads} threads",
            program.display()
        )
    });
    if let Some(place) = report {
        return report::run(&mut command, location, terms, &place).map_err(|error| not_started(program, &error));
    }
    if let Some(location) = location
        && let Err(why) = start_coordinator(location, &terms)
    {
        hint(goes_without(&why));
    }
    Err(not_started(program, &command.exec()))
}

/// By which the coordinator decides: what `COMITY_POLICY` says of `comity`. No other policy is written for commands.
fn policy() -> Result<Policy, Failure> {
    let is_off = environment::variable("COMITY").is_some_and(|switch| switch == "off");
    let Some(text) = environment::variable("COMITY_POLICY").filter(|_| !is_off) else { return Ok(Policy::default()) };
    let policy: Result<Policy, _> = text.to_string_lossy().parse();
    let policy = policy.map_err(|error| Failure::Usage(format!("COMITY_POLICY: {error}")))?;
    let is_default = policy.row().name == Policy::default().row().name;
    Ok(if is_default { policy } else { Policy::default() })
}

fn name(program: &OsStr) -> String {
    Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
}

/// Starts the process that takes part on behalf of this one, and waits for nothing that it does.
fn start_coordinator(location: Location, terms: &Terms) -> Result<(), String> {
    // The coordinator does not keep the folder from being unmounted, so a path from here must stand for itself.
    let location = match location {
        Location::At(path) => {
            let path = path::absolute(path).map_err(|error| format!("cannot tell the current folder: {error}"))?;
            Location::At(path)
        }
        Location::Own => Location::Own,
    };
    try_table(&location, terms).map_err(|error| error.to_string())?;
    let command = Pidfd::of_this_process().map_err(|error| format!("cannot be told of the command's end: {error}"))?;
    let name = format!("comity:{}", terms.process);
    detached::start(&name, command.as_fd(), || coordinate::run(&command, &location, terms))
        .map_err(|error| format!("cannot start a coordinator: {error}"))
}

/// Looks whether the table can be used, which is said also of a command that ends before its coordinator takes part.
fn try_table(location: &Location, terms: &Terms) -> Result<(), TableError> {
    if Snapshot::take(location)?.is_none() {
        // No other member is there that would hear of it.
        Member::join(location, &terms.profile())?;
    }
    Ok(())
}

fn goes_without(why: &str) -> String {
    format!("comity: {why}; the command runs without sharing cores")
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
