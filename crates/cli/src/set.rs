//! The verb `comity set`: changes the weight or the core limit of a running program, or pauses the program.

use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use comity_console::{Failure, output};
use comity_os::census::{self, Stat};
use comity_table::{CORES, Life, Location, MOST_PAUSE, Program, Request, RequestError, Snapshot, request};
use serde::Serialize;

use crate::table::in_units;
use crate::{label, weight};

/// The time after joining the table within which a program accepts requests, unless the machine is overloaded.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// The time between two attempts to send a request to a program that has just joined.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

const HELP: &str = "Examples:
  comity set '#3' --weight 300
  comity set 4711 --cores 2
  comity set 4711 --pause 10m
  comity set 4711 --resume
  comity set '#3' --weight own --cores auto
  comity set agent-1 --pause 10m
  comity set --all-labelled agent-1 --weight 50

Name a program by its slot in `comity table`, with a #, by its process number,
or by its name. A label (`comity run --label`) is the name of its command. The
number of any process of a command (`comity run`, `comity adopt`) stands for the
whole command. A program follows a request after about 20 ms (two quanta of its
policy), a command after at most 250 ms. The setting stays in effect until
you change it or the program leaves the table.

--pause: The workers of the program begin no task. A worker with a task stops
where the task forks or ends. The processes of a command are stopped (SIGSTOP).
A paused program holds no core, and other programs use its cores. The program
continues automatically when the time is over, or at --resume. A command also
continues if its process comity:N ends (see `comity run --help`). A shell that
runs the command in the foreground sees a stop, as with Ctrl-Z. A lock that a
paused program holds stays locked.

--cores: The program requests and uses at most N cores.

Only root and the user of a program may set it. A program cannot be set if it is
not in the core table, or was built with an older version of comity.

Exit codes: 0: the request was sent; 1: there is no such program, it cannot be
set, or the table cannot be used; 2: invalid command line.";

/// Change the weight or the core limit of a running program, or pause it
#[derive(Args)]
#[command(after_help = HELP)]
#[command(
    override_usage = "comity set <#SLOT|PID|NAME> [--weight W] [--cores N]\n                  [--pause TIME | --resume] [--json]\n       comity set --all-labelled NAME …"
)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub struct Arguments {
    /// Program: #SLOT, a process number, or its name
    #[arg(value_name = "#SLOT|PID|NAME", value_parser = parse_target, required_unless_present = "all_labelled")]
    target: Option<Target>,
    /// Set all programs with this name
    #[arg(long, value_name = "NAME", value_parser = label::parse, conflicts_with = "target")]
    all_labelled: Option<String>,
    /// Weight relative to other programs, 1 to 10000. `own` restores the weight that the program has chosen
    #[arg(long, value_name = "W", group = "what", value_parser = parse_weight, allow_negative_numbers = true)]
    weight: Option<RequestedNumber>,
    /// Maximum number of cores, 1 to 1024. `auto` restores the maximum that the program has chosen
    #[arg(long, value_name = "N", group = "what", value_parser = parse_cores, allow_negative_numbers = true)]
    cores: Option<RequestedNumber>,
    /// Pause the program for this long, at most 24h: 90s, 10m, 1h30m
    // The parser of times refuses a time such as -5m, and its error says what a time is.
    #[arg(long, value_name = "TIME", group = "what", value_parser = parse_time, allow_hyphen_values = true)]
    pause: Option<Duration>,
    /// Resume a paused program
    #[arg(long, group = "what", conflicts_with = "pause")]
    resume: bool,
    /// Print JSON, an object for each program (schema comity-set/1)
    #[arg(long)]
    json: bool,
}

/// The program that the user names.
#[derive(Clone)]
pub enum Target {
    Slot(usize),
    Process(u32),
    Name(String),
}

/// A requested number. `None` stands for the program's own value.
#[derive(Clone, Copy)]
struct RequestedNumber(Option<u32>);

impl RequestedNumber {
    fn parse(text: &str, own: &str, most: u32) -> Result<RequestedNumber, String> {
        let number = || text.parse().ok().filter(|number| (1..=most).contains(number));
        let requested = if text == own {
            Some(RequestedNumber(None))
        } else {
            number().map(|number| RequestedNumber(Some(number)))
        };
        requested.ok_or_else(|| format!("give a whole number from 1 to {most}, or {own}"))
    }

    fn text(self, own: &str) -> String {
        self.0.map_or(own.to_owned(), |number| number.to_string())
    }
}

fn parse_weight(text: &str) -> Result<RequestedNumber, String> {
    RequestedNumber::parse(text, "own", weight::MOST)
}

fn parse_cores(text: &str) -> Result<RequestedNumber, String> {
    RequestedNumber::parse(text, "auto", CORES as u32)
}

/// Parses a program.
pub fn parse_target(text: &str) -> Result<Target, String> {
    let target = match text.strip_prefix('#') {
        Some(slot) => slot.parse().ok().map(Target::Slot),
        None => match text.parse() {
            Ok(process) => Some(process).filter(|process| *process > 0).map(Target::Process),
            Err(_) => label::parse(text).ok().map(Target::Name),
        },
    };
    target.ok_or_else(|| "give a process number, a name, or # and a slot number, for example '#3'".to_owned())
}

/// Parses a time that consists of whole numbers, each with a unit.
fn parse_time(text: &str) -> Result<Duration, String> {
    let read = || {
        let (mut seconds, mut number) = (0u64, None::<u64>);
        for letter in text.chars() {
            match (letter.to_digit(10), number) {
                (Some(digit), before) => {
                    number = Some(before.unwrap_or(0).checked_mul(10)?.checked_add(digit.into())?);
                }
                (None, Some(value)) => {
                    let unit = match letter {
                        's' => 1,
                        'm' => 60,
                        'h' => 3600,
                        _ => return None,
                    };
                    seconds = seconds.checked_add(value.checked_mul(unit)?)?;
                    number = None;
                }
                (None, None) => return None,
            }
        }
        Some(Duration::from_secs(seconds)).filter(|time| number.is_none() && !time.is_zero())
    };
    let time = read().ok_or("give a time with its unit, for example 90s, 10m, 2h or 1h30m")?;
    if time > MOST_PAUSE {
        return Err("a pause is 24h at most. Pause the program again when it is over".to_owned());
    }
    Ok(time)
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let off = || Failure::Run("COMITY_TABLE is off, so there is no table. Unset COMITY_TABLE".to_owned());
    let mut location = Location::to_look_at().ok_or_else(off)?;
    let mut snapshot = snapshot_of(&location)?;
    let is_own = location == Location::Own;
    let target = arguments.target.as_ref();
    if let Some(other) = target.filter(|_| is_own).and_then(|target| table_of_its_user(&snapshot, target)) {
        snapshot = snapshot_of(&other)?;
        location = other;
    }
    let found = match (target, &arguments.all_labelled) {
        (Some(target), _) => find(&snapshot, target).map(|program| vec![program]),
        (None, name) => all_named(&snapshot.programs, name.as_deref().unwrap_or_default()),
    };
    let found = found.map_err(Failure::Run)?;
    let Arguments { weight, cores, pause, resume, .. } = arguments;
    let weighs = weight.map(|requested| Request::Weight(requested.0));
    let uses = cores.map(|requested| Request::Cores(requested.0));
    let rests = pause.map(Request::Pause).or(resume.then_some(Request::Resume));
    let requests: Vec<Request> = [weighs, uses, rests].into_iter().flatten().collect();
    let mut text = String::new();
    // One program that cannot be set must not keep the others from being set.
    let mut refused = Vec::new();
    for program in found {
        if let Err(why) = ask(&location, program, &requests) {
            refused.push(why);
        } else if arguments.json {
            text += &output::to_json(&SetReport {
                schema: "comity-set/1",
                slot: program.slot.index(),
                pid: program.pid,
                name: program.name.clone(),
                weight: weight.map(|requested| requested.text("own")),
                cores: cores.map(|requested| requested.text("auto")),
                pause_s: pause.map(|pause| pause.as_secs_f64()).or(resume.then_some(0.0)),
            });
        } else {
            text += &format!("{}: {}.\n", title(program), in_words(&requests));
        }
    }
    if !text.is_empty() {
        output::print(&text)?;
    }
    if refused.is_empty() { Ok(()) } else { Err(Failure::Run(refused.join("; "))) }
}

/// Returns the programs of a table. A table that does not exist has none.
pub fn snapshot_of(location: &Location) -> Result<Snapshot, Failure> {
    let snapshot = Snapshot::take(location).map_err(|error| Failure::Run(error.to_string()))?;
    Ok(snapshot.unwrap_or(Snapshot { programs: Vec::new(), cores: Vec::new() }))
}

/// Returns the table of the user who owns the target process. Returns `None` if the process belongs to a program of
/// `snapshot`, or if this command does not run as root.
fn table_of_its_user(snapshot: &Snapshot, target: &Target) -> Option<Location> {
    let Target::Process(process) = *target else { return None };
    let is_known =
        snapshot.programs.iter().any(|program| program.pid == process) || snapshot.command_of(process).is_some();
    let may_look = rustix::process::geteuid().is_root() && !is_known;
    let user = may_look.then(|| census::user(process)).flatten()?;
    Some(Location::of_user(user))
}

/// The time for which a requested weight or core limit stays in effect.
const UNTIL: &str = "until you change it or the program leaves the table";

/// Formats the requests, and how long they stay in effect.
pub fn in_words(requests: &[Request]) -> String {
    let words = requests.iter().map(|request| match request {
        Request::Weight(Some(weight)) => format!("weight {weight}, {UNTIL}"),
        Request::Weight(None) => "its own weight".to_owned(),
        Request::Cores(Some(cores)) => {
            let noun = if *cores == 1 { "core" } else { "cores" };
            format!("{cores} {noun} at most, {UNTIL}")
        }
        Request::Cores(None) => "its own maximum number of cores".to_owned(),
        Request::Pause(time) => format!("paused for {}, or until --resume", in_units(*time)),
        Request::Resume => "resumed".to_owned(),
    });
    words.collect::<Vec<String>>().join("; ")
}

/// Names a program by its slot, its name and its process.
pub fn title(program: &Program) -> String {
    format!("#{} {} (process {})", program.slot.index(), program.name, program.pid)
}

fn all_named<'a>(programs: &'a [Program], name: &str) -> Result<Vec<&'a Program>, String> {
    let found: Vec<&Program> = programs.iter().filter(|program| program.name == name).collect();
    if found.is_empty() { Err(none(programs, &format!("no program has the name '{name}'"))) } else { Ok(found) }
}

/// Says that there is no such program, and which programs there are.
fn none(programs: &[Program], what: &str) -> String {
    if programs.is_empty() {
        return format!("{what}. No program is using the table at the moment");
    }
    format!("{what}. Programs in the table: {}", list(programs))
}

fn list<'a>(programs: impl IntoIterator<Item = &'a Program>) -> String {
    programs.into_iter().map(title).collect::<Vec<_>>().join(", ")
}

/// Returns the program that the user means, or an error sentence.
pub fn find<'a>(snapshot: &'a Snapshot, target: &Target) -> Result<&'a Program, String> {
    let programs = &snapshot.programs;
    let named = |program: &&Program| match target {
        Target::Slot(slot) => program.slot.index() == *slot,
        Target::Process(process) => program.pid == *process,
        Target::Name(name) => program.name == *name,
    };
    let found: Vec<&Program> = programs.iter().filter(named).collect();
    if let (true, Target::Process(process)) = (found.is_empty(), target)
        && let Some(command) = snapshot.command_of(*process)
    {
        return Ok(command);
    }
    match (found.as_slice(), target) {
        ([program], _) => Ok(program),
        ([], _) => {
            let what = match target {
                Target::Slot(slot) => format!("no program has slot #{slot} of the core table"),
                Target::Name(name) => format!("no program has the name '{name}'"),
                Target::Process(process) if Stat::of_process(*process).is_some() => format!(
                    "process {process} is not a member of the core table. Programs of `comity run` and `comity adopt` are"
                ),
                Target::Process(process) => format!("process {process} cannot be found"),
            };
            Err(none(programs, &what))
        }
        (several, Target::Name(name)) => {
            let (slot, list) = (several[0].slot.index(), list(several.iter().copied()));
            Err(format!(
                "several programs have the name '{name}': {list}. Give one slot, for example '#{slot}', or \
                 --all-labelled {name}"
            ))
        }
        (several, _) => {
            // One process may be several members of the table, and processes of two containers may have the same
            // number.
            let (process, slot) = (several[0].pid, several[0].slot.index());
            let list = list(several.iter().copied());
            Err(format!(
                "several slots have the process number {process}: {list}. Give one slot, for example '#{slot}'"
            ))
        }
    }
}

/// Sends requests to a program. Returns an error sentence if this user may not send requests to it, or if it accepts
/// none.
pub fn ask(location: &Location, program: &Program, requests: &[Request]) -> Result<(), String> {
    let title = title(program);
    if program.life == Life::Dead {
        return Err(format!("{title} is dead. The next program that looks at the table removes it"));
    }
    may_set(program).map_err(|why| format!("{title} {why}"))?;
    let start = Instant::now();
    loop {
        match request(location, program, requests) {
            Ok(()) => return Ok(()),
            // A program joins the table first, and accepts requests only a moment later.
            Err(RequestError::Deaf) if program.age < FIRST_LOOK && start.elapsed() < FIRST_LOOK => sleep(LOOK_AGAIN),
            Err(RequestError::Table(error)) => return Err(error.to_string()),
            Err(error) => return Err(format!("{title} cannot be set: {error}")),
        }
    }
}

/// Checks that this user may set the program. Root may set any program, and other users their own. The owner of the
/// process is read from the kernel.
fn may_set(program: &Program) -> Result<(), String> {
    let me = rustix::process::geteuid();
    if me.is_root() {
        return Ok(());
    }
    match census::user(program.pid) {
        Some(user) if user == me.as_raw() => Ok(()),
        Some(user) => Err(format!("belongs to another user ({user}). Only that user and root may set it")),
        None if !census::is_mounted() => {
            Err("has an unknown user, because /proc is not mounted. Run `mount -t proc proc /proc`, or set it as root"
                .to_owned())
        }
        None => Err("has an unknown user, because /proc does not show its process. Set it as root".to_owned()),
    }
}

/// The JSON schema `comity-set/1`: the requests that were sent to a program.
#[derive(Debug, Serialize)]
struct SetReport {
    /// The name of the schema, `comity-set/1`.
    schema: &'static str,
    /// The number of the program's slot (its entry in the core table).
    slot: usize,
    /// The process's number in its own PID namespace.
    pid: u32,
    /// The name that the program gives itself.
    name: String,
    /// The requested weight: a number, or `own`. `null` if no weight was requested.
    weight: Option<String>,
    /// The requested maximum number of cores: a number, or `auto`. `null` if no maximum was requested.
    cores: Option<String>,
    /// The requested pause, in seconds. 0 resumes the program. `null` if no pause was requested.
    pause_s: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_an_end() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("24h", 86_400), ("1m1s", 61)]
        {
            assert_eq!(parse_time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "10", "0s", "0m", "m", "-1m", "1.5h", "10 m", "10min", "h1", "99999999999999999999s", "5m3"] {
            assert!(parse_time(text).is_err_and(|why| why.starts_with("give a time")), "{text}");
        }
        for text in ["25h", "86401s"] {
            assert!(parse_time(text).is_err_and(|why| why.contains("24h at most")), "{text}");
        }
    }
}
