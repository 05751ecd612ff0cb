//! The verb `comity adopt`: makes a running process, with the processes that it has started, a member of the core
//! table.
//!
//! The coordinator is that of `comity run`, in a process of its own. This process ends when the coordinator has joined.

use std::fs;
use std::io::{self, Read};
use std::time::Duration;

use clap::Args;
use comity_console::{Failure, output, parse};
use comity_os::census::{self, Stat};
use comity_os::cpu_clock::ThreadId;
use comity_os::pidfd::Pidfd;
use comity_os::{affinity, cores};
use comity_table::{Location, Program, Snapshot};
use signal_hook::consts::SIGTERM;

use crate::run::{self, MARK, Terms, Tree};
use crate::set::{self, Target, snapshot_of, title};
use crate::{label, weight};

/// The time between two looks whether a coordinator has ended. A signal may interrupt a wait.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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

Some things need a start by `comity run`: a jobserver for builds, the variables
of --cores, and a nice value for a weight below 100.

If the coordinator, a process with the name comity:PID, is killed, the processes
get back their affinity after half a second, and share cores no more.

Only root and the user of a process may adopt it. It joins the caller's table.

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
    let snapshot = snapshot_of(&location)?;
    if arguments.release {
        return release(&snapshot, &arguments.target);
    }
    let Target::Process(process) = arguments.target else {
        return Err(Failure::Usage("give a process number. A slot or a name needs --release".to_owned()));
    };
    let stat = check(process, &snapshot).map_err(Failure::Run)?;
    let may_use = affinity::of(ThreadId::from_raw(process as i32));
    let most = cores::usable_by(process, may_use.len()).get() as u32;
    let left_out = members_in(process, &snapshot);
    let terms = Terms {
        process,
        start: stat.start,
        mark: None,
        left_out: left_out
            .iter()
            .filter_map(|program| Some((program.pid, Stat::of_process(program.pid)?.start)))
            .collect(),
        name: arguments.label.clone().unwrap_or_else(|| name_of(process)),
        policy: run::policy()?,
        weight: arguments.weight.unwrap_or_else(|| weight::of_nice(&stat, weight::group_milli(process))),
        is_weight_chosen: arguments.weight.is_some(),
        session_nice: None,
        cores: arguments.cores.map(|cores| cores.min(most)),
        most,
        may_use,
    };
    let command = Pidfd::of_process(process, stat.start).ok_or_else(|| Failure::Run(gone(process)))?;
    let taken_in = Tree::new(&terms, may_use).ids().count();
    join(&command, &location, &terms).map_err(Failure::Run)?;
    let snapshot = snapshot_of(&location)?;
    let entry = snapshot.programs.iter().find(|program| program.pid == process);
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
fn check(process: u32, snapshot: &Snapshot) -> Result<Stat, String> {
    if !census::is_of_this_namespace() {
        return Err(if census::is_mounted() { run::OTHER_PROCESSES } else { run::NO_PROCESSES }.to_owned());
    }
    let stat = Stat::of_process(process).filter(|stat| census::lives(process, stat.start));
    let stat = stat.ok_or_else(|| gone(process))?;
    if process == 1 {
        return Err("process 1 is the parent of all orphans of the machine or container, so everything would be one \
                    program. Adopt the processes that it has started"
            .to_owned());
    }
    let me = rustix::process::geteuid();
    let user = census::user(process).ok_or_else(|| gone(process))?;
    if user != me.as_raw() && !me.is_root() {
        return Err(format!(
            "process {process} belongs to another user ({user}). Only that user and root may adopt it"
        ));
    }
    if fs::read_link(format!("/proc/{process}/exe")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(format!("process {process} is a thread of the kernel"));
    }
    if let Some(member) = snapshot.programs.iter().find(|program| program.pid == process && program.keeper().is_some())
    {
        return Err(format!("{} is a member of the table already. Change it with `comity set`", title(member)));
    }
    if let Some(command) = snapshot.command_of(process) {
        return Err(format!("process {process} is a part of {}. Change that with `comity set`", title(command)));
    }
    if census::variable_of(process, MARK).is_some_and(|mark| run::command_lives(&mark)) {
        return Err(format!("process {process} is a part of a `comity run` command that uses another table"));
    }
    Ok(stat)
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

/// Starts the coordinator, and waits until it has joined the table. If it cannot, the coordinator prints the reason.
fn join(command: &Pidfd, location: &Location, terms: &Terms) -> Result<(), String> {
    let (mut joined, writer) = io::pipe().map_err(|error| format!("cannot make a pipe: {error}"))?;
    run::start_coordinator(command, location, terms, &mut None, Some(&writer))?;
    drop(writer);
    let has_joined = joined.read_exact(&mut [0]).is_ok();
    has_joined.then_some(()).ok_or_else(|| format!("process {} does not share cores", terms.process))
}

/// Ends the membership of an adopted command.
fn release(snapshot: &Snapshot, target: &Target) -> Result<(), Failure> {
    let program = set::find(snapshot, target).map_err(Failure::Run)?;
    let title = title(program);
    // The processes of a `comity run` command still have its variables, so they could not join the table again.
    let is_adopted = program.policy == comity_table::COMMAND && census::variable_of(program.pid, MARK).is_none();
    let keeper = program.keeper().filter(|_| is_adopted);
    let keeper = keeper.and_then(|keeper| Pidfd::of_process(keeper, Stat::of_process(keeper)?.start));
    let keeper = keeper.ok_or_else(|| Failure::Run(format!("{title} was not adopted, so it cannot be released")))?;
    if !keeper.send(SIGTERM) {
        return Err(Failure::Run(format!("{title} cannot be released: its coordinator cannot be signalled")));
    }
    // A stopped coordinator receives the signal when it continues.
    keeper.go_on();
    while !keeper.has_ended_within(LOOK_AGAIN) {}
    output::print(&format!("{title}: released.\n"))
}
