//! The two ablations of BWS (§5.5): busy workers that wake others, and global information.

use comity_console::Failure;

use super::solo::{longer, of, programs};
use super::{Benchmark, Bws};
use crate::corun::Ran;
use crate::measure::{Measure, average};
use crate::{Runner, here};

/// Runs the programs alone under BWS and under both.
pub(super) fn run<R: Runner>(paper: &mut Bws, runner: &R) -> Result<Option<Vec<Measure>>, Failure> {
    let policies = [paper.programs.setting.bws, "bws-busy-wakes", "wsgi"];
    let [bws, busy_wakes, wsgi] = policies.map(|policy| here(paper.programs.alone(policy, runner)));
    let (bws, busy_wakes, wsgi) = (bws?, busy_wakes?, wsgi?);
    Ok(bws.zip(busy_wakes).zip(wsgi).map(|((bws, busy_wakes), wsgi)| measures(&bws, &busy_wakes, &wsgi)))
}

/// The measures, of what came of the programs alone under BWS and its ablations.
fn measures(bws: &[Ran], busy_wakes: &[Ran], wsgi: &[Ran]) -> Vec<Measure> {
    let slower = |all: &[Ran]| {
        let all = all.to_vec();
        programs(bws).map(move |(one, there)| (one, longer(of(&all, one), there))).collect::<Vec<_>>()
    };
    let (busy_wakes, wsgi) = (slower(busy_wakes), slower(wsgi));
    let at = |all: &[(Benchmark, f64)], one| all.iter().find(|(own, _)| *own == one).expect("it is there").1;
    vec![
        Measure::new("busy-wakes-mean", average(busy_wakes.iter().map(|(_, slower)| *slower))),
        Measure::new("busy-wakes-mi", at(&busy_wakes, Benchmark::Mi)),
        Measure::new("wsgi-mean", average(wsgi.iter().map(|(_, slower)| *slower))),
        Measure::new("wsgi-clip", at(&wsgi, Benchmark::Clip)),
    ]
}
