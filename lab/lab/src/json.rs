//! Everything the command writes as JSON. A schema's number changes when a field goes or changes its meaning; new
//! fields may come at any time.
//!
//! Times are in seconds. A number that does not exist (the variation of a single round, the steals of a backend
//! without counters) is `null`.

use comity::{Refusal, Refusals, WorkerCounters};
use comity_console::machine::{Machine, Versions};
use comity_graph::Scale;
use serde::{Deserialize, Serialize};

/// `comity-corun/1`: all co-runs of one `comity-lab corun`.
#[derive(Debug, Serialize, Deserialize)]
pub struct CorunReport {
    /// `comity-corun/1`.
    pub schema: String,
    /// Where it ran.
    pub machine: Machine,
    /// With what.
    pub versions: Versions,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// The backend that gives T_b of the weighted speedup and its bound, and B of the slow-down ratio, by its time
    /// alone; or `own` for each one's own.
    pub baseline: String,
    /// Counted executions per program, alone and together.
    pub rounds: usize,
    /// Uncounted rounds that each program ran alone before the programs ran together.
    #[serde(default)]
    pub lead_in: usize,
    /// Into how many parts the rounds were divided, each with all backends.
    pub blocks: usize,
    /// Whether a signal ended the command before all rounds were done: then some programs have fewer, and some
    /// co-runs are missing.
    #[serde(default)]
    pub partial: bool,
    /// One per backend, in the order asked for; of each pair, where there are pairs.
    pub coruns: Vec<Corun>,
    /// One per backend; empty without `--pairs`.
    pub over_pairs: Vec<OverPairs>,
}

/// The co-run of all programs under one backend.
#[derive(Debug, Serialize, Deserialize)]
pub struct Corun {
    /// The policy with its parameters, or the backend's name where it has no policy.
    pub policy: String,
    /// `comity`, `rayon` or `serial`.
    pub backend: String,
    /// Workers of each program.
    pub workers: u16,
    /// The largest slowdown minus the smallest.
    pub unfairness: f64,
    /// D: the largest slow-down ratio minus the smallest.
    pub slowdown_ratio_difference: f64,
    /// The largest `cores_used / cores_due` minus the smallest.
    pub cpu_unfairness: f64,
    /// ΣT_b/T_c.
    pub weighted_speedup: f64,
    /// The weighted speedup if no work were wasted and all programs were slowed alike: n / max(1, Σ(W/T_b) / cores).
    pub bound: f64,
    /// `weighted_speedup / bound`.
    pub efficiency: f64,
    /// Σ(`voluntary_switches` + `involuntary_switches`) / T_c: the programs' context switches per second together.
    pub switches_per_s: f64,
    /// In the order of the command line.
    pub programs: Vec<CorunProgram>,
}

/// All pairs of programs under one backend. Means are arithmetic where their name says nothing else.
#[derive(Debug, Serialize, Deserialize)]
pub struct OverPairs {
    /// As of a [`Corun`].
    pub policy: String,
    /// As of a [`Corun`].
    pub backend: String,
    /// How many there are.
    pub pairs: usize,
    /// Of the pairs; the worst is the largest.
    pub unfairness: MeanAndWorst,
    /// D, of the pairs; the worst is the largest.
    pub slowdown_ratio_difference: MeanAndWorst,
    /// Of the pairs; the worst is the largest.
    pub cpu_unfairness: MeanAndWorst,
    /// Of both programs of all pairs.
    pub slowdown_ratio_geometric_mean: f64,
    /// The mean weighted speedup of the pairs.
    pub weighted_speedup_mean: f64,
    /// Of the pairs; the worst is the smallest.
    pub efficiency: MeanAndWorst,
    /// Of both programs of all pairs; the worst is the largest.
    pub cv: Option<MeanAndWorst>,
    /// The mean of the pairs' switches per second.
    pub switches_per_s_mean: f64,
}

/// A measure over several co-runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanAndWorst {
    /// The arithmetic mean.
    pub mean: f64,
    /// The worst of them.
    pub worst: f64,
}

/// One program's share in a co-run. Switches, processor time and counters are means per counted co-run round.
#[derive(Debug, Serialize, Deserialize)]
pub struct CorunProgram {
    /// As on the command line.
    pub name: String,
    /// `kernel` or `command`.
    pub kind: String,
    /// T_s: the mean time alone.
    pub solo_s: f64,
    /// Coefficient of variation of the time alone.
    pub solo_cv: Option<f64>,
    /// T_1: the mean time alone with one worker, on one core.
    pub one_core_s: f64,
    /// W: the processor time of that.
    pub work_s: f64,
    /// T_b, which is B too: the baseline's mean time alone.
    pub baseline_s: f64,
    /// T_c: the mean time together, over the counted rounds.
    pub corun_s: f64,
    /// T, the response time: the mean time together over all rounds, counted or not. All of them overlapped fully;
    /// of a short program beside a long one the uncounted ones are the larger part.
    pub overlapped_s: f64,
    /// (T_c − T_s) / T_s.
    pub slowdown: f64,
    /// T/B: `overlapped_s / baseline_s`.
    pub slowdown_ratio: f64,
    /// Coefficient of variation of the time together.
    pub cv: Option<f64>,
    /// Counted rounds together.
    pub rounds: usize,
    /// Rounds that ran on, uncounted, while other programs were not done.
    pub uncounted_rounds: usize,
    /// Whether every result was right, uncounted ones included. Of a command: whether it always ended with 0, which it
    /// must have to be reported.
    pub verified: bool,
    /// Processor time of all threads. A kernel's check is not in it.
    pub cpu_s: f64,
    /// The same when alone.
    pub solo_cpu_s: f64,
    /// Processor time over wall-clock time, together.
    pub cores_used: f64,
    /// An equal share of the cores, but no more than it uses alone; what one does not use is shared among the others.
    pub cores_due: f64,
    /// Context switches because a thread waited.
    pub voluntary_switches: f64,
    /// Context switches because the kernel took the core away.
    pub involuntary_switches: f64,
    /// Attempts to steal.
    pub steal_attempts: Option<f64>,
    /// Those that took a task.
    pub steals: Option<f64>,
    /// Times that a worker offered its core.
    pub yields: Option<f64>,
    /// Times that a worker went to sleep.
    pub sleeps: Option<f64>,
    /// Workers woken by others.
    pub wakeups: Option<f64>,
    /// Workers that had what was left of a thief's time slice.
    pub accelerations: Option<f64>,
    /// Those that a thief would have given it to, by the reason why it was refused.
    pub refused: Option<Refused<f64>>,
    /// Time with a task, over all workers.
    pub busy_s: Option<f64>,
    /// Time awake without a task, over all workers.
    pub thief_s: Option<f64>,
    /// Time asleep, over all workers.
    pub asleep_s: Option<f64>,
    /// Every counted round, so that other statistics can be computed.
    pub times: Times,
}

/// The seconds of every counted round, in order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Times {
    /// Alone.
    pub solo_s: Vec<f64>,
    /// Alone with one worker on one core.
    pub one_core_s: Vec<f64>,
    /// Together.
    pub corun_s: Vec<f64>,
}

/// `comity-kernel/1`: the runs of one `comity-lab kernel`.
#[derive(Debug, Serialize)]
pub struct KernelReport {
    /// `comity-kernel/1`.
    pub schema: &'static str,
    /// Where it ran.
    pub machine: Machine,
    /// With what.
    pub versions: Versions,
    /// The kernel with its parameters, as on the command line.
    pub name: String,
    /// The policy with its parameters, or the backend's name where it has no policy.
    pub policy: String,
    /// `comity`, `rayon` or `serial`.
    pub backend: &'static str,
    /// Workers of the pool.
    pub workers: u16,
    /// Building the input, not part of any round.
    pub prepare_s: f64,
    /// Whether every round was right.
    pub verified: bool,
    /// Whether a signal ended the command before all rounds were done.
    pub partial: bool,
    /// What the kernel has to show, and where.
    pub presented: Option<String>,
    /// In order.
    pub rounds: Vec<Round>,
}

/// `comity-record/1`: one `comity-lab record`.
#[derive(Debug, Serialize)]
pub struct RecordReport {
    /// `comity-record/1`.
    pub schema: &'static str,
    /// Where this command ran; a recording that is only shown may be of another machine.
    pub machine: Machine,
    /// With what.
    pub versions: Versions,
    /// What was recorded.
    pub name: String,
    /// For so many workers.
    pub workers: u32,
    /// The factors by which it is scaled in what follows, where it is; plain runs are those of the recorded input.
    pub scale: Option<Scale>,
    /// Tasks shorter than this, in nanoseconds, are part of their parents, or several of one fork are one.
    pub merge_ns: u64,
    /// What reading the clock costs, in nanoseconds, which is in no length.
    pub clock_ns: u64,
    /// T₁ of the recording.
    pub work_s: f64,
    /// T∞ of what unfolds from it.
    pub span_s: f64,
    /// T∞ of the run as it was, before any task was merged.
    pub recorded_span_s: f64,
    /// T₁/T∞.
    pub parallelism: f64,
    /// How many tasks unfold,
    pub tasks: u64,
    /// and how many joins were merged into stretches.
    pub merged_joins: u64,
    /// How many tasks are kept, equal ones once.
    pub kept_tasks: usize,
    /// Tasks that fork nothing.
    pub leaves: u64,
    /// Their tenth, median and ninth decile, and the longest, in nanoseconds.
    pub leaf_ns: [u64; 4],
    /// Processor time of the serial run that is not recorded; 0: not known.
    pub plain_s: f64,
    /// (T_recorded − T_plain) / T_plain.
    pub slowdown: Option<f64>,
    /// Over the rounds; `null` of a recording that is only shown.
    pub plain: Option<Spread>,
    /// The same of the recorded run,
    pub recorded: Option<Spread>,
    /// and of the recordings' work.
    pub work: Option<Spread>,
}

/// The median of some numbers, and between which they are.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// Of an even number the upper of the two.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

/// One execution of a program. Also what the processes of a co-run tell the command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    /// Wall-clock time. Of a kernel: of the computation alone; of a command: from its start to its end.
    pub seconds: f64,
    /// Whether the result was right.
    pub verified: bool,
    /// What it was compared with.
    pub detail: String,
    /// Processor time of all threads. A kernel's check is not in it.
    pub cpu_s: f64,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because the kernel took the core away.
    pub involuntary_switches: u64,
    /// What the workers did; Comity only.
    pub counters: Option<Counters>,
}

/// The counters of all workers of a pool together (see `comity::WorkerCounters`).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Counters {
    /// Attempts to steal.
    pub steal_attempts: u64,
    /// Those that took a task.
    pub steals: u64,
    /// Times that a worker offered its core.
    pub yields: u64,
    /// Times that a worker went to sleep.
    pub sleeps: u64,
    /// Workers woken by others.
    pub wakeups: u64,
    /// Workers that had what was left of a thief's time slice.
    #[serde(default)]
    pub accelerations: u64,
    /// Those that a thief would have given it to, by the reason why it was refused.
    #[serde(default)]
    pub refused: Refused,
    /// Time with a task, over all workers.
    pub busy_s: f64,
    /// Time awake without a task, over all workers.
    pub thief_s: f64,
    /// Time asleep, over all workers.
    pub asleep_s: f64,
}

impl From<WorkerCounters> for Counters {
    fn from(counters: WorkerCounters) -> Counters {
        Counters {
            steal_attempts: counters.steal_attempts,
            steals: counters.steals,
            yields: counters.yields,
            sleeps: counters.sleeps,
            wakeups: counters.wakeups,
            accelerations: counters.accelerations,
            refused: Refused::from(counters.refusals),
            busy_s: counters.busy.as_secs_f64(),
            thief_s: counters.thief.as_secs_f64(),
            asleep_s: counters.asleep.as_secs_f64(),
        }
    }
}

/// How often a worker was not accelerated, by reason (see `comity::Refusal`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused<N = u64> {
    /// A virtual CPU was meant, and no hypervisor takes part.
    pub no_hypervisor: N,
    /// The worker ran, or had not been off its core for long enough.
    pub running: N,
    /// It waited in a system call.
    pub blocked: N,
    /// It had been pulled to another core, and had not run since.
    pub pulled: N,
    /// Another thief accelerated it.
    pub taken: N,
    /// The thief was accelerated itself.
    pub chain: N,
    /// It ran on another NUMA node.
    pub other_node: N,
    /// It may not run on the thief's core.
    pub mask: N,
    /// The kernel did not let it be moved.
    pub kernel: N,
}

impl From<Refusals> for Refused {
    fn from(refusals: Refusals) -> Refused {
        Refused {
            no_hypervisor: refusals.of(Refusal::NoHypervisor),
            running: refusals.of(Refusal::Running),
            blocked: refusals.of(Refusal::Blocked),
            pulled: refusals.of(Refusal::Pulled),
            taken: refusals.of(Refusal::Taken),
            chain: refusals.of(Refusal::Chain),
            other_node: refusals.of(Refusal::OtherNode),
            mask: refusals.of(Refusal::Mask),
            kernel: refusals.of(Refusal::Kernel),
        }
    }
}

/// `comity-kernels/1`: the catalog of kernels.
#[derive(Debug, Serialize)]
pub struct KernelCatalog {
    /// `comity-kernels/1`.
    pub schema: &'static str,
    /// In the catalog's order.
    pub kernels: Vec<KernelRow>,
}

/// One kernel.
#[derive(Debug, Serialize)]
pub struct KernelRow {
    /// As in `comity-lab kernel NAME`.
    pub name: &'static str,
    /// What it computes.
    pub summary: &'static str,
    /// What can be set.
    pub parameters: Vec<KernelParameter>,
    /// The rule by which a recording is scaled to a larger input; `null`: there is none,
    pub scaling: Option<&'static str>,
    /// and why.
    pub no_scaling: Option<&'static str>,
}

/// One value that a kernel can be given.
#[derive(Debug, Serialize)]
pub struct KernelParameter {
    /// As in `NAME:key=value`.
    pub key: &'static str,
    /// The value when none is given.
    pub default: &'static str,
    /// What it means and which values it takes.
    pub help: &'static str,
}
