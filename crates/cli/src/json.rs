//! Everything the command writes as JSON. A schema's number changes when a field goes or changes its meaning; new
//! fields may come at any time.
//!
//! Times are in seconds. A number that does not exist (the variation of a single round, the steals of a backend
//! without counters) is `null`.

use comity_console::machine::{Machine, Versions};
use comity_os::Capabilities;
use comity_table::Thieves;
use serde::{Serialize, Serializer};

/// `comity-policies/1`: the catalog of policies.
#[derive(Debug, Serialize)]
pub struct PolicyCatalog {
    /// `comity-policies/1`.
    pub schema: &'static str,
    /// The first is the default.
    pub policies: Vec<PolicyRow>,
}

/// One policy.
#[derive(Debug, Serialize)]
pub struct PolicyRow {
    /// As in `--policy`.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// Where an unblocked task goes, unless `place=` says otherwise.
    pub place: &'static str,
    /// What else can be set.
    pub parameters: Vec<PolicyParameter>,
}

/// One number, or named choice, that a policy can be given.
#[derive(Debug, Serialize)]
pub struct PolicyParameter {
    /// As in `NAME:key=value`.
    pub key: &'static str,
    /// The value when none is given: a number, or a choice's name.
    pub default: serde_json::Value,
    /// The smallest number.
    pub least: Option<u32>,
    /// The largest number.
    pub most: Option<u32>,
    /// The names to choose from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choices: Option<&'static [&'static str]>,
    /// What it counts, or decides.
    pub help: &'static str,
}

/// `comity-doctor/1`: what this machine offers.
#[derive(Debug, Serialize)]
pub struct DoctorReport {
    /// `comity-doctor/1`.
    pub schema: &'static str,
    /// The worst of the checks'.
    pub verdict: Verdict,
    /// The machine.
    pub machine: Machine,
    /// With what it was found.
    pub versions: Versions,
    /// Every core that the affinity mask allows.
    pub cores: Vec<DoctorCore>,
    /// What the kernel offers.
    pub capabilities: DoctorCapabilities,
    /// What was looked at.
    pub checks: Vec<DoctorCheck>,
}

/// Whether something is as it should be; the number is an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is.
    Ok = 0,
    /// It works, and something is lost.
    Costs = 1,
    /// Programs do not share cores, or do not start.
    Bad = 2,
}

impl Verdict {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Costs => "costs",
            Verdict::Bad => "bad",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub struct DoctorCheck {
    /// What it is called.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub verdict: Verdict,
    /// What there is.
    pub found: String,
    /// What follows from it.
    pub meaning: String,
    /// What to do; `null` where nothing needs to be.
    pub change: Option<String>,
}

/// One core.
#[derive(Debug, Serialize)]
pub struct DoctorCore {
    /// The kernel's number.
    pub id: usize,
    /// The physical package.
    pub package: usize,
    /// The NUMA node.
    pub node: usize,
}

/// The kernel's services, see [`Capabilities`].
#[derive(Debug, Serialize)]
pub struct DoctorCapabilities {
    /// A sleeper can make every push visible.
    pub membarrier: bool,
    /// A peer's run status can be read.
    pub thread_cpu_clock: bool,
    /// A session is a task group of its own.
    pub autogroup: bool,
}

impl From<Capabilities> for DoctorCapabilities {
    fn from(found: Capabilities) -> DoctorCapabilities {
        DoctorCapabilities {
            membarrier: found.membarrier,
            thread_cpu_clock: found.thread_cpu_clock,
            autogroup: found.autogroup,
        }
    }
}

/// `comity-table/1`: the core table at one moment. Programs change it while it is read.
#[derive(Debug, Serialize)]
pub struct TableReport {
    /// `comity-table/1`.
    pub schema: &'static str,
    /// Where it is or would be; `null` if `COMITY_TABLE` is `off`.
    pub path: Option<String>,
    /// Whether there is one.
    pub exists: bool,
    /// Every core that a program of the table may use.
    pub cores: Vec<TableCore>,
    /// Every program in it, by slot.
    pub programs: Vec<TableProgram>,
}

/// One core of the table.
#[derive(Debug, Serialize)]
pub struct TableCore {
    /// The kernel's number.
    pub id: usize,
    /// The slot of the program that is entitled to it.
    pub owner: Option<usize>,
    /// The slot of the program that uses it.
    pub holder: Option<usize>,
    /// For how long that program has used it, or no program has; `null` if none has used it yet.
    pub since_s: Option<f64>,
}

/// One program of the table.
#[derive(Debug, Serialize)]
pub struct TableProgram {
    /// Its place.
    pub slot: usize,
    /// The process's number in its own PID namespace.
    pub pid: u32,
    /// What it calls itself.
    pub name: String,
    /// The policy that it shares by; `run` for a command of `comity run`.
    pub policy: String,
    /// How much it counts.
    pub weight: u32,
    /// How many cores it can use now; 0 without work.
    pub desire: u32,
    /// Its workers; of a command of `comity run`: the most cores that it may desire.
    pub workers: u32,
    /// Workers that are awake; of a command: threads that run or wait for a core.
    pub awake: u32,
    /// `living`, `stopped` (it has work and its coordinator does not come by) or `dead` (the next program that
    /// looks takes it out).
    pub life: &'static str,
    /// Since it joined.
    pub age_s: f64,
    /// The cores that its affinity allows.
    pub may_use: Vec<usize>,
    /// The cores that it is entitled to.
    pub owned: Vec<usize>,
    /// The cores that it holds.
    pub held: Vec<usize>,
    /// How often it began to use a core that no program used.
    pub claimed: u64,
    /// How often it took one back.
    pub taken_back: u64,
    /// How often it released one.
    pub released: u64,
    /// How often it lost one to its owner.
    pub lost: u64,
    /// Processor time that it has used since it began, or joined as a command, when its coordinator last came by;
    /// `null` if it does not publish that.
    pub cpu_s: Option<f64>,
    /// What it is entitled to now, in cores; 0 without work.
    pub entitled_cores: f64,
    /// How it proposes that cores are divided: `equal`, `slowdown` or `time`, as in `comity:share=slowdown`; `together`
    /// for a command that needs all cores in turns; `null` if it is of an older build, or has joined a moment ago.
    pub proposal: Option<&'static str>,
    /// Its speed alone over that of as many cores as there were, each as fast as one of its share; 0.5 to 1. It
    /// counts so much beside its weight where all programs propose `slowdown`. `null` where it does not.
    pub efficiency: Option<f64>,
    /// The way in which a command of `comity run` is limited to its share: `cores` (it has its own cores), `turns` (it
    /// has all cores in turns), or left to the operating system as `team`, `nice`, `even` or `group` (see `comity run
    /// --help`). `null` for other programs.
    pub way: Option<&'static str>,
    /// Processor time that it was due, as `cpu_s`; `null` if it is of an older build.
    pub due_s: Option<f64>,
    /// Context switches because a thread waited, as `cpu_s`; `null` for a command.
    pub voluntary_switches: Option<u64>,
    /// The same because the kernel took the core away.
    pub involuntary_switches: Option<u64>,
    /// How often its workers took a task from each other since its first pool began. `null` for a command, for an
    /// older build, and for one that has joined a moment ago.
    pub steals: Option<u64>,
    /// How often one without a task gave another what was left of its time slice; `null` as `steals`.
    pub accelerations: Option<u64>,
    /// How often one would have, and did not, by reason; `null` as `steals`.
    pub refused: Option<Refused>,
    /// Whether it can be asked for something (`comity set`): not if it is of an older build.
    pub obeys: bool,
    /// For how long it still rests, as it was asked to; `null` if it does not.
    pub paused_s: Option<f64>,
    /// The weight that it was asked for; `null` where it counts as it says itself.
    pub asked_weight: Option<u32>,
    /// The most cores that it was asked to use; `null` where that is as it says itself.
    pub asked_cores: Option<u32>,
}

/// Counts of refusals by reason, as fields: `no_hypervisor` and others (see `comity::Refusal`).
#[derive(Clone, Copy, Debug)]
pub struct Refused(pub Thieves);

impl Serialize for Refused {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.by_reason().map(|(reason, count)| (key(reason), count)))
    }
}

/// A reason as programs read it.
pub fn key(reason: &str) -> String {
    reason.replace(' ', "_")
}

/// The same, of one that may be none.
pub fn as_key<S: Serializer>(reason: &Option<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    reason.map(key).serialize(serializer)
}

/// `comity-run/1`: what a command used, and what sharing cores cost it.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// `comity-run/1`.
    pub schema: &'static str,
    /// What the table calls it.
    pub name: String,
    /// `null` if a signal ended it.
    pub exit_code: Option<i32>,
    /// `null` if it ended by itself.
    pub signal: Option<i32>,
    /// From its start to its end.
    pub wall_s: f64,
    /// Processor time of the command and of what it, and what that, has waited for.
    pub cpu_s: f64,
    /// Context switches of these because a thread waited.
    pub voluntary_switches: u64,
    /// The same because the kernel took the core away.
    pub involuntary_switches: u64,
    /// How much it counted.
    pub weight: u32,
    /// The cores that it could use when it began, by its affinity and the quota.
    pub usable: u32,
    /// `null` if it took no part in a table, or ended before its coordinator had looked.
    pub shared: Option<RunShared>,
}

/// What a command did in the core table.
#[derive(Debug, Serialize)]
pub struct RunShared {
    /// Processor time that it was due: its share while it held cores beside others, and what it used otherwise.
    pub due_s: f64,
    /// Processor time that it was seen to use meanwhile.
    pub used_s: f64,
    /// Core seconds that it held.
    pub held_core_s: f64,
    /// Core seconds that were its own and that it did not hold.
    pub lent_core_s: f64,
    /// How often it began to use a core that no program used; this and the next three are `null` if its entry was
    /// gone.
    pub claimed: Option<u64>,
    /// How often it took one back.
    pub taken_back: Option<u64>,
    /// How often it released one.
    pub released: Option<u64>,
    /// How often it lost one to its owner.
    pub lost: Option<u64>,
    /// Seconds that its threads waited for a core, all together, also for one that another of them had.
    pub waited_s: f64,
    /// What it would have taken alone, at a guess.
    pub alone_estimate_s: f64,
    /// What was seen, in order; stretches are the longer the longer the command ran.
    pub timeline: Vec<RunStretch>,
}

/// A stretch of a command's time.
#[derive(Debug, Serialize)]
pub struct RunStretch {
    /// How long it was.
    pub seconds: f64,
    /// Cores that the command used, on average.
    pub used_cores: f64,
    /// Cores that it held.
    pub held_cores: f64,
    /// Cores that it was entitled to.
    pub owned_cores: f64,
}

/// `comity-cores/1`: the cores that a program started now would get.
#[derive(Debug, PartialEq, Serialize)]
pub struct CoresReport {
    /// `comity-cores/1`.
    pub schema: &'static str,
    /// A whole number, 1 at least: `share` rounded up.
    pub cores: u32,
    /// What it would be entitled to, in cores: those that cannot be divided go round.
    pub share: f64,
    /// What its affinity and the quota leave it, whatever others do.
    pub usable: u32,
    /// The cores that its affinity allows.
    pub allowed_cores: usize,
    /// Cores' worth of time that the tightest cgroup quota grants.
    pub quota_cores: Option<f64>,
    /// How much it would count.
    pub weight: u32,
    /// The table; `null` if `COMITY_TABLE` is `off`, or it cannot be used.
    pub table: Option<String>,
    /// The programs in it that live.
    pub programs: usize,
}

/// `comity-table-clean/1`: what became of the core table.
#[derive(Debug, Serialize)]
pub struct TableCleaned {
    /// `comity-table-clean/1`.
    pub schema: &'static str,
    /// Where it is or was; `null` if `COMITY_TABLE` is `off`.
    pub path: Option<String>,
    /// `removed`, `in_use`, `no_table` or `off`.
    pub outcome: &'static str,
    /// The living programs that use it.
    pub programs: usize,
}

/// `comity-set/1`: what a program was asked.
#[derive(Debug, Serialize)]
pub struct SetReport {
    /// `comity-set/1`.
    pub schema: &'static str,
    /// Its place in the table.
    pub slot: usize,
    /// The process's number in its own PID namespace.
    pub pid: u32,
    /// What it calls itself.
    pub name: String,
    /// How much it is to count, if that was asked: a number, or `own`.
    pub weight: Option<String>,
    /// The most cores that it is to use, if that was asked: a number, or `auto`.
    pub cores: Option<String>,
    /// For how long it is to rest, if that was asked: 0 to rest no longer.
    pub pause_s: Option<f64>,
}
