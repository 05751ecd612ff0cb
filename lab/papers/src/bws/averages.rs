//! Draws the average unfairness and throughput of all pairs, for figures 5 and 6.

use super::Bws;
use super::pairs::{throughput, unfairness};
use crate::claims::{Claim, number};
use crate::figure::{Axis, Figure, Marks, Named, Series};

/// Draws two figures over four policies: the average unfairness of all pairs, and their average throughput. `x` has
/// the places of the policies on the axis. `ids` has the claims with the paper's numbers, by figure and policy.
/// Returns no figures if one of the policies was not run.
pub(super) fn averages(
    paper: &Bws,
    policies: [&'static str; 4],
    names: [&'static str; 2],
    title: &str,
    (axis, x): (impl Fn() -> Axis, [f64; 4]),
    ids: [[String; 4]; 2],
    claims: &[Claim],
) -> Vec<Named> {
    if policies.iter().any(|policy| !paper.pairs.has(policy)) {
        return Vec::new();
    }
    let averages = policies.map(|policy| {
        let found = paper.co_runs(policy);
        (unfairness(&found, None), throughput(&found, None))
    });
    let figure = |nth: usize, y: &str| {
        let value = |average: &(f64, f64)| if nth == 0 { average.0 } else { average.1 };
        let points = x.into_iter().zip(averages.iter().map(value)).collect();
        let of_paper = x.into_iter().zip(&ids[nth]).filter_map(|(x, id)| Some((x, number(claims, id)?))).collect();
        Figure {
            title: title.into(),
            x: axis(),
            y: Axis::linear(y),
            series: vec![Series::new("here", Marks::Line, points), Series::of_paper("the paper's", 0, of_paper)],
        }
    };
    vec![(names[0], figure(0, "average unfairness, %")), (names[1], figure(1, "average weighted speedup"))]
}
