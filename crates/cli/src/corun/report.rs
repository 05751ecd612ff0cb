//! From samples to the numbers of the report.

use super::measures::{self, Means};
use super::schedule::{Plan, Samples};
use crate::contestant::Contestant;
use crate::failure::Failure;
use crate::json::{Corun, CorunProgram, Counters, Round, Times};

/// Whose time alone is T_b.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Each contestant's own.
    Own,
    /// That of the contestant at this place.
    Of(usize),
}

impl Baseline {
    /// Finds the contestant called `name`.
    pub fn choose(name: &str, contestants: &[Contestant]) -> Result<Baseline, Failure> {
        if name == "own" {
            return Ok(Baseline::Own);
        }
        // A policy may be written with parameters that are its defaults.
        let policy = name.parse().ok().map(Contestant::Comity);
        let found = contestants
            .iter()
            .position(|contestant| Some(*contestant) == policy || contestant.to_string() == name)
            .map(Baseline::Of);
        found.ok_or_else(|| {
            let names: Vec<String> = contestants.iter().map(Contestant::to_string).collect();
            Failure::Usage(format!(
                "--baseline {name} does not take part; choose own or one of {}, or add it to --policy or --backend",
                names.join(", ")
            ))
        })
    }

    /// As in `--baseline`.
    pub fn name(self, contestants: &[Contestant]) -> String {
        match self {
            Baseline::Own => "own".to_owned(),
            Baseline::Of(nth) => contestants[nth].to_string(),
        }
    }
}

/// One entry per contestant.
pub fn coruns(plan: &Plan, samples: &[Vec<Samples>], baseline: Baseline, cores: usize) -> Vec<Corun> {
    let entry = |(nth, contestant): (usize, &Contestant)| {
        let own = &samples[nth];
        let base = match baseline {
            Baseline::Own => own,
            Baseline::Of(nth) => &samples[nth],
        };
        corun(plan, contestant, own, base, cores)
    };
    plan.contestants.iter().enumerate().map(entry).collect()
}

fn corun(plan: &Plan, contestant: &Contestant, own: &[Samples], base: &[Samples], cores: usize) -> Corun {
    let means: Vec<Means> = own
        .iter()
        .zip(base)
        .map(|(own, base)| Means {
            solo_s: measures::mean(&seconds(&own.solo)),
            one_core_s: measures::mean(&seconds(&own.one_core)),
            baseline_s: measures::mean(&seconds(&base.solo)),
            corun_s: measures::mean(&seconds(&own.corun)),
        })
        .collect();
    let (weighted_speedup, bound) = (measures::weighted_speedup(&means), measures::bound(&means, cores));
    let programs = plan.programs.iter().zip(own).zip(&means);
    Corun {
        policy: contestant.to_string(),
        backend: contestant.backend(),
        workers: contestant.workers(plan.workers),
        unfairness: measures::unfairness(&means),
        weighted_speedup,
        bound,
        efficiency: weighted_speedup / bound,
        programs: programs
            .map(|((program, own), means)| describe(program.text(), program.kind(), own, means))
            .collect(),
    }
}

fn describe(name: &str, kind: &'static str, samples: &Samples, means: &Means) -> CorunProgram {
    let times = Times {
        solo_s: seconds(&samples.solo),
        one_core_s: seconds(&samples.one_core),
        corun_s: seconds(&samples.corun),
    };
    let rounds = &samples.corun;
    let counted = |value: fn(&Counters) -> f64| mean_counter(rounds, value);
    CorunProgram {
        name: name.to_owned(),
        kind,
        solo_s: means.solo_s,
        solo_cv: measures::variation(&times.solo_s),
        one_core_s: means.one_core_s,
        baseline_s: means.baseline_s,
        corun_s: means.corun_s,
        overlapped_s: measures::mean(&[times.corun_s.as_slice(), &samples.uncounted_s].concat()),
        slowdown: means.slowdown(),
        cv: measures::variation(&times.corun_s),
        rounds: rounds.len(),
        uncounted_rounds: samples.uncounted_s.len(),
        verified: samples.wrong.is_none(),
        cpu_s: mean_of(rounds, |round| round.cpu_s),
        solo_cpu_s: mean_of(&samples.solo, |round| round.cpu_s),
        voluntary_switches: mean_of(rounds, |round| round.voluntary_switches as f64),
        involuntary_switches: mean_of(rounds, |round| round.involuntary_switches as f64),
        steal_attempts: counted(|counters| counters.steal_attempts as f64),
        steals: counted(|counters| counters.steals as f64),
        yields: counted(|counters| counters.yields as f64),
        sleeps: counted(|counters| counters.sleeps as f64),
        wakeups: counted(|counters| counters.wakeups as f64),
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

fn mean_counter(rounds: &[Round], value: fn(&Counters) -> f64) -> Option<f64> {
    let values: Option<Vec<f64>> = rounds.iter().map(|round| round.counters.as_ref().map(value)).collect();
    values.map(|values| measures::mean(&values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_is_a_contestant_however_its_parameters_are_written() {
        let contestants = [Contestant::Comity("bws".parse().unwrap()), Contestant::Rayon];
        assert_eq!(Baseline::choose("own", &contestants).unwrap(), Baseline::Own);
        assert_eq!(Baseline::choose("bws:sleep_threshold=64", &contestants).unwrap(), Baseline::Of(0));
        assert_eq!(Baseline::choose("rayon", &contestants).unwrap().name(&contestants), "rayon");
        assert!(matches!(Baseline::choose("abp", &contestants), Err(Failure::Usage(_))));
    }
}
