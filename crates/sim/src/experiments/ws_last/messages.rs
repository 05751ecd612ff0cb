//! Experiment 3: running time and speedup over the work per message (figure 5).

use super::{Outcome, Point, Variant, at, grid, part};
use crate::experiments::claim::Claim;

/// n.
pub const WORKERS: [u32; 3] = [16, 50, 250];

/// w, in nanoseconds.
pub const WORKS: [u64; 6] = [25_000, 50_000, 100_000, 200_000, 400_000, 800_000];

/// m: running times are given for as many rounds.
pub const ROUNDS: u32 = 12_500;

/// The paper's points.
pub fn points() -> Vec<Point> {
    grid(&WORKERS, &WORKS)
}

/// What the paper says of them.
pub fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    use Variant::{Cur, Last};
    let of = |variant, workers, work| at(outcomes, variant, workers, work);
    // By how many powers of two the running time grows when w doubles.
    let growth = |variant, workers, work: u64| {
        (of(variant, workers, 2 * work).round() / of(variant, workers, work).round()).log2()
    };
    let speedup = |variant, workers, work| of(variant, workers, work).speedup();
    let gain = |variant, from, to| speedup(variant, 16, to) / speedup(variant, 16, from);
    const TOLD: &str = "as the paper tells it";
    let below_linear = part(&WORKS[..4], |work| growth(Cur, 16, *work) < 1.0);
    let visible = part(&WORKERS, |workers| growth(Cur, *workers, 25_000) < 0.9);
    let ordered = part(&WORKS[..3], |work| {
        let [few, middle, many] = WORKERS.map(|workers| growth(Last, workers, *work));
        few < middle && middle < many
    });
    let mut claims = vec![
        Claim::new(
            "n = 16, WS-CUR, T < 4: part of the doublings of w that less than double the running time",
            "all",
            below_linear,
            1.0..=1.0,
            TOLD,
        ),
        Claim::new(
            "n = 16, WS-CUR: log₂ of the growth of the running time as w doubles from 25 µs",
            "less than 1",
            growth(Cur, 16, 25_000),
            0.0..=0.9,
            TOLD,
        ),
        Claim::new(
            "WS-CUR: part of n at which w doubled from 25 µs less than doubles it, log₂ < 0.9",
            "all",
            visible,
            1.0..=1.0,
            TOLD,
        ),
        Claim::new(
            "WS-LAST, T < 2: part of the doublings at which that is less pronounced the larger n is",
            "all",
            ordered,
            1.0..=1.0,
            TOLD,
        ),
        Claim::new(
            "n = 250, WS-LAST: log₂ of the growth as w doubles from 25 µs",
            "almost 1",
            growth(Last, 250, 25_000),
            0.85..=1.0,
            "on one CPU it is 0.94: a message costs the same for any w",
        ),
    ];
    for variant in Variant::ALL {
        let name = variant.name();
        claims.push(Claim::new(
            format!("n = 16, {name}: speedup at w = 100 µs over that at 25 µs"),
            "significant",
            gain(variant, 25_000, 100_000),
            1.1..=2.0,
            "a tenth, that is",
        ));
        claims.push(Claim::new(
            format!("n = 16, {name}: attempts per second at w = 100 µs over those at 25 µs"),
            "a drop",
            of(variant, 16, 100_000).steal_rate() / of(variant, 16, 25_000).steal_rate(),
            0.0..=0.8,
            TOLD,
        ));
        let [least, middle, most] = WORKERS.map(|workers| speedup(variant, workers, 800_000));
        claims.push(Claim::new(
            format!("w = 800 µs, {name}: speedup at 50 workers over the lower of those at 16 and 250"),
            "less than 1",
            middle / least.min(most),
            0.8..=0.99,
            TOLD,
        ));
    }
    claims.push(Claim::new(
        "n = 16: gain from w = 100 to 800 µs under WS-CUR over that under WS-LAST",
        "much more",
        gain(Cur, 100_000, 800_000) / gain(Last, 100_000, 800_000),
        1.1..=2.0,
        "a tenth, that is",
    ));
    claims
}
