//! All mixes of two programs (§4.1 to §4.5): slow-down ratios and their difference D, and response times.

use serde::Serialize;

use super::{PROGRAMS, Programs, is_data_intensive};
use crate::Runner;
use crate::claims::{Claim, number};
use crate::corun::Ran;
use crate::figure::{Axis, Figure, Marks, Series};
use crate::measure::{Measure, average, part};

/// The three sets of mixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Set {
    /// A compute-intensive and a data-intensive program.
    Mixed,
    /// Two compute-intensive programs.
    Compute,
    /// Two data-intensive programs.
    Data,
}

impl Set {
    /// Returns the set of a mix.
    pub fn of(mix: [usize; 2]) -> Set {
        match mix.map(is_data_intensive) {
            [false, false] => Set::Compute,
            [true, true] => Set::Data,
            _ => Set::Mixed,
        }
    }

    /// All sets.
    pub const ALL: [Set; 3] = [Set::Mixed, Set::Compute, Set::Data];

    /// Returns the mixes of the set.
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

/// The outcome of a mix under a policy.
#[derive(Clone, Debug, Serialize)]
pub struct Mix {
    /// The numbers of the mix's programs: p-1 is the first of [`PROGRAMS`].
    pub of: [usize; 2],
    /// The response time T of each program, in seconds.
    pub times: [f64; 2],
    /// The slow-down ratio T/B of each program.
    pub ratios: [f64; 2],
}

impl Mix {
    /// Returns D, the difference of the ratios.
    pub fn difference(&self) -> f64 {
        (self.ratios[0] - self.ratios[1]).abs()
    }
}

/// Runs the mixes of a set under a policy.
pub(super) fn run<R: Runner>(
    programs: &Programs,
    set: Set,
    policy: &str,
    runner: &R,
) -> Result<Vec<Vec<Ran>>, R::Stop> {
    let mixes = set.mixes();
    runner.run(&format!("{}-{policy}", set.name()), mixes.len(), |nth| {
        programs.run(&mixes[nth], policy, mixes[nth][0] * 10 + mixes[nth][1])
    })
}

/// Returns the outcome of a mix. B is the time of a program `alone` under ABP.
pub(super) fn told(of: [usize; 2], ran: &[Ran], alone: &[Ran]) -> Mix {
    let times = [ran[0].mean(), ran[1].mean()];
    let ratios = [0, 1].map(|nth| times[nth] / alone[of[nth] - 1].mean());
    Mix { of, times: times.map(|time| time / 1e9), ratios }
}

/// The outcomes of a set under each policy.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The mixes under DWS.
    pub dws: Vec<Mix>,
    /// The mixes under ABP.
    pub abp: Vec<Mix>,
    /// The mixes under equipartition.
    pub ep: Vec<Mix>,
}

impl Compared {
    pub(super) fn at(of: &[Mix], mix: [usize; 2]) -> &Mix {
        of.iter().find(|one| one.of == mix).expect("the set has that mix")
    }

    /// Returns the ratios and D of an example mix under all three policies.
    pub(super) fn example(&self, mix: [usize; 2]) -> Vec<Measure> {
        let mut measures = Vec::new();
        for (of, policy) in [&self.dws, &self.abp, &self.ep].into_iter().zip(["dws", "abp", "ep"]) {
            let (one, [first, second]) = (Compared::at(of, mix), mix);
            measures.extend([0, 1].map(|nth| Measure::new(ratio_name(mix, policy, nth), one.ratios[nth])));
            measures.push(Measure::new(format!("d-{first}-{second}-{policy}"), one.difference()));
        }
        measures
    }

    /// Returns the largest percentage by which DWS reduces a response time, compared with `other`.
    pub(super) fn reduction(&self, other: &[Mix]) -> f64 {
        let each =
            self.dws.iter().zip(other).flat_map(|(dws, other)| [0, 1].map(|nth| dws.times[nth] / other.times[nth]));
        100.0 * (1.0 - each.fold(f64::INFINITY, f64::min))
    }

    /// Returns the percentage by which DWS reduces the response time of one program of a mix, compared with ABP.
    pub(super) fn reduction_of(&self, mix: [usize; 2], nth: usize) -> f64 {
        let time = |of: &[Mix]| Compared::at(of, mix).times[nth];
        100.0 * (1.0 - time(&self.dws) / time(&self.abp))
    }

    /// Returns the fraction of the comparisons with ABP and with equipartition in which D is smaller under DWS.
    pub(super) fn fairer(&self) -> f64 {
        let against = |other: &[Mix]| -> Vec<bool> {
            self.dws.iter().zip(other).map(|(dws, other)| dws.difference() < other.difference()).collect()
        };
        part(against(&self.abp).into_iter().chain(against(&self.ep)), |is_so| is_so)
    }

    /// Returns the fraction of the programs of all mixes that take less time under equipartition than under ABP.
    pub(super) fn faster_under_ep(&self) -> f64 {
        let each =
            self.ep.iter().zip(&self.abp).flat_map(|(ep, abp)| [0, 1].map(|nth| (ep.times[nth], abp.times[nth])));
        part(each, |(ep, abp)| ep < abp)
    }
}

/// Returns the mean of (time in `here` / time in `there`) over the programs for whose number `counts` is true.
pub(super) fn over(here: &[Mix], there: &[Mix], counts: impl Fn(usize) -> bool) -> f64 {
    average(here.iter().zip(there).flat_map(|(here, there)| {
        let own = [0, 1].map(|nth| counts(here.of[nth]).then(|| here.times[nth] / there.times[nth]));
        own.into_iter().flatten()
    }))
}

/// Returns the name of the measure for the ratio of the first or the second program of a mix under a policy.
pub(super) fn ratio_name(mix: [usize; 2], policy: &str, nth: usize) -> String {
    format!("mix-{}-{}-{policy}-{}", mix[0], mix[1], mix[nth])
}

/// Returns the keys, for [`ratios`], of both ratios of an example mix under all three policies.
pub(super) fn of_example(mix: [usize; 2]) -> Vec<([usize; 2], &'static str, usize)> {
    ["dws", "abp", "ep"].into_iter().flat_map(|policy| [0, 1].map(|nth| (mix, policy, nth))).collect()
}

impl Compared {
    /// Draws the ratios under all three policies.
    pub(super) fn figure(
        &self,
        title: &str,
        of_paper: &[([usize; 2], &'static str, usize)],
        claims: &[Claim],
    ) -> Figure {
        ratios(title, &[("DWS", &self.dws), ("ABP", &self.abp), ("EP", &self.ep)], of_paper, claims)
    }
}

/// Draws the ratios of both programs of each mix. The point of the first program is to the left of the mix's place on
/// the axis, and the point of the second program is to the right. `of_paper` lists mix, policy and program (0 or 1)
/// of the paper's numbers.
pub(super) fn ratios(
    title: &str,
    policies: &[(&str, &Vec<Mix>)],
    of_paper: &[([usize; 2], &'static str, usize)],
    claims: &[Claim],
) -> Figure {
    let first = policies[0].1;
    let x = |mix: [usize; 2], nth: usize| {
        let place = first.iter().position(|one| one.of == mix).expect("the set has that mix");
        place as f64 + 1.0 + if nth == 0 { -0.15 } else { 0.15 }
    };
    let mut series: Vec<Series> = policies
        .iter()
        .map(|(name, mixes)| {
            let points = mixes.iter().flat_map(|mix| [0, 1].map(|nth| (x(mix.of, nth), mix.ratios[nth]))).collect();
            Series::new(*name, Marks::Points, points)
        })
        .collect();
    for (of, (name, _)) in policies.iter().enumerate() {
        let own = of_paper.iter().filter(|(_, policy, _)| policy.eq_ignore_ascii_case(name));
        let point = |(mix, policy, nth): &([usize; 2], &str, usize)| {
            Some((x(*mix, *nth), number(claims, &ratio_name(*mix, policy, *nth))?))
        };
        let points: Vec<(f64, f64)> = own.filter_map(point).collect();
        if !points.is_empty() {
            series.push(Series::of_paper(format!("{name}: the paper's"), of, points));
        }
    }
    let mixes: Vec<String> = first.iter().map(|mix| format!("({}, {})", mix.of[0], mix.of[1])).collect();
    Figure { title: title.into(), x: Axis::named("mix", mixes), y: Axis::linear("slow-down ratio, T / B"), series }
}
