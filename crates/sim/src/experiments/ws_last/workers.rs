//! Experiment 2: speedup and attempts to steal over the number of workers (figure 4).

use super::{Outcome, Point, T, Variant, at, grid, part};
use crate::experiments::claim::Claim;

/// n.
pub const WORKERS: [u32; 7] = [8, 16, 32, 64, 128, 192, 256];

/// d.
pub const DIVISION: u64 = 10_000;

/// The paper's points.
pub fn points() -> Vec<Point> {
    grid(&WORKERS, &[T / DIVISION])
}

/// What the paper says of them.
pub fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let speedup = |variant, workers| at(outcomes, variant, workers, T / DIVISION).speedup();
    let mut claims = Vec::new();
    for (variant, paper, accepted) in [(Variant::Cur, "5.7", 5.13..=6.27), (Variant::Last, "7.6", 7.22..=7.98)] {
        let what = format!("n = 256, d = 10000: speedup under {}", variant.name());
        let because = if variant == Variant::Cur { "10 %" } else { "5 %" };
        claims.push(Claim::new(what, paper, speedup(variant, 256), accepted, because));
        let gain = |pair: &[u32]| speedup(variant, pair[1]) - speedup(variant, pair[0]);
        let gains: Vec<f64> = WORKERS.windows(2).map(gain).collect();
        claims.push(Claim::new(
            format!("{}: part of the steps of n at which speedup increases", variant.name()),
            "all",
            part(&gains, |gain| *gain > 0.0),
            0.8..=1.0,
            "one of six is between equals",
        ));
        claims.push(Claim::new(
            format!("{}: gain from 192 to 256 workers over that from 8 to 16", variant.name()),
            "diminishing",
            gains[gains.len() - 1] / gains[0],
            -0.1..=0.2,
            "\"would not significantly affect speedup\"",
        ));
    }
    claims
}
