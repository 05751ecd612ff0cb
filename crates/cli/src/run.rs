//! The verb `comity run`: runs any unmodified program as a member of the core table.
//!
//! This process becomes the command, by `exec`. A copy of this process, the coordinator, is the command's member of
//! the table ([`coordinate`]). Therefore no process stands between the command and its terminal, its signals, its
//! parent and its exit status. The coordinator is not a child of the command and has its own session. It ends when
//! the command has ended, for any reason. The command never waits for the coordinator.
//!
//! With `--report`, this process starts the command, is its coordinator, and reports at the end ([`report`]).

mod adopted;
mod companion;
mod coordinate;
mod defaults;
mod history;
pub mod jobserver;
mod report;
mod roster;
mod taker;
mod terms;
mod tokens;
mod tree;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::iter;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{self, Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use comity_console::loudness::{detail, hint};
use comity_console::{Failure, choices};
use comity_os::affinity;
use comity_os::census::{self, Stat};
use comity_os::cpu_clock::ThreadId;
use comity_os::pidfd::Pidfd;
use comity_os::{cores, detached, environment, process, streams, task_group};
use comity_policy::Policy;
use comity_table::{Location, Member, Snapshot, TableError};

pub use self::adopted::is_of_comity;
use self::defaults::Defaults;
use self::jobserver::Style;
pub use self::terms::Terms;
pub use self::tokens::Tokens;
pub use self::tree::{MARK, Tree, command_lives, mark};
use crate::{label, weight};

/// The variables that `--cores N` sets to N. Runtimes and tools read from them how many threads or jobs to start.
/// `comity run` without `--cores` sets no variable, because most tools then count the cores and adapt.
/// OpenBLAS, MKL, BLIS, numexpr and nproc read `OMP_NUM_THREADS`. The list leaves out variables that forbid a larger
/// number later (`NUMBA_NUM_THREADS`, `NUMEXPR_MAX_THREADS`), and `CMAKE_BUILD_PARALLEL_LEVEL`, because a
/// `cmake --build` that finds it ignores the jobserver of its caller.
const THREAD_VARIABLES: [&str; 8] = [
    "COMITY_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "OMP_NUM_THREADS",
    "GOMAXPROCS",
    "TOKIO_WORKER_THREADS",
    "POLARS_MAX_THREADS",
    "CARGO_BUILD_JOBS",
    "PYTEST_XDIST_AUTO_NUM_WORKERS",
];

const EXAMPLES: &str = "Examples:
  comity run make -j8
  comity run --weight 300 -- python train.py --epochs 3
  comity run --cores 2 ffmpeg -i in.mkv out.mp4
  comity run --report make -j8
  comity run --report=make.json -- make -j8
  comity run --label agent-1 ./agent
  COMITY_TABLE=/srv/shared/comity comity run ./solver

Comity shares processor time. Each program in the core table is entitled to a
share of the cores, in proportion to its weight. `comity table` shows which
program has which core. `comity table --help` explains COMITY_TABLE.

A command that can use its whole share holds cores. If it has more runnable
threads than cores, an affinity mask keeps its threads on these cores. A mask
that the program has set itself stays in force. A command has no mask if it has
fewer threads than cores, or is alone in the table. A command that uses less
than its share holds no core and runs on any core.

If there are more programs than cores, they take turns of up to 100 ms. Outside
its turn, a command is frozen in a control group that `comity run` makes for it.
A process can see the group only in /proc/PID/cgroup. If `comity run` cannot
make a group (see `comity doctor`), it stops the processes (SIGSTOP). It never
stops a process that is traced, that traces another process, or whose parent
could notice the stop.

A command is a team if one of its processes has several runnable threads. Such
threads may wait for each other: on one core, each would wait for the time slice
of another. Therefore programs run one after the other if one is a team, and
each has all cores in its turn. This needs two conditions:
  - The command has no core limit (--cores).
  - All programs are commands that can be frozen and can use all cores.
`comity table --wide` and `comity top` then show the word `turns`.

Some commands hold no core, have no mask, and are never stopped. The operating
system alone divides their time. `comity table --wide` and `comity top` show the
reason:
  team  It is a team, but the conditions for turns do not hold.
  nice  Most of its work is done at a nice value above 0 or in SCHED_IDLE, and
        neither --weight nor COMITY_WEIGHT is set.
  even  There are more programs than cores, and all have the same number of
        threads per weight. Equal time per thread then gives each its share.
  group Each program has its own task group (a session under autogroup, or a
        control group), and the weights of the groups are those of the programs.
        `comity doctor` prints which groups the kernel has.

The default weight follows the nice value: 100 for nice 0, 33 for nice 5, 1 for
nice 19. A weight below 100 also sets the matching nice value, which has an
effect relative to programs outside of the table. If sessions are task groups
and the command is the first process of its session, the session gets the nice
value. A weight above 100 has an effect in the table only.

--cores N limits the command even if it is alone in the table: if more than N
threads are runnable, a mask keeps them on N cores. It also sets these
variables to N, unless they are set: COMITY_NUM_THREADS, RAYON_NUM_THREADS,
OMP_NUM_THREADS, GOMAXPROCS, TOKIO_WORKER_THREADS, POLARS_MAX_THREADS,
CARGO_BUILD_JOBS, PYTEST_XDIST_AUTO_NUM_WORKERS.

A build runs as many jobs at a time as the share of the command has cores, if it
gives no number of jobs itself. For this, `comity run` offers the command a
jobserver, by the protocol of GNU make. MAKEFLAGS names it. make without -j,
ninja from 1.13, cargo, rustc and GCC's -flto=auto use it. A jobserver that
MAKEFLAGS already names stays in force if it works. With GNU make before 4.4,
the jobserver is a pipe: a program that closes inherited descriptors keeps its
builds from finding it. --report names them. `comity -q run make` inside opens
the pipe again. `make -j8` and `ninja -j8` use no jobserver. In a script, cargo
ignores -j if it has a jobserver. A Makefile that is not ready for several jobs
needs --no-jobserver.

Two files have defaults for weight, cores, label and jobserver: .comity.toml in
the current folder or a folder above it, and ~/.config/comity.toml. For example:
  weight = 50
  label = \"agent\"
  jobserver = \"off\"
The first precedes. Options and variables of the environment precede both.

COMITY_POLICY=comity:share=slowdown or comity:share=time requests another
division of the cores. All programs must request the same division. With
share=time, each program has all cores in its turn. With share=slowdown, this is
so in every 16th round of turns.

The command gets three variables, and MAKEFLAGS:
  COMITY_TABLE=off  Its programs do not join the table on their own.
  COMITY_RUN        A mark by which `comity run` finds the command's processes.
  COMITY_RUN_TABLE  The table for `comity table`, `comity top` and `comity set`.
A `comity run` inside of the command starts a part of the same command. It
prints which of its options have no effect. The same is true inside of a command
that `comity adopt` has taken in.

`comity run` becomes the command by exec. Process number, signals, terminal and
exit status are therefore the command's own. Only SIGPIPE is set to its default
if it was ignored. Two more processes exist for the command, whose number is N:
  comity:N  Joins the table for the command, 10 ms after its start. It is a
            child of the command if the command is the first process of a
            container.
  comity+N  Removes the masks and thaws the command if comity:N is killed or
            stopped. If both are killed at once, the masks stay, and the command
            stays frozen until the next `comity run` in its control group.

If no table can be used, `comity run` prints the reason and runs the command
without a table. If the first process of a container does not wait for orphans,
`comity run` waits for the command, as with --report. Then no zombies are left.

With --report or --session, `comity run` waits for the command, which is its
child, as with time(1). It passes on SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2. The
terminal sends SIGINT and SIGQUIT to the command; with --session, `comity run`
passes them on to the command's process group. `comity run` ends with the exit
code or the signal of the command.

The report has the elapsed time, the processor time, the context switches, the
cores used, held and lent over time, and the time spent waiting for a core. It
also estimates the elapsed time without other programs: the sum of (elapsed
time) x (processor time used / processor time needed) over short stretches.

Exit codes: the command's own; 126: the command cannot be executed; 127: there
is no such command; 2: invalid command line.";

/// Run any program so that it shares cores with the other programs of the core table
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Maximum number of cores that the command uses. `auto` sets no maximum [default: auto]
    #[arg(long, value_name = "N", value_parser = parse_cores, allow_negative_numbers = true)]
    cores: Option<Cores>,
    /// Weight of the command relative to other programs, 1 to 10000 [default: COMITY_WEIGHT, or the weight of its nice
    /// value, which is 100 for nice 0]
    #[arg(long, value_name = "W", value_parser = weight::range(), allow_negative_numbers = true)]
    weight: Option<u32>,
    /// Start the command in its own session. If the kernel divides processor time among sessions, the command then
    /// needs no mask and no stop, and a weight below 100 has an effect relative to all other sessions. Ctrl-C and
    /// SIGQUIT are passed on. Ctrl-Z has no effect, and the command has no controlling terminal
    #[arg(long)]
    session: bool,
    /// When the command ends, print a report on standard error, or write it to FILE, as JSON if its name ends in .json
    // Without the equals sign, clap would take the file's name for the command.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    report: Option<Option<PathBuf>>,
    /// Name of the command in `comity table`, `top` and `set`: 1 to 32 bytes, not a number [default: COMITY_LABEL, or the
    /// name of the program]
    #[arg(long, value_name = "NAME", value_parser = label::parse)]
    label: Option<String>,
    /// Form of the jobserver for builds in the command [default: auto]
    #[arg(long, value_name = "STYLE", value_enum)]
    jobserver: Option<Style>,
    /// Offer no jobserver
    #[arg(long, conflicts_with = "jobserver")]
    no_jobserver: bool,
    /// Program and its arguments. `--` before the program ends the options
    // A word before the command that begins with a hyphen is an option of `comity run`, or an error. All words after
    // the command are its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Arguments {
    /// Returns the form of the jobserver. `None`: no jobserver.
    fn style(&self, defaults: &Defaults) -> Option<Style> {
        match self.jobserver {
            Some(style) => Some(style),
            None if self.no_jobserver => None,
            None => defaults.jobserver.unwrap_or(Some(Style::Auto)),
        }
    }
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

/// Runs the verb. Without a report, returns only if the command cannot be started.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let most = u32::try_from(cores::usable().get()).unwrap_or(u32::MAX);
    let outer = Location::around();
    let process_id = std::process::id();
    let is_marked = outer.is_some() && tree::outer_command_lives();
    let location = Location::from_environment().or(outer).and_then(rooted);
    let seen = location.as_ref().map_or(Ok(None), Snapshot::take);
    let adopted = || seen.as_ref().ok()?.as_ref()?.adopted_around(process_id)?.keeper();
    let adopted = if is_marked { None } else { adopted() };
    let is_part = is_marked || adopted.is_some();
    let defaults = if is_marked { Defaults::default() } else { Defaults::read()? };
    let style = arguments.style(&defaults);
    let number = match arguments.cores {
        None => defaults.cores,
        Some(Cores::Auto) => None,
        Some(Cores::Number(number)) => Some(number),
    };
    let desired = number.map(|number| u32::from(number).min(most));
    if let Some(number) = number.filter(|number| u32::from(*number) > most) {
        hint(format!("comity: --cores {number} is more than the number of usable cores, {most}. Using {most}."));
    }
    let said = arguments.weight.or(defaults.weight.filter(|_| !weight::is_chosen(None)));
    let weight = weight::chosen(said)?;
    let label = label::chosen(arguments.label.as_ref())?.or(defaults.label);
    let report = arguments.report.as_ref().map(|path| report::Place::check(path.as_deref())).transpose()?;
    let [program, words @ ..] = arguments.command.as_slice() else { unreachable!("the parser asks for a command") };
    let start = Stat::of_process(process_id).map_or(0, |stat| stat.start);
    let mut command = Command::new(program);
    command.args(words);
    streams::stay_closed(&mut command);
    if let Some(desired) = desired {
        #[expect(clippy::disallowed_methods, reason = "they are the command's variables")]
        let is_free = |variable: &&str| env::var_os(variable).is_none_or(|value| value.is_empty());
        let free = THREAD_VARIABLES.iter().filter(|variable| is_free(variable));
        command.envs(free.map(|variable| (variable, desired.to_string())));
    }
    if is_part {
        // The outer coordinator finds the processes of this command by the outer mark, so that mark is kept. In an
        // adopted command, the programs of this command must not join the table on their own.
        hint(is_part_of_another(arguments, if is_marked { "another `comity run`" } else { "an adopted command" }));
        command.env("COMITY_TABLE", "off");
        if let Some(location) = &location {
            command.env(comity_table::TABLE_AROUND, location.to_text());
        }
        // A limit on cores limits the jobs, too.
        if let Some(style) = style.filter(|_| desired.is_none()) {
            jobserver::offer_outer(&mut command, &arguments.command, style, most, adopted);
        }
        return Err(not_started(program, &command.exec()));
    }
    let mark = tree::mark(process_id, start);
    command.env("COMITY_TABLE", "off").env(tree::MARK, &mark);
    if let Some(location) = &location {
        command.env(comity_table::TABLE_AROUND, location.to_text());
    }
    let policy = policy()?;
    let is_weight_chosen = weight::is_chosen(said);
    let begins_session =
        arguments.session || Stat::of_process(process_id).is_some_and(|stat| stat.session == process_id);
    let session_nice = task_group::nice().filter(|_| begins_session && task_group::is_session(process_id));
    let terms = Terms {
        process: process_id,
        start,
        mark: Some(mark.clone()),
        left_out: Vec::new(),
        name: label.unwrap_or_else(|| name(program)),
        policy,
        weight,
        is_weight_chosen,
        session_nice,
        cores: desired,
        most,
        may_use: affinity::of(ThreadId::current()),
    };
    detail(|| {
        let by = if said == arguments.weight { weight::chosen_by(said) } else { "a configuration file".to_owned() };
        let weight = format!("weight: {weight} ({by})");
        let (table, cores) = (choices::table(), choices::cores());
        let by = choices::variable(&["COMITY", "COMITY_POLICY"], "the default");
        format!(
            "comity: {table}\ncomity: {cores}\ncomity: {weight}\ncomity: policy: {policy} ({by})\n\
             comity: runs '{}' with up to {} cores",
            program.display(),
            desired.unwrap_or(most)
        )
    });
    if arguments.session && session_nice.is_none() && census::is_mounted() {
        hint("comity: --session does not divide time here: sessions are not task groups. See `comity doctor`");
    }
    // A weight below the default also sets a nice value, which lowers the command relative to programs outside of the
    // table. If sessions are task groups, a nice value has no effect relative to other sessions, so the command's own
    // session gets it.
    let nice = if is_weight_chosen { weight::nice_for(weight) } else { 0 };
    match session_nice {
        Some(before) if arguments.session => process::start_session(&mut command, nice.max(before)),
        Some(before) if nice > before && task_group::set_nice_of(process_id, nice).is_ok() => {}
        _ if arguments.session => {
            process::start_session(&mut command, 0);
            process::start_nice(&mut command, nice);
        }
        _ => process::start_nice(&mut command, nice),
    }
    let location = location.filter(|_| {
        let is_seen = census::is_of_this_namespace();
        if !is_seen {
            hint(goes_without(if census::is_mounted() { OTHER_PROCESSES } else { NO_PROCESSES }));
        }
        is_seen
    });
    let location = location.filter(|location| {
        let tried = seen.and_then(|seen| if seen.is_none() { create_table(location, &terms) } else { Ok(()) });
        tried.as_ref().inspect_err(|error| hint(goes_without(&error.to_string()))).is_ok()
    });
    let mut tokens = location
        .as_ref()
        .and(style)
        .and_then(|style| jobserver::offer(&mut command, &arguments.command, style, terms.cap(), &mark));
    let leaves_zombies = location.is_some() && process_id != 1 && !process::orphans_are_waited_for();
    if report.is_some() || arguments.session || leaves_zombies {
        let report = report.unwrap_or(report::Place::Nowhere);
        return report::run(&mut command, location, terms, tokens, &report, arguments.session)
            .map_err(|error| not_started(program, &error));
    }
    if let Some(location) = location
        && let Err(why) = become_command(&location, &terms, &mut tokens)
    {
        hint(goes_without(&why));
        jobserver::withdraw(&mut command, tokens);
    }
    Err(not_started(program, &command.exec()))
}

/// The reason why a command does not share cores if `/proc` shows another PID namespace.
pub const OTHER_PROCESSES: &str = "/proc belongs to another PID namespace, so the command's processes cannot be found \
    (mount the namespace's own: `unshare --mount-proc`, or `mount -t proc proc /proc`)";

/// The reason why a command does not share cores if there is no `/proc`.
pub const NO_PROCESSES: &str = "/proc is not mounted, so the command's processes cannot be found \
    (mount it: `mount -t proc proc /proc`)";

/// Returns the hint for a `comity run` that is part of another command, `outer`.
fn is_part_of_another(arguments: &Arguments, outer: &str) -> String {
    let mut without = Vec::new();
    if let Some(weight) = arguments.weight {
        without.push(format!("--weight {weight} has no effect"));
    }
    if let Some(Cores::Number(number)) = arguments.cores {
        without.push(format!("--cores {number} only sets variables such as OMP_NUM_THREADS"));
    }
    if arguments.session {
        without.push("--session has no effect".to_owned());
    }
    if arguments.label.is_some() {
        without.push("--label has no effect".to_owned());
    }
    if arguments.report.is_some() {
        without.push("--report has no effect".to_owned());
    }
    let without: String = without.into_iter().map(|what| format!("; {what}")).collect();
    format!("comity: this is inside {outer} and shares the cores of the outer command{without}")
}

/// Makes the path of a table absolute: the coordinator and the command may change their current folders. Returns `None`
/// after a hint if the current folder is unknown.
pub fn rooted(location: Location) -> Option<Location> {
    let Location::At(path) = location else { return Some(location) };
    let rooted = path::absolute(path).map(Location::At);
    rooted.map_err(|error| hint(goes_without(&format!("cannot find the current folder: {error}")))).ok()
}

/// Returns the coordinator's policy: the `comity` policy of `COMITY_POLICY`. Other policies do not support commands.
pub fn policy() -> Result<Policy, Failure> {
    let is_off = environment::variable("COMITY").is_some_and(environment::is_off);
    let Some(text) = environment::variable("COMITY_POLICY").filter(|_| !is_off) else { return Ok(Policy::default()) };
    let policy: Result<Policy, _> = text.to_string_lossy().parse();
    let policy = policy.map_err(|error| Failure::Usage(format!("COMITY_POLICY: {error}")))?;
    let is_default = policy.name() == Policy::default().name();
    Ok(if is_default { policy } else { Policy::default() })
}

/// Returns the name of a program from its path.
pub fn name(program: &OsStr) -> String {
    Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
}

/// Starts the coordinator of this process. It prints the reason if it cannot join the table.
fn become_command(location: &Location, terms: &Terms, tokens: &mut Option<Tokens>) -> Result<(), String> {
    let command = Pidfd::of_this_process().map_err(|error| unwatched(&error))?;
    let kept: Vec<RawFd> = tokens.as_ref().map(Tokens::as_raw_fd).into_iter().collect();
    start_coordinator(&command, location, terms, tokens, &kept, |why| {
        if let Some(why) = why {
            hint(goes_without(&why));
        }
    })
}

/// Starts the coordinator, the member of the table for `command`, and does not wait for it. The coordinator gets the
/// tokens of the jobserver. Of the other open files of this process, it keeps `kept`. It calls `told` when it has
/// joined the table, or with the reason why it cannot join.
pub fn start_coordinator(
    command: &Pidfd,
    location: &Location,
    terms: &Terms,
    tokens: &mut Option<Tokens>,
    kept: &[RawFd],
    told: impl FnOnce(Option<String>),
) -> Result<(), String> {
    let name = format!("comity:{}", terms.process);
    let kept: Vec<RawFd> = iter::once(command.as_raw_fd()).chain(kept.iter().copied()).collect();
    detached::start(&name, &kept, || coordinate::run(command, location, terms, tokens.take(), told))
        .map_err(|error| format!("cannot start the coordinator process: {error}"))
}

/// Creates the table. This process does it, so that an error is reported even if the command ends before its
/// coordinator joins the table.
pub fn create_table(location: &Location, terms: &Terms) -> Result<(), TableError> {
    // Joining creates the table. No other member exists that would notice this short membership.
    Member::join(location, &terms.profile()).map(drop)
}

/// Returns the reason why a command does not share cores if the kernel does not report the end of the command.
pub fn unwatched(error: &io::Error) -> String {
    format!("cannot watch the command for exit (pidfd_open): {error}")
}

fn goes_without(why: &str) -> String {
    format!("comity: {why}. The command runs without sharing cores.")
}

fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    // A path may contain spaces, and a quote would end the suggested words.
    let text = program.to_string_lossy();
    let first = text.split_whitespace().next().unwrap_or_default();
    let is_a_line = text.contains(char::is_whitespace) && !first.contains('/') && !text.contains('\'');
    let program = program.display();
    match error.kind() {
        io::ErrorKind::NotFound if is_a_line => Failure::Start(
            format!(
                "cannot run '{program}': there is no such program. The quotes make it one word. Use `comity run \
                 {program}`, or `comity run sh -c '{program}'` for a shell line"
            ),
            127,
        ),
        io::ErrorKind::NotFound => Failure::Start(
            format!("cannot run '{program}': there is no such program. Give its path, or add its folder to PATH"),
            127,
        ),
        _ => Failure::Start(format!("cannot run '{program}': {error}"), 126),
    }
}
