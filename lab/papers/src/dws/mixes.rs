//! All mixes of two programs (§4.1 to §4.5): slow-down ratios and their difference D, response times, DWS without a
//! coordinator, T_SLEEP.

use serde::Serialize;

use super::{ABP, EP, PROGRAMS, Programs, T_SLEEPS, is_data_intensive};
use crate::Runner;
use crate::corun::Ran;
use crate::measure::{Measure, average, part};

/// What is measured of the mixed set,
pub const MIXED: &[&str] = &[
    "mix-1-5-dws-1",
    "mix-1-5-dws-5",
    "mix-1-5-abp-1",
    "mix-1-5-abp-5",
    "mix-1-5-ep-1",
    "mix-1-5-ep-5",
    "d-1-5-dws",
    "d-1-5-abp",
    "d-1-5-ep",
    "mix-2-7-dws-7",
    "mix-4-7-dws-7",
    "mix-2-8-abp-8",
    "mix-2-8-ep-8",
    "time-m-abp",
    "time-m-ep",
    "fairer-m",
];

/// of the compute-intensive one,
pub const COMPUTE: &[&str] = &[
    "mix-1-2-dws-1",
    "mix-1-2-dws-2",
    "mix-1-2-abp-1",
    "mix-1-2-abp-2",
    "mix-1-2-ep-1",
    "mix-1-2-ep-2",
    "d-1-2-dws",
    "d-1-2-abp",
    "d-1-2-ep",
    "time-1-2-abp-1",
    "time-c-abp",
    "time-c-ep",
    "fairer-c",
    "abp-like-ep-c",
];

/// of the data-intensive one,
pub const DATA: &[&str] = &[
    "mix-6-7-dws-6",
    "mix-6-7-dws-7",
    "mix-6-7-abp-6",
    "mix-6-7-abp-7",
    "mix-6-7-ep-6",
    "mix-6-7-ep-7",
    "d-6-7-dws",
    "d-6-7-abp",
    "d-6-7-ep",
    "time-6-7-abp-7",
    "time-d-abp",
    "time-d-ep",
    "fairer-d",
    "below-baseline-d",
];

/// of DWS without its coordinator,
pub const NO_COORDINATOR: &[&str] = &["nc-slower", "nc-d-larger", "nc-alike-d"];

/// of other thresholds,
pub const T_SLEEP: &[&str] = &["t-sleep-best", "t-sleep-1", "t-sleep-96"];

/// and of programs alone.
pub const SOLO: &[&str] = &["solo-overhead"];

/// DWS without a coordinator.
pub const NC: &str = "dws-nc";

/// The mix of figure 8.
const FIGURE_8: [usize; 2] = [1, 8];

/// The three sets of mixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// One of each kind.
    Mixed,
    /// Both compute-intensive.
    Compute,
    /// Both data-intensive.
    Data,
}

impl Set {
    /// The set of a mix.
    pub fn of(mix: [usize; 2]) -> Set {
        match mix.map(is_data_intensive) {
            [false, false] => Set::Compute,
            [true, true] => Set::Data,
            _ => Set::Mixed,
        }
    }

    /// Its mixes.
    pub fn mixes(self) -> Vec<[usize; 2]> {
        let second = |first: usize| (first + 1..=PROGRAMS.len()).map(move |second| [first, second]);
        (1..=PROGRAMS.len()).flat_map(second).filter(|mix| Set::of(*mix) == self).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Set::Mixed => "mixed",
            Set::Compute => "compute",
            Set::Data => "data",
        }
    }
}

/// A mix under a policy.
#[derive(Clone, Debug, Serialize)]
pub struct Mix {
    /// The numbers of its programs.
    pub of: [usize; 2],
    /// Of each, T in seconds.
    pub times: [f64; 2],
    /// T/B of each program.
    pub ratios: [f64; 2],
}

impl Mix {
    /// D, the difference of the ratios.
    pub fn difference(&self) -> f64 {
        (self.ratios[0] - self.ratios[1]).abs()
    }
}

/// Runs the mixes of a set under a policy; B is what programs take alone under ABP.
///
/// # Errors
/// If not all of the runs are done.
pub fn run<R: Runner>(
    programs: &Programs<'_>,
    set: Set,
    policy: &str,
    alone: &[Ran],
    runner: &R,
) -> Result<Vec<Mix>, R::Stop> {
    run_some(programs, (set, &set.mixes()), policy, alone, runner)
}

/// Runs some of a set's mixes.
///
/// # Errors
/// If not all of the runs are done.
pub fn run_some<R: Runner>(
    programs: &Programs<'_>,
    (set, mixes): (Set, &[[usize; 2]]),
    policy: &str,
    alone: &[Ran],
    runner: &R,
) -> Result<Vec<Mix>, R::Stop> {
    let ran = runner.run(&format!("{}-{policy}", set.name()), mixes.len(), |nth| {
        programs.run(&mixes[nth], policy, mixes[nth][0] * 10 + mixes[nth][1])
    })?;
    Ok(mixes.iter().zip(&ran).map(|(mix, ran)| told(*mix, ran, alone)).collect())
}

fn told(of: [usize; 2], ran: &[Ran], alone: &[Ran]) -> Mix {
    let times = [ran[0].mean(), ran[1].mean()];
    let ratios = [0, 1].map(|nth| times[nth] / alone[of[nth] - 1].mean());
    Mix { of, times: times.map(|time| time / 1e9), ratios }
}

/// Runs the mix of figure 8 with each of [`T_SLEEPS`].
///
/// # Errors
/// If not all of the runs are done.
pub fn run_thresholds<R: Runner>(programs: &Programs<'_>, alone: &[Ran], runner: &R) -> Result<Vec<Mix>, R::Stop> {
    let ran = runner
        .run("t-sleep", T_SLEEPS.len(), |nth| programs.run(&FIGURE_8, &format!("dws:t_sleep={}", T_SLEEPS[nth]), 18))?;
    Ok(ran.iter().map(|ran| told(FIGURE_8, ran, alone)).collect())
}

/// A set under each policy.
#[derive(Clone, Debug)]
pub struct Compared {
    /// DWS, or what takes its place.
    pub dws: Vec<Mix>,
    /// ABP.
    pub abp: Vec<Mix>,
    /// Equipartition.
    pub ep: Vec<Mix>,
}

/// Runs a set under all three.
///
/// # Errors
/// If not all of the runs are done.
pub fn compare<R: Runner>(programs: &Programs<'_>, set: Set, alone: &[Ran], runner: &R) -> Result<Compared, R::Stop> {
    let run = |policy: &str| run(programs, set, policy, alone, runner);
    // Each is begun, even if a part of one is elsewhere.
    let [dws, abp, ep] = [programs.dws(), ABP, EP].map(run);
    Ok(Compared { dws: dws?, abp: abp?, ep: ep? })
}

impl Compared {
    fn at(of: &[Mix], mix: [usize; 2]) -> &Mix {
        of.iter().find(|one| one.of == mix).expect("the set has that mix")
    }

    /// The ratios and D of an example under all three, by the names of the measures.
    fn example(&self, mix: [usize; 2], names: [[&'static str; 3]; 3]) -> Vec<Measure> {
        let mut measures = Vec::new();
        for (of, [first, second, difference]) in [&self.dws, &self.abp, &self.ep].into_iter().zip(names) {
            let one = Compared::at(of, mix);
            measures.push(Measure::new(first, one.ratios[0]));
            measures.push(Measure::new(second, one.ratios[1]));
            measures.push(Measure::new(difference, one.difference()));
        }
        measures
    }

    /// By up to how many per cent DWS reduces a response time.
    fn reduction(&self, other: &[Mix]) -> f64 {
        let each =
            self.dws.iter().zip(other).flat_map(|(dws, other)| [0, 1].map(|nth| dws.times[nth] / other.times[nth]));
        100.0 * (1.0 - each.fold(f64::INFINITY, f64::min))
    }

    /// By how many per cent it reduces that of one program of a mix under ABP.
    fn reduction_of(&self, mix: [usize; 2], nth: usize) -> f64 {
        let time = |of: &[Mix]| Compared::at(of, mix).times[nth];
        100.0 * (1.0 - time(&self.dws) / time(&self.abp))
    }

    /// In which part of the comparisons D is smaller under DWS.
    fn fairer(&self) -> f64 {
        let against = |other: &[Mix]| -> Vec<bool> {
            self.dws.iter().zip(other).map(|(dws, other)| dws.difference() < other.difference()).collect()
        };
        part(against(&self.abp).into_iter().chain(against(&self.ep)), |is_so| is_so)
    }

    /// Figure 4.
    pub fn mixed(&self) -> Vec<Measure> {
        let names = [
            ["mix-1-5-dws-1", "mix-1-5-dws-5", "d-1-5-dws"],
            ["mix-1-5-abp-1", "mix-1-5-abp-5", "d-1-5-abp"],
            ["mix-1-5-ep-1", "mix-1-5-ep-5", "d-1-5-ep"],
        ];
        let mut measures = self.example([1, 5], names);
        measures.extend([
            Measure::new("mix-2-7-dws-7", Compared::at(&self.dws, [2, 7]).ratios[1]),
            Measure::new("mix-4-7-dws-7", Compared::at(&self.dws, [4, 7]).ratios[1]),
            Measure::new("mix-2-8-abp-8", Compared::at(&self.abp, [2, 8]).ratios[1]),
            Measure::new("mix-2-8-ep-8", Compared::at(&self.ep, [2, 8]).ratios[1]),
            Measure::new("time-m-abp", self.reduction(&self.abp)),
            Measure::new("time-m-ep", self.reduction(&self.ep)),
            Measure::new("fairer-m", self.fairer()),
        ]);
        measures
    }

    /// Figure 5.
    pub fn compute(&self) -> Vec<Measure> {
        let names = [
            ["mix-1-2-dws-1", "mix-1-2-dws-2", "d-1-2-dws"],
            ["mix-1-2-abp-1", "mix-1-2-abp-2", "d-1-2-abp"],
            ["mix-1-2-ep-1", "mix-1-2-ep-2", "d-1-2-ep"],
        ];
        let mut measures = self.example([1, 2], names);
        measures.extend([
            Measure::new("time-1-2-abp-1", self.reduction_of([1, 2], 0)),
            Measure::new("time-c-abp", self.reduction(&self.abp)),
            Measure::new("time-c-ep", self.reduction(&self.ep)),
            Measure::new("fairer-c", self.fairer()),
            Measure::new("abp-like-ep-c", over(&self.abp, &self.ep, |_| true)),
        ]);
        measures
    }

    /// Figure 6.
    pub fn data(&self) -> Vec<Measure> {
        let names = [
            ["mix-6-7-dws-6", "mix-6-7-dws-7", "d-6-7-dws"],
            ["mix-6-7-abp-6", "mix-6-7-abp-7", "d-6-7-abp"],
            ["mix-6-7-ep-6", "mix-6-7-ep-7", "d-6-7-ep"],
        ];
        let mut measures = self.example([6, 7], names);
        let ratios = self.dws.iter().flat_map(|one| one.ratios);
        measures.extend([
            Measure::new("time-6-7-abp-7", self.reduction_of([6, 7], 1)),
            Measure::new("time-d-abp", self.reduction(&self.abp)),
            Measure::new("time-d-ep", self.reduction(&self.ep)),
            Measure::new("fairer-d", self.fairer()),
            Measure::new("below-baseline-d", part(ratios, |ratio| ratio < 1.0)),
        ]);
        measures
    }
}

/// The mean ratio of the times of those programs here and there.
fn over(here: &[Mix], there: &[Mix], counts: impl Fn(usize) -> bool) -> f64 {
    average(here.iter().zip(there).flat_map(|(here, there)| {
        let own = [0, 1].map(|nth| counts(here.of[nth]).then(|| here.times[nth] / there.times[nth]));
        own.into_iter().flatten()
    }))
}

/// Figure 7, and what is said of the other sets: DWS without a coordinator over DWS.
pub fn no_coordinator([mixed, compute, data]: [(&[Mix], &[Mix]); 3]) -> Vec<Measure> {
    let difference = |of: &[Mix]| average(of.iter().map(Mix::difference));
    vec![
        Measure::new("nc-slower", over(mixed.0, mixed.1, |number| !is_data_intensive(number))),
        Measure::new("nc-d-larger", difference(compute.0) / difference(compute.1)),
        Measure::new("nc-alike-d", over(data.0, data.1, |_| true)),
    ]
}

/// Figure 8: what came out with each of [`T_SLEEPS`].
pub fn thresholds(of: &[Mix]) -> Vec<Measure> {
    // k and 2k.
    let good = |threshold: u32| threshold == 16 || threshold == 32;
    let time = |nth: usize, program: usize| of[nth].times[program];
    let best = |program: usize, counts: &dyn Fn(u32) -> bool| {
        let all = (0..of.len()).filter(|nth| counts(T_SLEEPS[*nth]));
        all.min_by(|one, other| time(*one, program).total_cmp(&time(*other, program))).expect("there are some")
    };
    let worse = |threshold: u32| {
        let nth = T_SLEEPS.iter().position(|one| *one == threshold).expect("it is one of them");
        average([0, 1].map(|program| time(nth, program) / time(best(program, &good), program)))
    };
    vec![
        Measure::new("t-sleep-best", part([0, 1], |program| good(T_SLEEPS[best(program, &|_| true)]))),
        Measure::new("t-sleep-1", worse(1)),
        Measure::new("t-sleep-96", worse(96)),
    ]
}

/// §3.5: the mean ratio of the times alone under DWS and ABP.
pub fn solo(dws: &[Ran], abp: &[Ran]) -> Vec<Measure> {
    let ratios = dws.iter().zip(abp).map(|(dws, abp)| dws.mean() / abp.mean());
    vec![Measure::new("solo-overhead", average(ratios))]
}
