//! Experiment 4: speedup over the number of workers, in steps of one (figure 6).

use super::{CPUS, Outcome, Point, Variant, at, part};
use crate::experiments::claim::Claim;

/// w, in nanoseconds.
pub const WORK: u64 = 800_000;

/// n: the first and the last.
pub const WORKERS: (u32, u32) = (16, 48);

/// The paper's points.
pub fn points() -> Vec<Point> {
    (WORKERS.0..=WORKERS.1).map(|workers| Point { workers, work: WORK, variant: Variant::Last }).collect()
}

/// What the paper says of them.
pub fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let speedup = |workers| at(outcomes, Variant::Last, workers, WORK).speedup();
    let inner = || WORKERS.0 + 1..WORKERS.1;
    let is_lowest = |n: u32| speedup(n) < speedup(n - 1) && speedup(n) < speedup(n + 1);
    let is_highest = |n: u32| speedup(n) > speedup(n - 1) && speedup(n) > speedup(n + 1);
    let low: Vec<u32> = inner().filter(|n| n % CPUS == 1).collect();
    let high: Vec<u32> = inner().filter(|n| n % CPUS == 0).collect();
    let elsewhere = inner().filter(|n| n % CPUS > 1).filter(|n| is_lowest(*n) || is_highest(*n)).count();
    let peaks = (WORKERS.0..=WORKERS.1).filter(|n| n % CPUS == 0).map(speedup);
    let (least, most) = peaks.fold((f64::INFINITY, 0.0f64), |(least, most), one| (least.min(one), most.max(one)));
    const TOLD: &str = "as the paper tells it";
    vec![
        Claim::new(
            "part of n mod 8 = 1 at which speedup has a local minimum",
            "all",
            part(&low, |n| is_lowest(*n)),
            1.0..=1.0,
            TOLD,
        ),
        Claim::new(
            "part of n mod 8 = 0 at which speedup has a local maximum",
            "all",
            part(&high, |n| is_highest(*n)),
            1.0..=1.0,
            TOLD,
        ),
        Claim::new("local minima and maxima elsewhere", "none", elsewhere as f64, 0.0..=0.0, TOLD),
        Claim::new(
            "part of the minima that are above the one before",
            "all",
            part(low.windows(2), |pair| speedup(pair[1]) > speedup(pair[0])),
            1.0..=1.0,
            TOLD,
        ),
        Claim::new(
            "highest maximum over lowest",
            "relatively constant",
            most / least,
            1.0..=1.05,
            "5 %; the minima are as 1 to 1.3",
        ),
    ]
}
