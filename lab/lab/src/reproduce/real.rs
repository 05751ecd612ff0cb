//! Runs WS-LAST's experiments on this machine's threads.

use std::time::Duration;

use comity_console::Failure;
use comity_papers::ws_last::{Measured, Outcome, Point, Threads};

use crate::backend::MAX_WORKERS;
use crate::bench::blocking::executor::Name;
use crate::bench::blocking::workloads::{Plan, Workload};
use crate::bench::r#loop::steps_in;

/// The number of running times of which the median is taken. Section 4 of the paper takes 9.
const MEASUREMENTS: usize = 5;

/// The approximate work of one running time, in nanoseconds.
const WORK: u64 = 40_000_000;

/// The threads of this machine.
pub struct ThisMachine;

impl Threads for ThisMachine {
    fn count() -> u16 {
        u16::try_from(comity_os::cores::usable().get()).unwrap_or(MAX_WORKERS).min(MAX_WORKERS)
    }

    fn measure(points: &[Point], one_in: u32) -> Result<Vec<Outcome>, Failure> {
        measure(points, ThisMachine::count(), one_in)
    }
}

/// Measures the points, each with `workers` workers and with one worker. The points take turns, so that a drift of
/// the machine affects all of them equally.
fn measure(points: &[Point], workers: u16, one_in: u32) -> Result<Vec<Outcome>, Failure> {
    let mut runs: Vec<Vec<Measured>> = vec![Vec::new(); points.len()];
    let plans: Vec<Plan> = points.iter().map(|point| plan(*point, one_in)).collect();
    for _ in 0..MEASUREMENTS {
        for ((point, plan), own) in points.iter().zip(&plans).zip(&mut runs) {
            let policy = point.variant.policy().parse().expect("it is in the catalog");
            let time = |workers| -> Result<(u64, u64), Failure> {
                let executor = Name::Comity(policy).start(workers)?;
                let before = executor.steal_attempts().unwrap_or(0);
                let seconds = plan.run(&executor).seconds;
                let attempts = (executor.steal_attempts().unwrap_or(0) - before) as f64 * plan.measured_part();
                Ok(((seconds * 1e9) as u64, attempts as u64))
            };
            let (on_one, _) = time(1)?;
            let (on_all, attempts) = time(workers)?;
            own.push(Measured { rounds: plan.rounds, on_one, on_all, attempts });
        }
    }
    let median = |mut own: Vec<Measured>| {
        own.sort_unstable_by_key(|run| run.on_one);
        let on_one = own[own.len() / 2].on_one;
        own.sort_unstable_by_key(|run| run.on_all);
        Measured { on_one, ..own[own.len() / 2] }
    };
    Ok(points.iter().zip(runs).map(|(point, own)| Outcome { point: *point, measured: median(own) }).collect())
}

fn plan(point: Point, one_in: u32) -> Plan {
    let round = u64::from(point.workers) * point.work;
    let rounds = (WORK / round / u64::from(one_in)).max(1) as u32;
    Plan {
        workload: Workload::ScatterGather,
        n: point.workers,
        steps: steps_in(Duration::from_nanos(point.work)),
        rounds,
    }
}
