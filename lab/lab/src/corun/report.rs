//! The report that `corun --json` writes, and its computation from samples.

use super::measures::{self, Means};
use super::program::Program;
use super::schedule::{Plan, Samples};
use crate::backend::Backend;
use crate::trial::{Counters, Refused, Round};
use comity_console::Failure;
use comity_console::machine::{Machine, Versions};
use serde::{Deserialize, Serialize};

/// The report of one `comity-lab corun`: all its co-runs, in schema `comity-corun/1`.
#[derive(Debug, Serialize, Deserialize)]
pub struct CorunReport {
    /// The schema: `comity-corun/1`.
    pub schema: String,
    /// The machine on which the co-runs ran.
    pub machine: Machine,
    /// The versions of the software.
    pub versions: Versions,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// The baseline: the backend whose time alone is T_b of the weighted speedup and its bound, and B of the
    /// slow-down ratio. `own` means that each backend is its own baseline.
    pub baseline: String,
    /// Counted executions per program, alone and together.
    pub rounds: usize,
    /// Uncounted rounds that each program ran alone before the programs ran together.
    #[serde(default)]
    pub lead_in: usize,
    /// The number of blocks into which the rounds were divided. In each block, all backends ran.
    pub blocks: usize,
    /// True if a signal ended the command before all rounds were done. Some programs then have fewer rounds, and some
    /// co-runs are missing.
    #[serde(default)]
    pub partial: bool,
    /// The co-runs, one per backend, in the order of the command line. With `--pairs`, one per backend and pair.
    pub coruns: Vec<Corun>,
    /// Summaries over all pairs, one per backend; empty without `--pairs`.
    pub over_pairs: Vec<OverPairs>,
}

/// The co-run of all programs under one backend.
#[derive(Debug, Serialize, Deserialize)]
pub struct Corun {
    /// The policy with its parameters, or the backend's name if it has no policy.
    pub policy: String,
    /// The backend: `comity`, `rayon` or `serial`.
    pub backend: String,
    /// Workers of each program.
    pub workers: u16,
    /// The largest slowdown minus the smallest.
    pub unfairness: f64,
    /// D: the largest slow-down ratio minus the smallest.
    pub slowdown_ratio_difference: f64,
    /// The largest `cores_used / cores_due` minus the smallest.
    pub cpu_unfairness: f64,
    /// The weighted speedup ΣT_b/T_c.
    pub weighted_speedup: f64,
    /// The upper bound of the weighted speedup, n / max(1, Σ(W/T_b) / cores): no processor time is wasted, and all
    /// programs are slowed down equally.
    pub bound: f64,
    /// The efficiency, `weighted_speedup / bound`.
    pub efficiency: f64,
    /// The context switches of all programs per second: Σ (`voluntary_switches` + `involuntary_switches`) / T_c.
    pub switches_per_s: f64,
    /// The programs, in the order of the command line.
    pub programs: Vec<CorunProgram>,
}

/// All pairs of programs under one backend. A mean is arithmetic if its name does not contain `geometric`.
#[derive(Debug, Serialize, Deserialize)]
pub struct OverPairs {
    /// The policy, as in a [`Corun`].
    pub policy: String,
    /// The backend, as in a [`Corun`].
    pub backend: String,
    /// The number of pairs.
    pub pairs: usize,
    /// The unfairness of the pairs; the worst is the largest.
    pub unfairness: MeanAndWorst,
    /// D of the pairs; the worst is the largest.
    pub slowdown_ratio_difference: MeanAndWorst,
    /// The unfairness in processor time of the pairs; the worst is the largest.
    pub cpu_unfairness: MeanAndWorst,
    /// The geometric mean of the slow-down ratios. Each pair has two ratios, one per program.
    pub slowdown_ratio_geometric_mean: f64,
    /// The mean weighted speedup of the pairs.
    pub weighted_speedup_mean: f64,
    /// The efficiency of the pairs; the worst is the smallest.
    pub efficiency: MeanAndWorst,
    /// The coefficients of variation. Each pair has two, one per program. The worst is the largest.
    pub cv: Option<MeanAndWorst>,
    /// The mean of the pairs' switches per second.
    pub switches_per_s_mean: f64,
}

/// A measure over several co-runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanAndWorst {
    /// The arithmetic mean.
    pub mean: f64,
    /// The worst value.
    pub worst: f64,
}

/// The results of one program in a co-run. Switches, processor time and counters are means per counted co-run round.
#[derive(Debug, Serialize, Deserialize)]
pub struct CorunProgram {
    /// The program, as on the command line.
    pub name: String,
    /// The kind of program: `kernel` or `command`.
    pub kind: String,
    /// T_s: the mean time alone.
    pub solo_s: f64,
    /// The coefficient of variation of the time alone.
    pub solo_cv: Option<f64>,
    /// T_1: the mean time alone with one worker, on one core.
    pub one_core_s: f64,
    /// W: the mean processor time alone with one worker, on one core.
    pub work_s: f64,
    /// T_b, which is also B: the mean time alone under the baseline.
    pub baseline_s: f64,
    /// T_c: the mean time together, over the counted rounds.
    pub corun_s: f64,
    /// T, the response time: the mean time together over all rounds, counted or not. In all these rounds, the other
    /// programs ran all the time. A short program that runs together with a long program has more uncounted rounds
    /// than counted rounds.
    pub overlapped_s: f64,
    /// The slowdown (T_c − T_s) / T_s.
    pub slowdown: f64,
    /// T/B: `overlapped_s / baseline_s`.
    pub slowdown_ratio: f64,
    /// The coefficient of variation of the time together.
    pub cv: Option<f64>,
    /// Counted rounds together.
    pub rounds: usize,
    /// Uncounted rounds of the program: it ran them after its counted rounds, until the other programs had run
    /// theirs.
    pub uncounted_rounds: usize,
    /// True if every result was right, including those of uncounted rounds. The result of a command is right if it
    /// always ended with 0. Otherwise the co-run fails and there is no report.
    pub verified: bool,
    /// Processor time of all threads in a counted round together with the other programs, without the check of a
    /// kernel's result.
    pub cpu_s: f64,
    /// Processor time of all threads in a round alone.
    pub solo_cpu_s: f64,
    /// The number of cores that the program used together with the other programs: processor time / wall-clock time.
    pub cores_used: f64,
    /// The cores due to the program: an equal share, but no more than the program uses alone. The rest of its share
    /// is divided among the other programs.
    pub cores_due: f64,
    /// Context switches because a thread waited.
    pub voluntary_switches: f64,
    /// Context switches because the kernel took the core away.
    pub involuntary_switches: f64,
    /// Attempts to steal.
    pub steal_attempts: Option<f64>,
    /// Attempts to steal that took a task.
    pub steals: Option<f64>,
    /// The number of times that a worker offered its core.
    pub yields: Option<f64>,
    /// The number of times that a worker went to sleep.
    pub sleeps: Option<f64>,
    /// The number of times that a worker woke another worker.
    pub wakeups: Option<f64>,
    /// The number of times that a thief (a worker without a task) gave the rest of its time slice to a worker.
    pub accelerations: Option<f64>,
    /// The number of refused accelerations, by the reason for the refusal.
    pub refused: Option<Refused<f64>>,
    /// Seconds with a task, over all workers.
    pub busy_s: Option<f64>,
    /// Seconds awake without a task, over all workers.
    pub thief_s: Option<f64>,
    /// Seconds asleep, over all workers.
    pub asleep_s: Option<f64>,
    /// The time of every counted round, from which other statistics can be computed.
    pub times: Times,
}

/// The seconds of every counted round, in order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Times {
    /// The rounds alone.
    pub solo_s: Vec<f64>,
    /// The rounds alone with one worker on one core.
    pub one_core_s: Vec<f64>,
    /// The rounds together.
    pub corun_s: Vec<f64>,
}

/// The baseline: the backend whose time alone is T_b.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Each backend is its own baseline.
    Own,
    /// The backend with this index is the baseline of all backends.
    Of(usize),
}

impl Baseline {
    /// Returns the baseline that `--baseline` names: `own`, or the name of one of `backends`.
    pub fn choose(name: &str, backends: &[Backend]) -> Result<Baseline, Failure> {
        if name == "own" {
            return Ok(Baseline::Own);
        }
        // The name of a policy is parsed, because it may contain parameters with their default values.
        let policy = name.parse().ok().map(Backend::Comity);
        let found = backends
            .iter()
            .position(|backend| Some(*backend) == policy || backend.to_string() == name)
            .map(Baseline::Of);
        found.ok_or_else(|| {
            let names: Vec<String> = backends.iter().map(Backend::to_string).collect();
            Failure::Usage(format!(
                "--baseline {name} is not measured. Choose own or one of {}, or add {name} to --policy or --backend",
                names.join(", ")
            ))
        })
    }

    /// Returns the baseline's name, as in `--baseline`.
    pub fn name(self, backends: &[Backend]) -> String {
        match self {
            Baseline::Own => "own".to_owned(),
            Baseline::Of(nth) => backends[nth].to_string(),
        }
    }
}

/// Returns one entry per backend that has run each program alone and together. If the command was interrupted, a
/// backend may be missing.
pub fn coruns(plan: &Plan, samples: &[Vec<Samples>], baseline: Baseline, cores: usize) -> Vec<Corun> {
    let is_measured = |backend: &usize| {
        let base = match baseline {
            Baseline::Own => *backend,
            Baseline::Of(nth) => nth,
        };
        samples[*backend].iter().all(|own| !own.one_core.is_empty() && !own.corun.is_empty())
            && [*backend, base].iter().all(|nth| samples[*nth].iter().all(|own| !own.solo.is_empty()))
    };
    let entry = |(nth, backend): (usize, &Backend)| {
        let own = &samples[nth];
        let base = match baseline {
            Baseline::Own => own,
            Baseline::Of(nth) => &samples[nth],
        };
        corun(plan, backend, own, base, cores)
    };
    plan.backends.iter().enumerate().filter(|(nth, _)| is_measured(nth)).map(entry).collect()
}

fn corun(plan: &Plan, backend: &Backend, own: &[Samples], base: &[Samples], cores: usize) -> Corun {
    let means: Vec<Means> = own
        .iter()
        .zip(base)
        .map(|(own, base)| Means {
            solo_s: measures::mean(&seconds(&own.solo)),
            one_core_s: measures::mean(&seconds(&own.one_core)),
            work_s: mean_of(&own.one_core, |round| round.cpu_s),
            baseline_s: measures::mean(&seconds(&base.solo)),
            corun_s: measures::mean(&seconds(&own.corun)),
            overlapped_s: measures::mean(&[seconds(&own.corun), own.uncounted_s.clone()].concat()),
            solo_cpu_s: mean_of(&own.solo, |round| round.cpu_s),
            corun_cpu_s: mean_of(&own.corun, |round| round.cpu_s),
            switches: mean_of(&own.corun, |round| (round.voluntary_switches + round.involuntary_switches) as f64),
        })
        .collect();
    let (weighted_speedup, bound) = (measures::weighted_speedup(&means), measures::bound(&means, cores));
    let due = measures::cores_due(&means, cores);
    let programs = plan.programs.iter().zip(own).zip(means.iter().zip(due));
    Corun {
        policy: backend.to_string(),
        backend: backend.name().to_owned(),
        workers: backend.workers(plan.workers),
        unfairness: measures::unfairness(&means),
        slowdown_ratio_difference: measures::slowdown_ratio_difference(&means),
        cpu_unfairness: measures::cpu_unfairness(&means, cores),
        weighted_speedup,
        bound,
        efficiency: weighted_speedup / bound,
        switches_per_s: measures::switches_per_s(&means),
        programs: programs.map(|((program, own), (means, due))| describe(program, own, means, due)).collect(),
    }
}

fn describe(program: &Program, samples: &Samples, means: &Means, cores_due: f64) -> CorunProgram {
    let times = Times {
        solo_s: seconds(&samples.solo),
        one_core_s: seconds(&samples.one_core),
        corun_s: seconds(&samples.corun),
    };
    let rounds = &samples.corun;
    let counted = |value: fn(&Counters) -> f64| mean_counter(rounds, value);
    CorunProgram {
        name: program.text().to_owned(),
        kind: program.kind().to_owned(),
        solo_s: means.solo_s,
        solo_cv: measures::variation(&times.solo_s),
        one_core_s: means.one_core_s,
        work_s: means.work_s,
        baseline_s: means.baseline_s,
        corun_s: means.corun_s,
        overlapped_s: means.overlapped_s,
        slowdown: means.slowdown(),
        slowdown_ratio: means.slowdown_ratio(),
        cv: measures::variation(&times.corun_s),
        rounds: rounds.len(),
        uncounted_rounds: samples.uncounted_s.len(),
        verified: samples.wrong.is_none(),
        cpu_s: means.corun_cpu_s,
        solo_cpu_s: means.solo_cpu_s,
        cores_used: means.cores_used(),
        cores_due,
        voluntary_switches: mean_of(rounds, |round| round.voluntary_switches as f64),
        involuntary_switches: mean_of(rounds, |round| round.involuntary_switches as f64),
        steal_attempts: counted(|counters| counters.steal_attempts as f64),
        steals: counted(|counters| counters.steals as f64),
        yields: counted(|counters| counters.yields as f64),
        sleeps: counted(|counters| counters.sleeps as f64),
        wakeups: counted(|counters| counters.wakeups as f64),
        accelerations: counted(|counters| counters.accelerations as f64),
        refused: refused(rounds),
        busy_s: counted(|counters| counters.busy_s),
        thief_s: counted(|counters| counters.thief_s),
        asleep_s: counted(|counters| counters.asleep_s),
        times,
    }
}

fn seconds(rounds: &[Round]) -> Vec<f64> {
    rounds.iter().map(|round| round.seconds).collect()
}

fn mean_of(rounds: &[Round], value: impl Fn(&Round) -> f64) -> f64 {
    measures::mean(&rounds.iter().map(value).collect::<Vec<f64>>())
}

fn refused(rounds: &[Round]) -> Option<Refused<f64>> {
    let counted = |value: fn(&Counters) -> f64| mean_counter(rounds, value);
    Some(Refused {
        no_hypervisor: counted(|counters| counters.refused.no_hypervisor as f64)?,
        running: counted(|counters| counters.refused.running as f64)?,
        blocked: counted(|counters| counters.refused.blocked as f64)?,
        pulled: counted(|counters| counters.refused.pulled as f64)?,
        taken: counted(|counters| counters.refused.taken as f64)?,
        chain: counted(|counters| counters.refused.chain as f64)?,
        other_node: counted(|counters| counters.refused.other_node as f64)?,
        mask: counted(|counters| counters.refused.mask as f64)?,
        kernel: counted(|counters| counters.refused.kernel as f64)?,
    })
}

fn mean_counter(rounds: &[Round], value: fn(&Counters) -> f64) -> Option<f64> {
    let values: Option<Vec<f64>> = rounds.iter().map(|round| round.counters.as_ref().map(value)).collect();
    values.map(|values| measures::mean(&values))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Grouping;
    use super::*;

    #[test]
    fn a_baseline_is_a_backend_however_its_parameters_are_written() {
        let backends = [Backend::Comity("bws".parse().unwrap()), Backend::Rayon];
        assert_eq!(Baseline::choose("own", &backends).unwrap(), Baseline::Own);
        assert_eq!(Baseline::choose("bws:sleep_threshold=64", &backends).unwrap(), Baseline::Of(0));
        assert_eq!(Baseline::choose("rayon", &backends).unwrap().name(&backends), "rayon");
        assert!(matches!(Baseline::choose("abp", &backends), Err(Failure::Usage(_))));
    }

    fn rounds(seconds: &[f64], switches: u64) -> Vec<Round> {
        let round = |seconds: &f64| Round {
            seconds: *seconds,
            verified: true,
            detail: String::new(),
            cpu_s: *seconds,
            voluntary_switches: switches,
            involuntary_switches: 2 * switches,
            counters: None,
        };
        seconds.iter().map(round).collect()
    }

    #[track_caller]
    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn a_short_program_runs_on_uncounted_beside_a_long_one() {
        let plan = Plan {
            programs: vec![Program::parse("fib").unwrap(), Program::parse("mm").unwrap()],
            backends: vec![Backend::Rayon],
            workers: 2,
            rounds: 2,
            lead_in: 0,
            grouping: Grouping::Same,
            timeout: Duration::from_secs(1),
            one_core: 0,
        };
        let short = Samples {
            solo: rounds(&[1.0, 1.0], 9),
            one_core: rounds(&[2.0], 9),
            corun: rounds(&[1.0, 3.0], 1),
            uncounted_s: vec![4.0, 4.0],
            wrong: None,
        };
        let long = Samples {
            solo: rounds(&[3.0, 5.0], 9),
            one_core: rounds(&[8.0], 9),
            corun: rounds(&[6.0, 6.0], 4),
            uncounted_s: Vec::new(),
            wrong: None,
        };
        let [corun] = coruns(&plan, &[vec![short, long]], Baseline::Own, 2).try_into().unwrap();
        let [short, long] = corun.programs.as_slice() else { panic!("two programs") };
        // The short program has four rounds. The two counted rounds are faster than the two others.
        assert_close(short.corun_s, 2.0);
        assert_close(short.overlapped_s, 3.0);
        assert_close(short.slowdown, 1.0);
        assert_close(short.slowdown_ratio, 3.0);
        assert_close(long.slowdown, 0.5);
        assert_close(long.slowdown_ratio, 1.5);
        assert_close(corun.unfairness, 0.5);
        assert_close(corun.slowdown_ratio_difference, 1.5);
        // Both programs compute all the time, each on one core, and each is due one core.
        assert_close(short.cores_used, 1.0);
        assert_close(short.cores_due, 1.0);
        assert_close(corun.cpu_unfairness, 0.0);
        // The programs have 3 switches in rounds of 2 s, and 12 switches in rounds of 6 s. Rounds alone do not count.
        assert_close(corun.switches_per_s, 3.5);
    }
}
