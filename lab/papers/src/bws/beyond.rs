//! Experiments for which the authors had no machine: the paper's pairs on 64 and 128 cores under EEVDF, and more
//! policies.

use comity_console::Failure;
use comity_sim::threads::linux::Groups;
use serde::Serialize;

use super::pairs::{self, CoRun, CoRuns};
use super::{Benchmark, Bws, ORIGINAL, Setting};
use crate::corun::Ran;
use crate::measure::average;
use crate::report;
use crate::{Renamed, Runner, Stop, here};

/// The machines: the number of cores, and the division of threads into task groups of the kernel.
const MACHINES: [(u32, Groups); 3] = [(64, Groups::Same), (128, Groups::Same), (64, Groups::Separate)];

/// The policies.
const POLICIES: [&str; 4] = ["abp", "bws", "dws", "comity"];

/// The means over all pairs on one machine under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The number of cores of the machine.
    pub cores: u32,
    /// The division of threads into task groups of the kernel.
    pub groups: Groups,
    /// The policy of both programs.
    pub policy: &'static str,
    /// The mean over all pairs of (larger slowdown − smaller slowdown), in percentage points. A slowdown is relative
    /// to the program alone under ABP.
    pub unfairness: f64,
    /// The largest unfairness of a pair, in percentage points.
    pub most_unfair: f64,
    /// The mean weighted speedup.
    pub throughput: f64,
    /// The least weighted speedup of a pair.
    pub least_throughput: f64,
    /// The mean over all programs of (time alone under the policy / time alone under ABP).
    pub alone: f64,
    /// The number of barriers on all threads of a program, per second and core, while pairs run.
    pub barriers: f64,
    /// The number of fences of a single thread, per second and core, while pairs run.
    pub fences: f64,
    /// The number of system calls that wake a thread, per second and core, while pairs run.
    pub wakeups: f64,
    /// The number of switches between threads, per second and core, while pairs run.
    pub switches: f64,
}

/// Runs the pairs on all machines.
pub(super) fn run<R: Runner>(paper: &mut Bws, runner: &R) -> Result<(), Failure> {
    for machine in MACHINES {
        paper.beyond.extend(here(on(paper.programs.setting.seed, machine, runner))?.unwrap_or_default());
    }
    Ok(())
}

/// Runs the pairs on a machine under all policies.
fn on<R: Runner>(seed: u64, (cores, groups): (u32, Groups), runner: &R) -> Result<Vec<Point>, Stop> {
    let setting = Setting { executions: 6, ..Setting::today(seed, cores, groups) };
    let programs = setting.programs();
    let kind = if groups == Groups::Same { "" } else { "-separate" };
    let on = Renamed { runner, rename: |part: &str| format!("beyond-{cores}{kind}-{part}") };
    let original = programs.alone(ORIGINAL, &on)?;
    let mut points = Vec::new();
    for policy in POLICIES {
        let alone = if policy == ORIGINAL { original.clone() } else { programs.alone(policy, &on)? };
        let found = pairs::run(&programs, policy, &on)?;
        let co_runs = pairs::co_runs(&original, &found);
        points.push(point((cores, groups), policy, [&original, &alone], &found, &co_runs));
    }
    Ok(points)
}

fn point(
    (cores, groups): (u32, Groups),
    policy: &'static str,
    [original, alone]: [&[Ran]; 2],
    found: &CoRuns,
    co_runs: &[CoRun],
) -> Point {
    let times = Benchmark::ALL.into_iter().zip(alone.iter().zip(original));
    let ratios =
        times.filter(|(benchmark, _)| *benchmark != Benchmark::Loop).map(|(_, (own, abp))| own.mean() / abp.mean());
    // The counts of both programs of a pair, divided by the longer of their two times.
    let rate = |what: fn(&Ran) -> u64| {
        average(found.iter().map(|(_, pair)| {
            let there = pair.iter().map(|ran| ran.there).max().unwrap_or(0);
            pair.iter().map(what).sum::<u64>() as f64 * 1e9 / there as f64 / f64::from(cores)
        }))
    };
    Point {
        cores,
        groups,
        policy,
        unfairness: pairs::unfairness(co_runs, None),
        most_unfair: co_runs.iter().map(CoRun::unfairness).fold(0.0, f64::max),
        throughput: pairs::throughput(co_runs, None),
        least_throughput: co_runs.iter().map(|one| one.throughput).fold(f64::INFINITY, f64::min),
        alone: average(ratios),
        barriers: rate(|ran| ran.heavy[0]),
        fences: rate(|ran| ran.heavy[1]),
        wakeups: rate(|ran| ran.heavy[2]),
        switches: rate(|ran| ran.switches.all),
    }
}

/// Formats the points as a table.
pub(super) fn table(points: &[Point]) -> String {
    let row = |point: &Point| {
        [
            point.cores.to_string(),
            format!("{:?}", point.groups).to_lowercase(),
            point.policy.to_owned(),
            format!("{:.0} ({:.0})", point.unfairness, point.most_unfair),
            format!("{:.2} ({:.2})", point.throughput, point.least_throughput),
            format!("{:.3}", point.alone),
            format!("{:.1}", point.barriers),
            format!("{:.0}", point.fences),
            format!("{:.0}", point.wakeups),
            format!("{:.0}", point.switches),
        ]
    };
    let header = [
        "cores",
        "groups",
        "policy",
        "unfairness, % (most)",
        "throughput (least)",
        "alone / abp",
        "barriers",
        "fences",
        "wake-ups",
        "switches per core and s",
    ];
    report::table(header, points.iter().map(row))
}
