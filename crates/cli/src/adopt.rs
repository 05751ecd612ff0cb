//! The verb `comity adopt`: makes a running process, with the processes that it has started, a member of the core
//! table.
//!
//! The coordinator is that of `comity run`, in a process of its own. This process ends when the coordinator has joined.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use comity_console::loudness::hint;
use comity_console::{Failure, output, parse};
use comity_os::census::{self, Stat};
use comity_os::cpu_clock::ThreadId;
use comity_os::pidfd::Pidfd;
use comity_os::{affinity, cores};
use comity_table::{ADOPTED, Location, Program, Snapshot, TableError};
use rustix::fs::{FlockOperation, flock};
use signal_hook::consts::SIGTERM;

use crate::run::{self, MARK, Terms, Tokens, Tree, jobserver};
use crate::set::{self, Target, snapshot_of, title};
use crate::{label, weight};

/// The time between two attempts to lock a table.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The time within which another `comity adopt` ends, and a coordinator after its signal, unless the machine is overloaded.
const PATIENCE: Duration = Duration::from_secs(30);

const HELP: &str = "Examples:
  comity adopt 4711
  comity adopt --label server --weight 300 4711
  comity adopt $$                 the shell itself, with all that it starts
  comity adopt --release 4711

The process and the processes that it has started then share cores as a command
of `comity run` does: see `comity run --help`. The membership ends when the
process ends, or with --release. The processes then have their own affinity.

Taken in are the descendants of the process, and the processes of its process
group or session if it leads them. Not taken in:
  - A process whose parent has ended, and that has left the group and session.
  - A member of the table, such as a command of `comity run`, and what it has
    started. It stays a member. The processes that it has started share with it.

What starts later inside of the command is a part of it. This includes programs
that would join the table, and commands of `comity run`.

A build inside gets a jobserver if it is started by `comity run make`. Some
things need a start of the whole command by `comity run`: the variables of
--cores, and a nice value for a weight below 100.

If the coordinator, a process with the name comity:PID, is killed, the processes
get back their affinity after half a second, and share cores no more.

Only the user of a process may adopt it. The coordinator has the nice value, the
control group and the COMITY_POLICY of `comity adopt`.

Exit codes: 0: adopted or released; 1: not possible; 2: invalid command line.";

/// Make a running process, with all that it has started, a member of the core table
#[derive(Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Number of the process. With --release, also #SLOT or the name of a program, as for `comity set`
    #[arg(value_name = "PID", value_parser = set::parse_target)]
    target: Target,
    /// Maximum number of cores that the command uses
    #[arg(long, value_name = "N", value_parser = parse::whole::<u32>(1..=u64::from(u16::MAX)), allow_negative_numbers = true)]
    cores: Option<u32>,
    /// Weight relative to other programs, 1 to 10000 [default: the weight of the nice value of the process]
    #[arg(long, value_name = "W", value_parser = weight::range(), allow_negative_numbers = true)]
    weight: Option<u32>,
    /// Name of the command in `comity table`, `top` and `set`: 1 to 32 bytes, not a number [default: the name of the
    /// program]
    #[arg(long, value_name = "NAME", value_parser = label::parse)]
    label: Option<String>,
    /// End the membership of an adopted command
    #[arg(long, conflicts_with_all = ["cores", "weight", "label"])]
    release: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let off = || Failure::Run("COMITY_TABLE is off, so there is no table. Unset COMITY_TABLE".to_owned());
    let location = Location::to_look_at().and_then(run::rooted).ok_or_else(off)?;
    if !census::is_of_this_namespace() {
        let why = if census::is_mounted() { run::OTHER_PROCESSES } else { run::NO_PROCESSES };
        return Err(Failure::Run(why.to_owned()));
    }
    if arguments.release {
        return release(&snapshot_of(&location)?, &arguments.target);
    }
    let Target::Process(process) = arguments.target else {
        return Err(Failure::Usage("give a process number. A slot or a name needs --release".to_owned()));
    };
    let stat = check(process).map_err(Failure::Run)?;
    let may_use = affinity::of(ThreadId::from_raw(process as i32));
    let most = cores::usable_by(process, may_use.len()).get() as u32;
    let mut terms = Terms {
        process,
        start: stat.start,
        mark: None,
        left_out: Vec::new(),
        name: arguments.label.clone().unwrap_or_else(|| name_of(process)),
        policy: run::policy()?,
        weight: arguments.weight.unwrap_or_else(|| weight::of_nice(&stat, weight::group_milli(process))),
        is_weight_chosen: arguments.weight.is_some(),
        session_nice: None,
        cores: arguments.cores.map(|cores| cores.min(most)),
        most,
        may_use,
    };
    let table = |error: TableError| Failure::Run(error.to_string());
    if Snapshot::take(&location).map_err(table)?.is_none() {
        run::create_table(&location, &terms).map_err(table)?;
    }
    // Another `comity adopt` waits until the coordinator has joined, so that it sees this membership.
    let _alone = lock(&location.path()).map_err(Failure::Run)?;
    let snapshot = snapshot_of(&location)?;
    if let Some(why) = shares_already(process, &snapshot) {
        hint(format!("comity: {why}"));
        return Ok(());
    }
    is_free(process).map_err(Failure::Run)?;
    let left_out = members_in(process, &snapshot);
    terms.left_out =
        left_out.iter().filter_map(|program| Some((program.pid, Stat::of_process(program.pid)?.start))).collect();
    let command = Pidfd::of_process(process, stat.start).ok_or_else(|| Failure::Run(gone(process)))?;
    let taken_in = Tree::new(&terms, may_use).ids().count();
    let tokens = jobserver::for_adopted(process);
    let tokens = tokens.inspect_err(|why| hint(format!("comity: cannot make a jobserver: {why}"))).ok();
    join(&command, &location, &terms, tokens).map_err(Failure::Run)?;
    let snapshot = snapshot_of(&location)?;
    let entry = snapshot.programs.iter().find(|program| program.pid == process && program.policy == ADOPTED);
    let name = entry.map_or_else(|| format!("process {process}"), title);
    let mut text = match taken_in {
        0 | 1 => format!("{name} shares cores.\n"),
        2 => format!("{name} shares cores, with 1 process that it has started.\n"),
        more => format!("{name} shares cores, with {} processes that it has started.\n", more - 1),
    };
    for program in left_out {
        text += &format!("Left out: {}, which is a member of the table itself.\n", title(program));
    }
    output::print(&text)
}

/// Checks that the process can be adopted. Returns its state, or an error sentence.
fn check(process: u32) -> Result<Stat, String> {
    let stat = Stat::of_process(process).filter(|stat| census::lives(process, stat.start));
    let stat = stat.ok_or_else(|| gone(process))?;
    if process == 1 {
        return Err("process 1 is the parent of all orphans of the machine or container, so everything would be one \
                    program. Adopt the processes that it has started"
            .to_owned());
    }
    let me = rustix::process::geteuid().as_raw();
    let user = census::user(process).ok_or_else(|| gone(process))?;
    if user != me {
        return Err(format!(
            "process {process} belongs to another user ({user}). Only that user may adopt it, also for root"
        ));
    }
    if fs::read_link(format!("/proc/{process}/exe")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(format!("process {process} is a thread of the kernel"));
    }
    let program = |process: &str| fs::read_link(format!("/proc/{process}/exe")).ok();
    if program(&process.to_string()).is_some_and(|path| program("self") == Some(path)) && !run::is_of_comity(process) {
        return Err(format!("process {process} is a `comity` itself. If it is a `comity run`, it shares cores soon"));
    }
    if run::is_of_comity(process) {
        return Err(format!("process {process} is a coordinator of Comity. Adopt the processes of a program"));
    }
    Ok(stat)
}

/// Says that the process shares cores already, as a member of the table or as a part of a command.
fn shares_already(process: u32, snapshot: &Snapshot) -> Option<String> {
    let is_it = |program: &&Program| program.pid == process && program.keeper().is_some();
    if let Some(member) = snapshot.programs.iter().find(is_it) {
        return Some(format!("{} is a member of the table already. Change it with `comity set`", title(member)));
    }
    let command = snapshot.command_of(process)?;
    Some(format!("process {process} is a part of {}. Change that with `comity set`", title(command)))
}

/// Checks that the process does not belong to a command of another table.
fn is_free(process: u32) -> Result<(), String> {
    // A process may have changed its environment, so its coordinator is looked for, too.
    let me = rustix::process::geteuid().as_raw();
    let of_name = |id: u32| census::name(id).strip_prefix("comity:")?.parse::<u32>().ok();
    // A coordinator that has ended keeps its name until its parent has waited for it.
    let lives = |id: &u32| Stat::of_process(*id).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'));
    let is_of_user = |id: u32| matches!(census::user(id), Some(user) if user == me || user == 0);
    let counts = |id: u32| is_of_user(id) && lives(&id) && census::is_in_this_namespace(id);
    let named = census::processes().into_iter().filter_map(|id| Some((id, of_name(id)?)));
    let commands: Vec<u32> = named.filter(|(id, _)| counts(*id)).map(|(_, command)| command).collect();
    if let Some(command) = census::with_ancestors(process).find(|id| commands.contains(id)) {
        return Err(format!(
            "process {process} is a part of the command of process {command}, which uses another table"
        ));
    }
    if census::variable_of(process, MARK).is_some_and(|mark| run::command_lives(&mark)) {
        return Err(format!("process {process} is a part of a `comity run` command that uses another table"));
    }
    Ok(())
}

/// Locks the table's file against other calls of `comity adopt`, until the returned file is closed. Members lock the
/// file in another way.
fn lock(path: &Path) -> Result<File, String> {
    let lock = || {
        let file = File::open(path)?;
        let start = Instant::now();
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if start.elapsed() > PATIENCE {
                return Err(error.into());
            }
            sleep(LOOK_AGAIN);
        }
        Ok(file)
    };
    lock().map_err(|error: io::Error| format!("the core table '{}' cannot be locked: {error}", path.display()))
}

fn gone(process: u32) -> String {
    format!("process {process} cannot be found")
}

/// Returns the members of the table that are descendants of the process. Members that are part of another such member
/// are included.
fn members_in(process: u32, snapshot: &Snapshot) -> Vec<&Program> {
    let is_in = |program: &&Program| {
        census::with_ancestors(program.pid).any(|ancestor| ancestor == process) && program.keeper().is_some()
    };
    snapshot.programs.iter().filter(is_in).collect()
}

/// Returns the name of the program that a process runs, as `comity run` would: the name of a script, and not that of the
/// interpreter.
fn name_of(process: u32) -> String {
    // The kernel's name is that of the script, cut to 15 bytes. A program may change it.
    let comm = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let comm = comm.trim_end();
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).take(2).map(String::from_utf8_lossy);
    // A login shell has the name -bash.
    let names: Vec<String> = words.map(|word| run::name(word.trim_start_matches('-').as_ref())).collect();
    let is_of_kernel = |name: &&String| !comm.is_empty() && name.starts_with(comm);
    let name = names.iter().find(is_of_kernel).or(names.first().filter(|name| !name.is_empty()));
    name.map_or(comm, String::as_str).to_owned()
}

/// Starts the coordinator, and waits until it has joined the table.
fn join(command: &Pidfd, location: &Location, terms: &Terms, mut tokens: Option<Tokens>) -> Result<(), String> {
    /// The coordinator writes this to the pipe if it has joined.
    const JOINED: &str = "joined";
    let (mut reader, mut writer) = io::pipe().map_err(|error| format!("cannot make a pipe: {error}"))?;
    let kept: Vec<RawFd> =
        [Some(writer.as_raw_fd()), tokens.as_ref().map(Tokens::as_raw_fd)].into_iter().flatten().collect();
    let tell = |why: Option<String>| {
        // The coordinator is a copy of this process, which ends with the pipe if it waits no more.
        let _unread = writer.write_all(why.as_deref().unwrap_or(JOINED).as_bytes());
        drop(writer);
    };
    run::start_coordinator(command, location, terms, &mut tokens, &kept, tell)?;
    let mut told = String::new();
    let _without = reader.read_to_string(&mut told);
    match told.as_str() {
        JOINED if !command.has_ended_within(Duration::ZERO) => Ok(()),
        JOINED => Err(format!("process {} has ended", terms.process)),
        "" => Err(format!("process {} does not share cores: its coordinator has ended", terms.process)),
        why => Err(format!("process {} does not share cores: {why}", terms.process)),
    }
}

/// Ends the membership of an adopted command.
fn release(snapshot: &Snapshot, target: &Target) -> Result<(), Failure> {
    let program = set::find(snapshot, target).map_err(Failure::Run)?;
    let title = title(program);
    // The processes of a `comity run` command still have its variables, so they could not join the table again.
    if program.policy != ADOPTED {
        return Err(Failure::Run(format!("{title} was not adopted, so it cannot be released")));
    }
    // Another user of the table may have written any number there.
    let is_coordinator = |keeper: &u32| {
        census::name(*keeper) == format!("comity:{}", program.pid)
            && census::user(*keeper) == Some(rustix::process::geteuid().as_raw())
    };
    let keeper = program.keeper().filter(is_coordinator);
    let keeper = keeper.and_then(|keeper| Pidfd::of_process(keeper, Stat::of_process(keeper)?.start));
    let Some(keeper) = keeper else {
        return Err(Failure::Run(format!(
            "{title} has no coordinator of this user here. Only its user may release it"
        )));
    };
    // A stopped coordinator receives the signal when it continues.
    let is_told = keeper.send(SIGTERM) && keeper.go_on();
    if !is_told || !keeper.has_ended_within(PATIENCE) {
        return Err(Failure::Run(format!("{title} is not released: its coordinator has not ended. Try again")));
    }
    output::print(&format!("{title}: released.\n"))
}
