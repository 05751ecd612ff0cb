//! Runs a probe on a simulated host of one core.

use std::cell::RefCell;
use std::rc::Rc;

use comity_console::Failure;
use comity_policy::Policy;
use comity_sim::program::{Fork, ForkJoin};
use comity_sim::threads::linux::Linux;
use comity_sim::threads::{Activity, Costs, Host};

use super::probe::{Figures, PERCENTS, Part, Probe, SLEEP_US, WORK_US};
use crate::bench::quartiles::percentile;

const SECOND: u64 = 1_000_000_000;
const CHECK_EVERY: u64 = 1_000;

/// Returns the costs that were measured: a yield takes 0.41 µs without a switch, and 1.2 µs with a switch.
fn costs() -> Costs {
    Costs { yield_core: 410, switch: 800, ..Costs::default() }
}

/// Returns the numbers of a probe, over `seconds` of simulated time.
pub fn simulate(probe: &Probe, linux: Linux, seconds: u64) -> Result<Vec<f64>, Failure> {
    let policy = |name: &str| name.parse::<Policy>().expect("it is in the catalog");
    let mut host = Host::new(1, costs(), 1);
    host.use_linux(Linux { groups: probe.groups, ..linux });
    host.without_table();
    let end = seconds * SECOND;
    let mut programs = Vec::new();
    for part in probe.parts {
        let serial = |length| ForkJoin::new(length, 1, 1, 1, Fork::AtOnce);
        let (program, policy, workers) = match *part {
            Part::Computes(1) => (serial(2 * end), policy("plain"), 1),
            Part::Computes(threads) => (ForkJoin::new(1, 2 * end, threads, 1, Fork::AtOnce), policy("plain"), threads),
            Part::Yields => (serial(2 * end), policy("abp"), 2),
            Part::Sleeps => {
                let turns = end / (1_000 * SLEEP_US) + 1;
                let program = ForkJoin::new(1, 1_000 * WORK_US, 1, turns as u32, Fork::AtOnce);
                (program.sleeping(1_000 * SLEEP_US), policy("plain"), 1)
            }
        };
        programs.push(host.submit(0, Box::new(program), policy, workers, 1));
    }
    let lateness = Rc::new(RefCell::new(Vec::new()));
    let (noted, mut last) = (Rc::clone(&lateness), Activity::Asleep);
    host.trace(move |stretch| {
        if stretch.program != 0 {
            return;
        }
        let before = std::mem::replace(&mut last, stretch.activity);
        match stretch.activity {
            // The trace omits stretches without duration. A thread that did not wait for the core changes from
            // `Blocked` to `Task`.
            Activity::Task if before == Activity::Blocked => noted.borrow_mut().push(0.0),
            Activity::Preempted if before == Activity::Blocked => {
                noted.borrow_mut().push((stretch.until - stretch.from) as f64 / 1_000.0);
            }
            _ => {}
        }
    });
    host.run(end, CHECK_EVERY).map_err(Failure::Run)?;
    let fates: Vec<_> = programs.iter().map(|program| host.fate(*program)).collect();
    let share = |time: u64| 100.0 * time as f64 / host.now() as f64;
    Ok(match probe.figures {
        Figures::Slices => {
            let (work, lost) = fates
                .iter()
                .fold((0, 0), |(work, lost), fate| (work + fate.spent.work, lost + fate.counts.preemptions));
            vec![work as f64 / 1e6 / lost.max(1) as f64]
        }
        Figures::Shares => vec![share(fates[0].spent.steal), share(fates[0].spent.work), share(fates[1].spent.work)],
        Figures::Lateness => PERCENTS.map(|percent| percentile(&lateness.borrow(), percent)).to_vec(),
    })
}
