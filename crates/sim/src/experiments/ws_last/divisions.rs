//! Experiment 1: speedup over the division of work (figure 3).

use super::{Outcome, Point, T, Variant, at, grid, part};
use crate::experiments::claim::Claim;

/// n.
pub const WORKERS: [u32; 5] = [50, 250, 500, 750, 1000];

/// d.
pub const DIVISIONS: [u64; 12] =
    [100, 1_000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 70_000, 80_000, 90_000, 100_000];

/// The paper's points.
pub fn points() -> Vec<Point> {
    grid(&WORKERS, &DIVISIONS.map(|division| T / division))
}

/// What the paper says of them, here and in §5.
pub fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    use Variant::{Cur, Last};
    let of = |variant, workers, division| at(outcomes, variant, workers, T / division);
    let speedup = |variant, workers, division| of(variant, workers, division).speedup();
    let rate = |variant| of(variant, 50, 10_000).steal_rate();
    const FIVE: &str = "5 %";
    const TEN: &str = "10 %";
    let mut claims = vec![
        Claim::new("n = 50, w = 1000 µs: speedup under WS-CUR", "6.9", speedup(Cur, 50, 1_000), 6.56..=7.25, FIVE),
        Claim::new("n = 50, w = 1000 µs: under WS-LAST", "7.1", speedup(Last, 50, 1_000), 6.75..=7.46, FIVE),
        Claim::new("n = 50, w = 100 µs: speedup under WS-CUR", "5.3", speedup(Cur, 50, 10_000), 4.77..=5.83, TEN),
        Claim::new("n = 50, w = 100 µs: under WS-LAST", "6.8", speedup(Last, 50, 10_000), 6.46..=7.14, FIVE),
        Claim::new(
            "n = 50, d = 100000: speedup under WS-CUR",
            "barely greater than 1",
            speedup(Cur, 50, 100_000),
            1.0..=2.0,
            "far below WS-LAST's",
        ),
        Claim::new(
            "n = 50, d = 100000: under WS-LAST",
            "above 4",
            speedup(Last, 50, 100_000),
            4.0..=6.0,
            "it drops, and only linearly",
        ),
        Claim::new(
            "n = 50, d = 10000: attempts to steal per second under WS-CUR, in 10⁵",
            "4.2",
            rate(Cur) / 1e5,
            3.15..=5.25,
            "25 %; n is not said",
        ),
        Claim::new(
            "n = 50, d = 10000: under WS-LAST, in 10⁵",
            "1.1",
            rate(Last) / 1e5,
            0.55..=2.2,
            "a factor of 2; n is not said",
        ),
    ];
    let fine = || DIVISIONS.into_iter().filter(|division| *division >= 10_000);
    let everywhere = || WORKERS.into_iter().flat_map(|workers| fine().map(move |division| (workers, division)));
    let above = part(everywhere(), |(n, d)| speedup(Last, n, d) > speedup(Cur, n, d));
    claims.push(Claim::new(
        "d ≥ 10000: part of the points at which WS-LAST's speedup is the larger",
        "all",
        above,
        1.0..=1.0,
        "as the paper tells it",
    ));
    for variant in Variant::ALL {
        let largest_first = |division| {
            let gain = |pair: &[u32]| speedup(variant, pair[1], division) - speedup(variant, pair[0], division);
            let mut gains = WORKERS.windows(2).map(gain);
            let first = gains.next().expect("there are steps");
            gains.all(|gain| gain < first)
        };
        claims.push(Claim::new(
            format!("{}: part of the divisions whose largest gain is from 50 to 250 workers", variant.name()),
            "all",
            part(DIVISIONS, largest_first),
            0.9..=1.0,
            "all but one",
        ));
    }
    let calm = outcomes.iter().filter(|outcome| outcome.steal_rate() < 1e5);
    claims.push(Claim::new(
        "part of the points with fewer than 10⁵ attempts per second whose speedup is 7 or more (§5)",
        "all",
        part(calm, |outcome| outcome.speedup() >= 7.0),
        0.95..=1.0,
        "~10⁵",
    ));
    claims
}
