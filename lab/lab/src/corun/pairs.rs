//! Co-runs of two programs each: the pairs, and the summary of a backend over all pairs.

use clap::ValueEnum;
use statrs::statistics::Statistics;

use super::measures::mean;
use super::program::Program;
use super::report::{Corun, MeanAndWorst, OverPairs};

/// The choice of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pairs {
    /// Each program with each later program: 6 pairs for 4 programs
    Distinct,
    /// Each program also with itself: 10 pairs for 4 programs
    All,
}

impl Pairs {
    /// Returns the pairs of these programs, in the order of the programs.
    pub fn of(self, programs: &[Program]) -> Vec<Vec<Program>> {
        let first_partner = match self {
            Pairs::Distinct => 1,
            Pairs::All => 0,
        };
        let partners = |nth: usize| programs[nth..].iter().skip(first_partner);
        let with = |nth: usize| partners(nth).map(move |other| vec![programs[nth].clone(), other.clone()]);
        (0..programs.len()).flat_map(with).collect()
    }
}

/// Summarises all co-runs, with one entry per backend, in the order of their first co-runs.
pub fn over(coruns: &[&Corun]) -> Vec<OverPairs> {
    let mut backends: Vec<&str> = Vec::new();
    for corun in coruns {
        if !backends.contains(&corun.policy.as_str()) {
            backends.push(&corun.policy);
        }
    }
    let own = |backend: &str| coruns.iter().copied().filter(|corun| corun.policy == backend).collect::<Vec<_>>();
    backends.into_iter().map(|backend| summary(&own(backend))).collect()
}

/// Summarises the co-runs of one backend, of which there must be at least one.
fn summary(coruns: &[&Corun]) -> OverPairs {
    let pairs = |value: fn(&Corun) -> f64| coruns.iter().map(|corun| value(corun)).collect::<Vec<f64>>();
    let programs = || coruns.iter().flat_map(|corun| &corun.programs);
    let variations: Vec<f64> = programs().filter_map(|program| program.cv).collect();
    OverPairs {
        policy: coruns[0].policy.clone(),
        backend: coruns[0].backend.clone(),
        pairs: coruns.len(),
        unfairness: least_is_best(&pairs(|corun| corun.unfairness)),
        slowdown_ratio_difference: least_is_best(&pairs(|corun| corun.slowdown_ratio_difference)),
        cpu_unfairness: least_is_best(&pairs(|corun| corun.cpu_unfairness)),
        slowdown_ratio_geometric_mean: programs().map(|program| program.slowdown_ratio).geometric_mean(),
        weighted_speedup_mean: mean(&pairs(|corun| corun.weighted_speedup)),
        efficiency: most_is_best(&pairs(|corun| corun.efficiency)),
        cv: (!variations.is_empty()).then(|| least_is_best(&variations)),
        switches_per_s_mean: mean(&pairs(|corun| corun.switches_per_s)),
    }
}

fn least_is_best(values: &[f64]) -> MeanAndWorst {
    MeanAndWorst { mean: mean(values), worst: Statistics::max(values) }
}

fn most_is_best(values: &[f64]) -> MeanAndWorst {
    MeanAndWorst { mean: mean(values), worst: Statistics::min(values) }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::corun::report::{CorunProgram, Times};

    #[test]
    fn four_programs_make_six_pairs_and_ten_with_themselves() {
        let names = |pairs: Vec<Vec<Program>>| -> Vec<String> {
            pairs.iter().map(|pair| format!("{}{}", pair[0].text(), pair[1].text())).collect()
        };
        let programs = ["a", "b", "c", "d"].map(|text| Program::Command(text.to_owned()));
        assert_eq!(names(Pairs::Distinct.of(&programs)), ["ab", "ac", "ad", "bc", "bd", "cd"]);
        assert_eq!(names(Pairs::All.of(&programs)), ["aa", "ab", "ac", "ad", "bb", "bc", "bd", "cc", "cd", "dd"]);
        assert_eq!(names(Pairs::All.of(&programs[..1])), ["aa"]);
        assert!(Pairs::Distinct.of(&programs[..1]).is_empty());
    }

    fn program(slowdown_ratio: f64, cv: Option<f64>) -> CorunProgram {
        let times = Times { solo_s: Vec::new(), one_core_s: Vec::new(), corun_s: Vec::new() };
        CorunProgram {
            name: "p".to_owned(),
            kind: "kernel".to_owned(),
            solo_s: 1.0,
            solo_cv: None,
            one_core_s: 1.0,
            work_s: 1.0,
            baseline_s: 1.0,
            corun_s: 1.0,
            overlapped_s: slowdown_ratio,
            slowdown: 0.0,
            slowdown_ratio,
            cv,
            rounds: 1,
            uncounted_rounds: 0,
            verified: true,
            cpu_s: 1.0,
            solo_cpu_s: 1.0,
            cores_used: 1.0,
            cores_due: 1.0,
            voluntary_switches: 0.0,
            involuntary_switches: 0.0,
            steal_attempts: None,
            steals: None,
            yields: None,
            sleeps: None,
            wakeups: None,
            accelerations: None,
            refused: None,
            busy_s: None,
            thief_s: None,
            asleep_s: None,
            times,
        }
    }

    /// Makes the co-run of a pair with these slow-down ratios, and with other numbers that grow with `nth`.
    pub fn corun(policy: &str, nth: f64, ratios: [f64; 2], cv: Option<f64>) -> Corun {
        Corun {
            policy: policy.to_owned(),
            backend: "comity".to_owned(),
            workers: 2,
            unfairness: nth,
            slowdown_ratio_difference: 2.0 * nth,
            cpu_unfairness: 3.0 * nth,
            weighted_speedup: 1.0 + nth,
            bound: 2.0,
            efficiency: 0.5 + nth,
            switches_per_s: 100.0 * nth,
            programs: ratios.map(|ratio| program(ratio, cv)).into(),
        }
    }

    #[track_caller]
    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    #[track_caller]
    fn assert_mean_and_worst(found: MeanAndWorst, mean: f64, worst: f64) {
        assert_close(found.mean, mean);
        assert_close(found.worst, worst);
    }

    #[test]
    fn each_backend_has_its_means_and_its_worst_pair() {
        let coruns = [
            corun("bws", 0.25, [2.0, 2.0], Some(0.1)),
            corun("abp", 0.5, [1.0, 1.0], Some(0.3)),
            corun("bws", 0.75, [1.0, 4.0], Some(0.5)),
            corun("abp", 0.5, [1.0, 1.0], Some(0.3)),
        ];
        let [bws, abp] = over(&coruns.iter().collect::<Vec<_>>()).try_into().unwrap();
        assert_eq!((bws.policy.as_str(), bws.pairs, abp.policy.as_str(), abp.pairs), ("bws", 2, "abp", 2));
        assert_mean_and_worst(bws.unfairness, 0.5, 0.75);
        assert_mean_and_worst(bws.slowdown_ratio_difference, 1.0, 1.5);
        assert_mean_and_worst(bws.cpu_unfairness, 1.5, 2.25);
        assert_mean_and_worst(bws.efficiency, 1.0, 0.75);
        assert_mean_and_worst(bws.cv.unwrap(), 0.3, 0.5);
        assert_close(bws.weighted_speedup_mean, 1.5);
        assert_close(bws.switches_per_s_mean, 50.0);
        // The fourth root of 2 · 2 · 1 · 4.
        assert_close(bws.slowdown_ratio_geometric_mean, 2.0);
        assert_close(abp.slowdown_ratio_geometric_mean, 1.0);
        assert_mean_and_worst(abp.unfairness, 0.5, 0.5);
    }

    #[test]
    fn single_rounds_have_no_variation_over_pairs_either() {
        assert_eq!(over(&[&corun("abp", 1.0, [1.0, 1.0], None)])[0].cv, None);
        assert!(over(&[]).is_empty());
    }
}
