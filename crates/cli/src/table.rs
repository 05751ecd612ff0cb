//! The verb `comity table`: shows which program has which core according to the core table, and removes a table that
//! no program uses.

use std::fmt::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use comity_console::loudness::detail;
use comity_console::{Failure, choices, output};
use comity_os::clock::now_ns;
use comity_policy::allotment::{LINEAR, Proposal};
use comity_table::{Cleaned, CoreSet, Life, Location, SlotId, Snapshot, Thieves, Way, other_layouts, path_to_clean};
use serde::{Serialize, Serializer};

use crate::label;

const HELP: &str = "Examples:
  comity table
  comity table --wide
  comity table --json
  COMITY_TABLE=/srv/shared/comity comity table show
  comity table clean

Programs that share cores keep a table in shared memory. Each core has an owner,
the program that is entitled to the core, and a holder, the program that uses
it. There is no daemon: a program that dies is removed by the next program that
looks at the table.

Columns of a program:
  weight:       weight 200 gets twice the processor time of weight 100
  entitled:     share by weight, among programs that have work, in cores
  desire:       cores that it could use now; 0 while it holds no core and may
                run on any core
  owned:        whole cores that it is entitled to now. Of a core that several
                programs share, each is the owner in turn
  held:         whole cores that it uses now
  life:         living; paused (by `comity set`); stopped (it has work, but its
                coordinator has not run for 500 ms); dead

More columns with --wide:
  policy:       policy by which it shares cores. run, adopt: a command
                of that verb
  awake:        awake workers; for a command, threads that run or wait for a
                core
  workers:      all workers; for a command, the most cores that it may request
  age:          time since it joined the table
  cpu time:     processor time that it has used
  cpu:          processor time that it has used / age, in cores
  owed:         processor time that it was due and did not get / age, in cores
  efficiency:   only with comity:share=slowdown. Its speed per core with all
                cores, divided by its speed per core with its share
  claimed:      times that it began to use a core that no program used
  taken back:   times that it took back its own core
  released:     times that it released a core
  lost:         times that the owner of a core took the core back from it
  steals:       tasks that its workers took from each other
  accelerated:  times that a worker without a task gave another worker the rest
                of its time slice
  refused:      times that a worker without a task kept its time slice, and why
                (comity::Refusal explains the reasons)
  command:      a `comity run` command: the program and its arguments
  folder:       the current folder of the command

A `-` means that the program does not publish the value. A command of `comity
run` and a program of an older build do not publish the last three columns.

COMITY_TABLE   not set: the user's own table, /dev/shm/comity-UID/layout-N,
               where N is the number of the table's layout.
               a path: the table at this path. A missing table is created, but
               its folder must exist. Several users, or several containers that
               mount the folder, can share the cores of a machine in this way.
               off (or none, no, false, 0, in any case): no table. A program
               keeps its policy and shares no cores. All of its workers may be
               awake.

The user's own table has mode 0600. Its folder has mode 0700. If another user owns
/dev/shm/comity-UID, the folder is /run/user/UID/comity. If there is no
/run/user/UID either, programs run without a table and print a warning.

A named table gets mode 0600, or mode 0660 in a setgid folder of the user or of
root. To share a table within a group, make the folder setgid (chmod g+s): the
file then gets the group of the folder. A program uses a named table if its user
or root owns the file, or if one of its groups may write to the file. It refuses
a table that all users may write to. It also refuses a table that some users may
read but not write, because read access is enough to lock all of its slots.

Root may read the table of any user and set its programs: name the table in
COMITY_TABLE. A program that is set-user-id or set-group-id, or has file
capabilities, ignores the COMITY_ variables of its caller.

If a table is removed or replaced, its programs join the table at its path
within a few seconds. A program without work joins when it next has work.

Share a table only with users who may also kill your programs. A user who may
write to the file can do two things:
  - Write wrong values. The programs then get too few or too many cores, until
    the values are correct again.
  - Truncate the file. This kills the programs that have it mapped (SIGBUS).
No value in the file makes a program crash, wait without a timeout or write
elsewhere. A program that is killed or stopped at any moment never makes other
programs wait.

Programs share one table if their versions of comity have the same layout. If a
named file has another layout, a program uses PATH.layout-N instead. The program
then prints once which programs use the named file. Programs of the two files do
not share cores.

A table has room for 256 programs and 1,024 cores. Containers that share a table
must use the clocks of the machine (one time namespace).

Exit codes: 0: done, or there is no table, or `clean` found the table in use;
1: the table cannot be used, read or removed; 2: invalid command line.";

/// Show which program owns and which program holds each core, or remove an unused core table
#[derive(Args)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
    #[command(flatten)]
    show: Show,
}

#[derive(Subcommand)]
enum Task {
    /// Show cores and programs without changing them (the default)
    #[command(after_help = HELP)]
    Show(Show),
    /// Remove the core table if no living program uses it. Also removes a broken table, and a table of another version
    #[command(after_help = HELP)]
    Clean(Output),
}

#[derive(Args)]
struct Show {
    #[command(flatten)]
    output: Output,
    /// Show all columns of the programs
    #[arg(long, conflicts_with = "json")]
    wide: bool,
}

#[derive(Args)]
struct Output {
    /// Print JSON (schema comity-table/1, or comity-table-clean/1 for clean)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    detail(|| format!("comity: {}", choices::table()));
    let location = Location::to_look_at();
    match &arguments.task {
        None => show(location, &arguments.show),
        Some(Task::Show(arguments)) => show(location, arguments),
        Some(Task::Clean(output)) => clean(location, output.json),
    }
}

const OFF: &str = "COMITY_TABLE is off: programs that are started here share no cores.";

fn path(location: &Location) -> String {
    location.path().display().to_string()
}

fn show(location: Option<Location>, arguments: &Show) -> Result<(), Failure> {
    let snapshot = match &location {
        Some(location) => Snapshot::take(location).map_err(|error| Failure::Run(error.to_string()))?,
        None => None,
    };
    let report = report(location.as_ref().map(path), snapshot.as_ref());
    if arguments.output.json {
        return output::print(&output::to_json(&report));
    }
    let others = location.as_ref().map(other_layouts).unwrap_or_default();
    let others: String = others.iter().map(|other| format!("Note: {other}.\n")).collect();
    output::print(&(in_words(&report, arguments.wide) + &others))
}

fn clean(location: Option<Location>, json: bool) -> Result<(), Failure> {
    let path = location.as_ref().map(|location| path_to_clean(location).display().to_string());
    let cleaned = location.as_ref().map(comity_table::clean).transpose();
    let cleaned = cleaned.map_err(|error| Failure::Run(error.to_string()))?;
    let place = path.as_deref().unwrap_or_default();
    let (outcome, programs, sentence) = match cleaned {
        None => ("off", 0, OFF.to_owned()),
        Some(Cleaned::NoTable) => ("no_table", 0, format!("There is no core table '{place}'.")),
        Some(Cleaned::Removed) => ("removed", 0, format!("No program used the core table '{place}'. It was removed.")),
        Some(Cleaned::InUse { programs }) => {
            let (noun, verb) = if programs == 1 { ("program", "uses") } else { ("programs", "use") };
            let stays = "It was not removed. Dead programs are removed from it automatically.";
            ("in_use", programs, format!("{programs} living {noun} {verb} the core table '{place}'. {stays}"))
        }
    };
    if json {
        let report = TableCleaned { schema: "comity-table-clean/1", path, outcome, programs };
        return output::print(&output::to_json(&report));
    }
    output::print(&format!("{sentence}\n"))
}

fn report(path: Option<String>, snapshot: Option<&Snapshot>) -> TableReport {
    let numbers = |set: &CoreSet| set.iter().collect::<Vec<usize>>();
    let index = |slot: Option<SlotId>| slot.map(SlotId::index);
    let programs = snapshot.map_or(&[][..], |snapshot| &snapshot.programs);
    let described = programs.iter().map(|program| (program, label::words_of(program)));
    let programs = described.map(|(program, words)| TableProgram {
        command: words.as_ref().map(|words| words.command.clone()),
        folder: words.map(|words| words.folder),
        slot: program.slot.index(),
        pid: program.pid,
        name: program.name.clone(),
        policy: program.policy.clone(),
        weight: program.weight,
        desire: program.desire,
        workers: program.workers,
        awake: program.awake,
        life: match program.life {
            Life::Living => "living",
            Life::Stopped => "stopped",
            Life::Dead => "dead",
        },
        age_s: program.age.as_secs_f64(),
        may_use: numbers(&program.may_use),
        owned: numbers(&program.owned),
        held: numbers(&program.held),
        claimed: program.claimed,
        taken_back: program.taken_back,
        released: program.released,
        lost: program.lost,
        cpu_s: program.cpu.map(|cpu| cpu.as_secs_f64()),
        entitled_cores: snapshot.map_or(0.0, |snapshot| f64::from(snapshot.share_milli(program)) / 1000.0),
        proposal: program.proposal.map(|proposal| match proposal {
            Proposal::Equal => "equal",
            Proposal::Slowdown { .. } => "slowdown",
            Proposal::Time => "time",
            Proposal::Together => "together",
        }),
        efficiency: match program.proposal {
            Some(Proposal::Slowdown { efficiency }) => Some(f64::from(efficiency) / f64::from(LINEAR)),
            _ => None,
        },
        way: program.way.map(Way::name),
        due_s: program.due.map(|due| due.as_secs_f64()),
        voluntary_switches: program.switches.map(|[voluntary, _]| voluntary),
        involuntary_switches: program.switches.map(|[_, involuntary]| involuntary),
        steals: program.thieves.map(|thieves| thieves.steals),
        accelerations: program.thieves.map(|thieves| thieves.accelerations),
        refused: program.thieves.map(Refused),
        obeys: program.requests.is_some(),
        paused_s: program
            .requests
            .and_then(|asked| asked.paused_until)
            .map(|until| until.saturating_sub(now_ns()) as f64 / 1e9),
        asked_weight: program.requests.and_then(|asked| asked.weight),
        asked_cores: program.requests.and_then(|asked| asked.cores),
    });
    let cores = snapshot.map_or(&[][..], |snapshot| &snapshot.cores);
    let cores = cores.iter().map(|core| TableCore {
        id: core.id,
        owner: index(core.owner),
        holder: index(core.holder),
        since_s: core.since.map(|since| since.as_secs_f64()),
    });
    TableReport {
        schema: "comity-table/1",
        path,
        exists: snapshot.is_some(),
        cores: cores.collect(),
        programs: programs.collect(),
    }
}

fn in_words(report: &TableReport, wide: bool) -> String {
    let Some(path) = &report.path else { return format!("{OFF}\n") };
    if !report.exists {
        return format!("There is no core table. The first program that shares cores creates '{path}'.\n");
    }
    if report.programs.is_empty() {
        return format!("No program is using the core table '{path}'.\n");
    }
    format!("The core table '{path}':\n{}\n{}\n", cores(report), programs(report, wide))
}

fn cores(report: &TableReport) -> Table {
    let name = |slot: Option<usize>| match slot {
        None => "-".to_owned(),
        Some(slot) => match report.programs.iter().find(|program| program.slot == slot) {
            Some(program) => format!("{slot} {}", program.name),
            None => slot.to_string(),
        },
    };
    let since =
        |seconds: Option<f64>| seconds.map_or("-".to_owned(), |seconds| in_units(Duration::from_secs_f64(seconds)));
    let rows = report
        .cores
        .iter()
        .map(|core| [core.id.to_string(), name(core.owner), name(core.holder), since(core.since_s)].to_vec());
    table(&["core", "owner", "holder", "since"], rows, &[0, 3])
}

/// The columns of the programs. The boolean is true if the column has numbers. Columns after the first [`FEW`] are
/// shown only with `--wide`.
pub const COLUMNS: [(&str, bool); 26] = [
    ("slot", true),
    ("pid", true),
    ("name", false),
    ("weight", true),
    ("entitled", true),
    ("desire", true),
    ("owned", true),
    ("held", true),
    ("life", false),
    ("policy", false),
    ("awake", true),
    ("workers", true),
    ("age", true),
    ("cpu time", true),
    ("cpu", true),
    ("owed", true),
    ("efficiency", true),
    ("claimed", true),
    ("taken back", true),
    ("released", true),
    ("lost", true),
    ("steals", true),
    ("accelerated", true),
    ("refused", false),
    ("command", false),
    ("folder", false),
];
const FEW: usize = 9;

fn programs(report: &TableReport, wide: bool) -> Table {
    let shown = if wide { COLUMNS.len() } else { FEW };
    let rows = report.programs.iter().map(|program| {
        let mut row = vec![
            program.slot.to_string(),
            program.pid.to_string(),
            program.name.clone(),
            program.weight.to_string(),
            format!("{:.2}", program.entitled_cores),
            program.desire.to_string(),
            program.owned.len().to_string(),
            program.held.len().to_string(),
            if program.paused_s.is_some() && program.life == "living" { "paused" } else { program.life }.to_owned(),
            policy_and_way(&program.policy, program.way),
            program.awake.to_string(),
            program.workers.to_string(),
            in_units(Duration::from_secs_f64(program.age_s)),
            program.cpu_s.map_or("-".to_owned(), |seconds| in_units(Duration::from_secs_f64(seconds))),
            on_average(program.cpu_s, program.age_s),
            on_average(program.due_s.zip(program.cpu_s).map(|(due, cpu)| (due - cpu).max(0.0)), program.age_s),
            program.efficiency.map_or("-".to_owned(), |efficiency| format!("{efficiency:.2}")),
            program.claimed.to_string(),
            program.taken_back.to_string(),
            program.released.to_string(),
            program.lost.to_string(),
            or_dash(program.steals),
            or_dash(program.accelerations),
            program.refused.map_or("-".to_owned(), |Refused(thieves)| refusals(&thieves)),
            program.command.clone().unwrap_or_else(|| "-".to_owned()),
            program.folder.clone().unwrap_or_else(|| "-".to_owned()),
        ];
        row.truncate(shown);
        row
    });
    let header: Vec<&str> = COLUMNS[..shown].iter().map(|(name, _)| *name).collect();
    let numbers: Vec<usize> = (0..shown).filter(|nth| COLUMNS[*nth].1).collect();
    table(&header, rows, &numbers)
}

/// Returns `POLICY`, or `POLICY, WAY` for a command whose way is not the default. For ways, see `way` in the JSON.
pub fn policy_and_way(policy: &str, way: Option<&str>) -> String {
    match way.filter(|way| *way != Way::default().name()) {
        Some(way) => format!("{policy}, {way}"),
        None => policy.to_owned(),
    }
}

fn or_dash(count: Option<u64>) -> String {
    count.map_or("-".to_owned(), |count| count.to_string())
}

/// Formats refusals to give a time slice away, as counts with reasons. Reasons with a count of 0 are left out.
fn refusals(thieves: &Thieves) -> String {
    let some = thieves.by_reason().filter(|(_, count)| *count > 0);
    let words: Vec<String> = some.map(|(reason, count)| format!("{count} {reason}")).collect();
    if words.is_empty() { "0".to_owned() } else { words.join(", ") }
}

/// Returns `seconds / of_s`, the average number of cores, as text. Returns `-` if it is not known.
fn on_average(seconds: Option<f64>, of_s: f64) -> String {
    seconds.filter(|_| of_s > 0.0).map_or("-".to_owned(), |seconds| format!("{:.2}", seconds / of_s))
}

/// Returns a table. The columns `right` have numbers, which are right-aligned and never wrapped. Other columns are
/// wrapped if the terminal is narrow.
fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>, right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.iter().map(Cell::new)).add_rows(rows);
    for nth in right {
        if let Some(column) = table.column_mut(*nth) {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

/// Formats a duration with a unit and two or three digits, for example `1.2 s`.
pub fn in_units(time: Duration) -> String {
    let mut text = String::new();
    let seconds = time.as_secs();
    let _ = match seconds {
        0 => write!(text, "{} ms", time.as_millis()),
        1..=9 => write!(text, "{:.1} s", time.as_secs_f64()),
        10..=119 => write!(text, "{seconds} s"),
        120..=7199 => write!(text, "{} min", seconds / 60),
        7200..=172_799 => write!(text, "{} h", seconds / 3600),
        _ => write!(text, "{} d", seconds / 86_400),
    };
    text
}

/// The JSON schema `comity-table/1`: the core table at one moment. Programs change the table while it is read.
#[derive(Debug, Serialize)]
struct TableReport {
    /// The name of the schema, `comity-table/1`.
    schema: &'static str,
    /// The path that the table has or would have. `null` if `COMITY_TABLE` is `off`.
    path: Option<String>,
    /// True if the table exists.
    exists: bool,
    /// The cores that at least one program of the table may use.
    cores: Vec<TableCore>,
    /// The programs of the table, by slot.
    programs: Vec<TableProgram>,
}

/// A core of the table.
#[derive(Debug, Serialize)]
struct TableCore {
    /// The kernel's number.
    id: usize,
    /// The slot of the program that is entitled to the core.
    owner: Option<usize>,
    /// The slot of the program that uses the core.
    holder: Option<usize>,
    /// The time since the holder began to use the core, or since the last holder released it, in seconds. `null` if
    /// no program has held the core.
    since_s: Option<f64>,
}

/// A program of the table.
#[derive(Debug, Serialize)]
struct TableProgram {
    /// The number of the program's slot (its entry in the core table).
    slot: usize,
    /// The process's number in its own PID namespace.
    pid: u32,
    /// The name that the program gives itself.
    name: String,
    /// The program and its arguments. `null` if it is no command of `comity run`, or belongs to another user.
    command: Option<String>,
    /// The current folder of the command. `null` if `command` is `null`.
    folder: Option<String>,
    /// The policy by which the program shares cores; `run` or `adopt` for a command of that verb.
    policy: String,
    /// The weight.
    weight: u32,
    /// The desire: the number of cores that the program can use now. 0 without work.
    desire: u32,
    /// The number of workers of the program. For a command of `comity run`, the maximum of its desire.
    workers: u32,
    /// The number of workers that are awake. For a command, the threads that run or wait for a core.
    awake: u32,
    /// The state: `living`, `stopped` (it has work, but its coordinator does not look at the table) or `dead` (the
    /// next program that looks at the table removes it).
    life: &'static str,
    /// The time since the program joined the table, in seconds.
    age_s: f64,
    /// The cores that the program's affinity allows.
    may_use: Vec<usize>,
    /// The cores that the program is entitled to.
    owned: Vec<usize>,
    /// The cores that the program holds (uses), including cores that other programs own.
    held: Vec<usize>,
    /// The number of times that the program began to use a core that no program used.
    claimed: u64,
    /// The number of times that the program took back one of its own cores.
    taken_back: u64,
    /// The number of times that the program released a core.
    released: u64,
    /// The number of times that the program lost a core to the core's owner.
    lost: u64,
    /// Processor time, in seconds, from the start of the program to its coordinator's last look. For a command, the
    /// time begins when the command joined. `null` if the program does not publish it.
    cpu_s: Option<f64>,
    /// The share that the program is entitled to now, in cores. 0 without work.
    entitled_cores: f64,
    /// The division of cores that the program proposes: `equal`, `slowdown` or `time`, as in `comity:share=slowdown`.
    /// `together` for a command that needs all cores in turns. `null` for an older build, and shortly after joining.
    proposal: Option<&'static str>,
    /// The efficiency, 0.5 to 1: v / (N × w). Here v is the program's speed with all N cores, and w is its speed per
    /// core with only the cores of its share. If all programs propose `slowdown`, shares are in proportion to weight
    /// times efficiency. `null` if the efficiency is not used.
    efficiency: Option<f64>,
    /// The way in which a command of `comity run` is limited to its share: `cores` (it holds its own cores), `turns`
    /// (it gets all cores, in turns), or left to the operating system as `team`, `nice`, `even` or `group` (see
    /// `comity run --help`). `null` for other programs.
    way: Option<&'static str>,
    /// The processor time that the program was due, in seconds, from the same start as `cpu_s`. `null` for an older
    /// build.
    due_s: Option<f64>,
    /// Context switches because a thread waited, counted from the same start as `cpu_s`. `null` for a command.
    voluntary_switches: Option<u64>,
    /// Context switches because the kernel took the core away, counted from the same start as `cpu_s`. `null` for a
    /// command.
    involuntary_switches: Option<u64>,
    /// The number of tasks that workers of the program took from each other since its first pool began. `null` for a
    /// command, for an older build, and shortly after joining.
    steals: Option<u64>,
    /// The number of times that a worker without a task gave the rest of its time slice to another worker. `null` if
    /// `steals` is `null`.
    accelerations: Option<u64>,
    /// The number of times that a worker without a task did not give its time slice away, by reason. `null` if
    /// `steals` is `null`.
    refused: Option<Refused>,
    /// True if `comity set` can send requests to the program. False for an older build.
    obeys: bool,
    /// The rest of the requested pause, in seconds. `null` if the program is not paused.
    paused_s: Option<f64>,
    /// The requested weight. `null` if the program uses its own weight.
    asked_weight: Option<u32>,
    /// The requested maximum number of cores. `null` if the program uses its own maximum.
    asked_cores: Option<u32>,
}

/// The JSON schema `comity-table-clean/1`: the outcome of the removal of the core table.
#[derive(Debug, Serialize)]
struct TableCleaned {
    /// The name of the schema, `comity-table-clean/1`.
    schema: &'static str,
    /// The path that the table has or had. `null` if `COMITY_TABLE` is `off`.
    path: Option<String>,
    /// The outcome: `removed`, `in_use`, `no_table` or `off`.
    outcome: &'static str,
    /// The number of living programs that use the table.
    programs: usize,
}

/// Counts, by reason, of refusals to give a time slice away. Each reason is a field: `no_hypervisor` and others (see
/// `comity::Refusal`).
#[derive(Clone, Copy, Debug)]
pub struct Refused(pub Thieves);

impl Serialize for Refused {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.by_reason().map(|(reason, count)| (key(reason), count)))
    }
}

/// Formats a reason as a JSON key.
pub fn key(reason: &str) -> String {
    reason.replace(' ', "_")
}

/// Serializes an optional reason as a JSON key.
pub fn as_key<S: Serializer>(reason: &Option<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    reason.map(key).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::{Thieves, in_units, refusals};
    use std::time::Duration;

    #[test]
    fn times_have_the_unit_that_fits() {
        for (ms, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_500, "1.5 s"),
            (61_000, "61 s"),
            (120_000, "2 min"),
            (7_200_000, "2 h"),
            (200_000_000, "2 d"),
        ] {
            assert_eq!(in_units(Duration::from_millis(ms)), expected);
        }
    }

    #[test]
    fn refusals_have_the_reasons_that_there_were() {
        let mut thieves = Thieves::default();
        assert_eq!(refusals(&thieves), "0");
        (thieves.refusals[1], thieves.refusals[7]) = (1200, 34);
        assert_eq!(refusals(&thieves), "1200 running, 34 mask");
    }
}
