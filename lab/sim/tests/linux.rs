//! Checks of the processor time that programs get under each simulated Linux kernel.

use std::cell::RefCell;
use std::rc::Rc;

use comity_sim::program::{Fork, ForkJoin};
use comity_sim::threads::linux::{Groups, Linux, Version};
use comity_sim::threads::{Activity, Costs, Host};

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
const VERSIONS: [Version; 4] = [Version::V2_6_32, Version::V2_6_36, Version::V3_9, Version::V6_18];

/// Submits a program with one thread that computes, and other threads that look for tasks.
fn hog(host: &mut Host, workers: u32, policy: &str) -> u32 {
    let program = ForkJoin::new(100 * SECOND, 1, 1, 1, Fork::AtOnce);
    host.submit(0, Box::new(program), policy.parse().unwrap(), workers, 1)
}

fn host(linux: Linux) -> Host {
    let mut host = Host::new(1, Costs::default(), 1);
    host.use_linux(linux);
    host.without_table();
    host
}

/// Returns the parts of the core's time in which the program's workers had a task, and looked for one.
fn shares(host: &Host, program: u32) -> (f64, f64) {
    let spent = host.fate(program).spent;
    (spent.work as f64 / host.now() as f64, spent.steal as f64 / host.now() as f64)
}

/// Checks that computing threads have equal parts. Returns the mean length of a turn, in ticks.
fn ticks_at_a_time(linux: Linux, count: u32) -> f64 {
    let mut host = host(linux);
    let programs: Vec<u32> = (0..count).map(|_| hog(&mut host, 1, "plain")).collect();
    host.run(10 * SECOND, 100).unwrap();
    for program in &programs {
        let (work, _) = shares(&host, *program);
        assert!((work * f64::from(count) - 1.0).abs() < 0.02, "{linux:?}, {count}: {work}");
    }
    let lost: u64 = programs.iter().map(|program| host.fate(*program).counts.preemptions).sum();
    let tick = SECOND / u64::from(linux.hz);
    host.now() as f64 / lost as f64 / tick as f64
}

#[test]
fn turns_end_at_the_first_tick_after_they_are_over() {
    let counts = [2, 3, 5];
    // With constants for one processor, turns are over within a tick of 4 ms. With constants for eight processors, a
    // CFS turn ends at the first tick after latency / threads, or after the granularity if there are many threads.
    // Latency and granularity are 20 and 4 ms (2.6.32), 24 and 8 ms (2.6.36), and 24 and 3 ms (3.9). An EEVDF request
    // is 2.8 ms.
    let of_eight = [
        (Version::V2_6_32, [3, 2, 2]),
        (Version::V2_6_36, [4, 3, 3]),
        (Version::V3_9, [4, 3, 2]),
        (Version::V6_18, [1; 3]),
    ];
    for (version, ticks) in of_eight {
        for (count, ticks) in counts.into_iter().zip(ticks) {
            let linux = Linux::new(version);
            for (linux, expected) in [(linux, 1), (Linux { scaled_for: Some(8), ..linux }, ticks)] {
                let found = ticks_at_a_time(linux, count);
                assert!((found - f64::from(expected)).abs() < 0.02, "{count} threads have {found} ticks: {linux:?}");
            }
        }
    }
    // With ticks of 1 ms, a request of 1.4 ms ends at the second tick.
    let found = ticks_at_a_time(Linux { hz: 1_000, scaled_for: Some(2), ..Linux::new(Version::V6_18) }, 2);
    assert!((found - 2.0).abs() < 0.02, "{found}");
}

#[test]
fn a_nice_thread_has_a_part_by_its_weight() {
    for version in VERSIONS {
        let mut host = host(Linux::new(version));
        let programs = [hog(&mut host, 1, "plain"), hog(&mut host, 1, "plain")];
        host.set_nice(programs[1], 5);
        host.run(20 * SECOND, 1_000).unwrap();
        // The weights are 1024 : 335.
        let ratio = shares(&host, programs[0]).0 / shares(&host, programs[1]).0;
        assert!((2.8..3.3).contains(&ratio), "{version:?}: {ratio}");
    }
}

/// Runs a thief that yields before each attempt, a worker of the same program, and a thread of another program.
#[test]
fn a_yield_gives_the_core_away_where_the_kernel_has_it() {
    for version in VERSIONS {
        for compat_yield in [false, true] {
            for groups in [Groups::Same, Groups::Separate] {
                let linux = Linux { compat_yield, groups, ..Linux::new(version) };
                if linux.check(1).is_err() {
                    continue;
                }
                let mut host = host(linux);
                let [own, other] = [hog(&mut host, 2, "abp"), hog(&mut host, 1, "plain")];
                host.run(3 * SECOND, 1_000).unwrap();
                let ((worker, thief), (other, _)) = (shares(&host, own), shares(&host, other));
                let gives = compat_yield || version == Version::V6_18;
                let [thief_due, worker_due, other_due] = match (gives, groups) {
                    (true, _) => [0.0, 0.5, 0.5],
                    (false, Groups::Same) => [1.0 / 3.0; 3],
                    (false, Groups::Separate) => [0.25, 0.25, 0.5],
                };
                for (found, due) in [(thief, thief_due), (worker, worker_due), (other, other_due)] {
                    assert!((found - due).abs() < 0.01, "{linux:?}: {thief} {worker} {other}");
                }
            }
        }
    }
}

/// Returns the delays between wake-up and run of a thread that sleeps 5 ms and computes 50 µs, while `hogs` other
/// threads compute. The delays are in nanoseconds and in ascending order.
fn lateness(linux: Linux, hogs: u32) -> Vec<u64> {
    let mut host = host(linux);
    let program = ForkJoin::new(1, 50_000, 1, 2_000, Fork::AtOnce).sleeping(5 * MILLISECOND);
    host.submit(0, Box::new(program), "plain".parse().unwrap(), 1, 1);
    if hogs > 0 {
        let program = ForkJoin::new(1, 100 * SECOND, hogs, 1, Fork::AtOnce);
        host.submit(0, Box::new(program), "plain".parse().unwrap(), hogs, 1);
    }
    let lateness = Rc::new(RefCell::new(Vec::new()));
    let (noted, mut last) = (Rc::clone(&lateness), Activity::Asleep);
    host.trace(move |stretch| {
        if stretch.program == 0 {
            let before = std::mem::replace(&mut last, stretch.activity);
            match stretch.activity {
                Activity::Task if before == Activity::Blocked => noted.borrow_mut().push(0),
                Activity::Preempted if before == Activity::Blocked => {
                    noted.borrow_mut().push(stretch.until - stretch.from)
                }
                _ => {}
            }
        }
    });
    host.run(10 * SECOND, 1_000).unwrap();
    let mut lateness = lateness.borrow().clone();
    lateness.sort_unstable();
    lateness
}

/// Checks EEVDF. A thread that wakes gets the core at once under two conditions: it has the earliest deadline of the
/// eligible threads, and the running thread has had its request or more than its part. Otherwise, which is rare here,
/// the woken thread waits for the tick at which the running thread's request is over.
#[test]
fn one_that_wakes_seldom_waits_and_then_for_a_tick() {
    let linux = Linux { scaled_for: Some(2), ..Linux::new(Version::V6_18) };
    let alone = lateness(linux, 0);
    assert!(alone.len() > 1_900 && alone.iter().all(|late| *late == 0), "{alone:?}");
    for groups in [Groups::Same, Groups::Separate] {
        for hogs in [1, 2] {
            let all = lateness(Linux { groups, ..linux }, hogs);
            assert!(all.len() > 1_900, "{groups:?}, {hogs}: {}", all.len());
            assert_eq!(all[all.len() * 9 / 10], 0, "{groups:?}, {hogs}: {all:?}");
            let (longest, tick) = (all[all.len() - 1], 4 * MILLISECOND);
            assert!((1..=u64::from(hogs) * tick).contains(&longest), "{groups:?}, {hogs}: {longest}");
        }
    }
}

/// Returns the time of a phase of eight strands of 10 ms on eight cores, relative to the time without a memory limit.
fn slowed(sockets: u32, bandwidth: u32, memory: u32) -> f64 {
    let mut host = Host::new(8, Costs::default(), 1);
    host.use_linux(Linux { sockets, bandwidth: Some(bandwidth), ..Linux::new(Version::V6_18) });
    host.without_table();
    let program = ForkJoin::new(1, 10 * MILLISECOND, 8, 1, Fork::AtOnce);
    let number = host.submit(0, Box::new(program), "abp".parse().unwrap(), 8, 1);
    host.set_memory(number, memory);
    host.run(SECOND, 1).unwrap();
    host.fate(number).ended.unwrap() as f64 / (10 * MILLISECOND) as f64
}

#[test]
fn cores_that_wait_for_memory_share_that_of_their_socket() {
    let near = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 0.05, "{value}, not {expected}");
    // The memory of one socket serves two of eight cores. With two sockets, each memory serves two of four cores.
    near(slowed(1, 2_000, 1_000), 4.0);
    near(slowed(2, 2_000, 1_000), 2.0);
    // Eight cores that wait half of the time demand as much memory as four cores that only wait. At half their speed,
    // they demand as much as two such cores.
    near(slowed(1, 2_000, 500), 2.0);
    near(slowed(1, 4_000, 500), 1.0);
    near(slowed(1, 2_000, 0), 1.0);
}

#[test]
fn threads_of_the_kernel_take_time_and_end_turns() {
    for version in VERSIONS {
        let quiet = Linux::new(version);
        let noisy = Linux { noise_every: MILLISECOND, noise_work: 100_000, ..quiet };
        let run = |linux: Linux| {
            let mut host = host(linux);
            let programs = [(); 2].map(|()| hog(&mut host, 1, "plain"));
            host.run(10 * SECOND, 100).unwrap();
            let work: f64 = programs.iter().map(|program| shares(&host, *program).0).sum();
            (work, host.switches().all)
        };
        let ((all, few), (rest, many)) = (run(quiet), run(noisy));
        // A tenth of the time is lost in the mean.
        assert!(all > 0.99 && (0.88..0.92).contains(&rest), "{version:?}: {all}, {rest}");
        assert!(many > few, "{version:?}: {few} switches without noise, {many} with noise");
    }
}
