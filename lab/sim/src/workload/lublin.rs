//! A synthetic workload: U. Lublin and D. G. Feitelson, *The workload on parallel supercomputers: modeling the
//! characteristics of rigid jobs*, Journal of Parallel and Distributed Computing 63(11), 2003. The parameters are
//! those of the whole sample, batch and interactive jobs together, as in the authors' program of 1999.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma};
use statrs::distribution::ContinuousCDF;

use super::Rigid;

/// The part of jobs on one processor (`SERIAL`), and on a larger power of two of processors (`POWER_OF_TWO`).
const SERIAL: f64 = 0.244;
const POWER_OF_TWO: f64 = 0.576;

/// The bounds of log₂ of the number of processors of a parallel job. With probability `SMALL`, the logarithm lies
/// between `LEAST` and `medium` = log₂(processors of the machine) − `MEDIUM_BELOW_MOST`. Otherwise it lies between
/// `medium` and log₂(processors of the machine).
const LEAST: f64 = 0.8;
const MEDIUM_BELOW_MOST: f64 = 2.5;
const SMALL: f64 = 0.86;

/// The natural logarithm of the run time in seconds, from one of two gamma distributions (shape, scale).
const SHORT: (f64, f64) = (4.2, 0.94);
const LONG: (f64, f64) = (312.0, 0.03);

/// The probability of the short distribution, which falls linearly with the number of processors.
const SHORT_PER_PROCESSOR: f64 = -0.0054;
const SHORT_AT_NONE: f64 = 0.78;

/// The natural logarithm of the seconds between two arrivals in a half hour of average load (gamma: shape, scale).
const BETWEEN: (f64, f64) = (10.2303 * 1.0225, 0.4871);

/// The distribution of arrivals over the half hours of the day (gamma: shape, scale).
const DAY: (f64, f64) = (8.1737, 3.9631);
const HALF_HOURS: usize = 48;
const HALF_HOUR: f64 = 1800.0;

/// The half hour of the day at which the distribution [`DAY`] begins.
const DAY_BEGINS: usize = 11;

/// Upper limits for logarithms of seconds: two days of run time, five days between arrivals. A larger value is
/// discarded, and a new value is drawn.
const LONGEST: f64 = 12.0;
const LONGEST_BETWEEN: f64 = 13.0;

/// Returns the first `count` jobs that are submitted after midnight to a machine of `processors`. The waits of the
/// jobs are 0; [`super::first_come_first_served`] computes them.
///
/// # Panics
/// Panics if the machine has fewer than eight processors: the model describes parallel machines.
pub fn jobs(processors: u32, count: usize, random: &mut impl Rng) -> Vec<Rigid> {
    assert!(processors >= 8, "the model needs a machine with at least eight processors");
    let mut arrivals = Arrivals::new();
    let mut job = |_| {
        let submitted = arrivals.next(random);
        let processors = size(processors, random);
        Rigid { submitted, waited: 0, ran: run_time(processors, random), processors }
    };
    (0..count).map(&mut job).collect()
}

fn size(machine: u32, random: &mut impl Rng) -> u32 {
    let kind: f64 = random.random();
    if kind <= SERIAL {
        return 1;
    }
    let most = libm::log2(f64::from(machine));
    let medium = most - MEDIUM_BELOW_MOST;
    let (from, to) = if random.random::<f64>() <= SMALL { (LEAST, medium) } else { (medium, most) };
    let log = from + (to - from) * random.random::<f64>();
    let log = if kind <= SERIAL + POWER_OF_TWO { log.round() } else { log };
    (libm::exp2(log).round() as u32).clamp(1, machine)
}

fn run_time(processors: u32, random: &mut impl Rng) -> u64 {
    let short = (SHORT_PER_PROCESSOR * f64::from(processors) + SHORT_AT_NONE).clamp(0.0, 1.0);
    let logarithm = loop {
        let gamma = if random.random::<f64>() <= short { SHORT } else { LONG };
        let logarithm = draw(gamma, random);
        if logarithm <= LONGEST {
            break logarithm;
        }
    };
    libm::exp(logarithm) as u64
}

fn draw((shape, scale): (f64, f64), random: &mut impl Rng) -> f64 {
    Gamma::new(shape, scale).expect("the parameters are positive").sample(random)
}

/// Generates arrival times. The time between two jobs is measured in points. A busy half hour has many points.
struct Arrivals {
    points: [f64; HALF_HOURS],
    /// The points of the current half hour that earlier arrivals have used up.
    paid: f64,
    /// Half hours since the beginning.
    now: u64,
}

impl Arrivals {
    fn new() -> Arrivals {
        let (shape, scale) = DAY;
        let jobs = statrs::distribution::Gamma::new(shape, 1.0 / scale).expect("the parameters are positive");
        let mut points = [0.0; HALF_HOURS];
        for half_hour in DAY_BEGINS..DAY_BEGINS + HALF_HOURS {
            let middle = half_hour as f64;
            points[(half_hour - 1) % HALF_HOURS] = jobs.cdf(middle + 0.5) - jobs.cdf(middle - 0.5);
        }
        let mean = points.iter().sum::<f64>() / HALF_HOURS as f64;
        Arrivals { points: points.map(|points| points / mean), paid: 0.0, now: 0 }
    }

    /// Returns the next arrival, in seconds from the beginning.
    fn next(&mut self, random: &mut impl Rng) -> u64 {
        let logarithm = loop {
            let logarithm = draw(BETWEEN, random);
            if logarithm <= LONGEST_BETWEEN {
                break logarithm;
            }
        };
        self.paid += libm::exp(logarithm) / HALF_HOUR;
        let points = loop {
            let points = self.points[(self.now % HALF_HOURS as u64) as usize];
            if self.paid <= points {
                break points;
            }
            self.paid -= points;
            self.now += 1;
        };
        ((self.now as f64 + self.paid / points) * HALF_HOUR) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    /// Checks the means that follow from the model's parameters.
    #[test]
    fn sizes_run_times_and_arrivals_are_the_models() {
        let jobs = jobs(128, 40_000, &mut stream(1, 0));
        let part = |of: &dyn Fn(&Rigid) -> bool| jobs.iter().filter(|job| of(job)).count() as f64 / jobs.len() as f64;
        assert!((part(&|job| job.processors == 1) - SERIAL).abs() < 0.02);
        assert!((part(&|job| job.processors.is_power_of_two()) - SERIAL - POWER_OF_TWO).abs() < 0.1);
        assert!(jobs.iter().all(|job| (1..=128).contains(&job.processors)));
        let logarithms = || jobs.iter().filter(|job| job.ran > 0).map(|job| (job.ran as f64).ln());
        let mean = logarithms().sum::<f64>() / logarithms().count() as f64;
        // About three quarters of the run times are from `SHORT`, with a mean logarithm of 4.2 · 0.94 = 3.9. The mean
        // logarithm of `LONG` is 312 · 0.03 = 9.4.
        assert!((4.8..6.0).contains(&mean), "{mean}");
        assert!(jobs.is_sorted_by_key(|job| job.submitted));
        let noon = part(&|job| (10..18).contains(&(job.submitted / 3600 % 24)));
        let night = part(&|job| (1..9).contains(&(job.submitted / 3600 % 24)));
        assert!(noon > 2.0 * night, "{noon} of the jobs come by day and {night} by night");
    }
}
