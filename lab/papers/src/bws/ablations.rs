//! The two ablations of BWS (§5.5): busy workers wake others, and thieves use global information.

use super::solo::{longer, of, programs};
use super::{BWS, Benchmark, Bws};
use crate::corun::Ran;
use crate::measure::{Measure, average};

/// The policies under which the programs run alone: BWS and its ablations.
pub(super) const POLICIES: [&str; 3] = [BWS, "bws-busy-wakes", "wsgi"];

/// Computes the measures.
pub(super) fn measures(paper: &Bws) -> Vec<Measure> {
    let [bws, busy_wakes, wsgi] = POLICIES.map(|policy| paper.alone.of(policy));
    let slower = |all: &[Ran]| programs(bws).map(|(one, there)| (one, longer(of(all, one), there))).collect::<Vec<_>>();
    let (busy_wakes, wsgi) = (slower(busy_wakes), slower(wsgi));
    let at = |all: &[(Benchmark, f64)], one| {
        all.iter().find(|(own, _)| *own == one).expect("all policies run the same programs").1
    };
    vec![
        Measure::new("busy-wakes-mean", average(busy_wakes.iter().map(|(_, slower)| *slower))),
        Measure::new("busy-wakes-mi", at(&busy_wakes, Benchmark::Mi)),
        Measure::new("wsgi-mean", average(wsgi.iter().map(|(_, slower)| *slower))),
        Measure::new("wsgi-clip", at(&wsgi, Benchmark::Clip)),
    ]
}
