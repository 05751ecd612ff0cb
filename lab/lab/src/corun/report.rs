//! From samples to the numbers of the report.

use super::measures::{self, Means};
use super::program::Program;
use super::schedule::{Plan, Samples};
use crate::backend::Backend;
use crate::json::{Corun, CorunProgram, Counters, Refused, Round, Times};
use comity_console::Failure;

/// The backend that gives T_b by its time alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Each backend's own.
    Own,
    /// That of the backend at this place.
    Of(usize),
}

impl Baseline {
    /// Finds the backend called `name`.
    pub fn choose(name: &str, backends: &[Backend]) -> Result<Baseline, Failure> {
        if name == "own" {
            return Ok(Baseline::Own);
        }
        // A policy may be written with parameters that are its defaults.
        let policy = name.parse().ok().map(Backend::Comity);
        let found = backends
            .iter()
            .position(|backend| Some(*backend) == policy || backend.to_string() == name)
            .map(Baseline::Of);
        found.ok_or_else(|| {
            let names: Vec<String> = backends.iter().map(Backend::to_string).collect();
            Failure::Usage(format!(
                "--baseline {name} does not take part; choose own or one of {}, or add it to --policy or --backend",
                names.join(", ")
            ))
        })
    }

    /// As in `--baseline`.
    pub fn name(self, backends: &[Backend]) -> String {
        match self {
            Baseline::Own => "own".to_owned(),
            Baseline::Of(nth) => backends[nth].to_string(),
        }
    }
}

/// One entry per backend that has run each program alone and together, which all have unless the command was
/// interrupted.
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
        // Of its four rounds together the short one's counted two are the faster ones.
        assert_close(short.corun_s, 2.0);
        assert_close(short.overlapped_s, 3.0);
        assert_close(short.slowdown, 1.0);
        assert_close(short.slowdown_ratio, 3.0);
        assert_close(long.slowdown, 0.5);
        assert_close(long.slowdown_ratio, 1.5);
        assert_close(corun.unfairness, 0.5);
        assert_close(corun.slowdown_ratio_difference, 1.5);
        // Both compute all the time, each on one core of its own, which is what is due to them.
        assert_close(short.cores_used, 1.0);
        assert_close(short.cores_due, 1.0);
        assert_close(corun.cpu_unfairness, 0.0);
        // 3 switches in rounds of 2 s, and 12 in rounds of 6 s; those alone do not count.
        assert_close(corun.switches_per_s, 3.5);
    }
}
