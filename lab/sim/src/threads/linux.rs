//! Linux's fair scheduler, as far as its decisions concern programs that share cores.
//!
//! It decides which thread a core runs next, for how long, and what a yield does. It also decides which core a thread
//! joins when it wakes, and when a thread moves to another core.
//!
//! ```text
//! linux.rs      kernel versions and their constants
//! topology.rs   sockets, cores and hardware threads
//! memory.rs     the memory bandwidth that a socket's cores share
//! entity.rs     the scheduling state of a thread, or of a group of threads
//! cfs.rs        the rules up to 6.5: the least virtual run time runs next
//! eevdf.rs      the rules from 6.6 on: the earliest deadline of all eligible entities runs next
//! queues.rs     the queues of all cores, under either set of rules
//! check.rs      the invariants of the queues
//! moves.rs      the choice of a core, and moves of threads between cores
//! ```
//!
//! Left out:
//!
//! - loads that are averaged over time (here a load is the number of threads)
//! - buddies, except the buddy of a yield
//! - bandwidth control, except a quota of the whole program
//! - all other scheduling classes

mod cfs;
mod check;
mod eevdf;
mod entity;
mod memory;
mod moves;
mod queues;
mod topology;

use serde::{Deserialize, Serialize};

pub(super) use entity::Entity;
pub(super) use memory::Demand;
pub(super) use moves::Balance;
pub(super) use queues::{Joins, Queues};

/// A kernel version whose rules are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Version {
    /// The kernel of the DWS paper, of 2009.
    #[serde(rename = "2.6.32")]
    V2_6_32,
    /// The kernel of the BWS paper, of 2010.
    #[serde(rename = "2.6.36")]
    V2_6_36,
    /// The kernel of the guests in the Robinhood paper, of 2013.
    #[serde(rename = "3.9")]
    V3_9,
    /// A kernel with EEVDF, of 2025.
    #[serde(rename = "6.18")]
    V6_18,
}

/// The division of threads into task groups. Each task group has its own share of each core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Groups {
    /// All threads are in one group.
    #[default]
    Same,
    /// The threads of each program are a group. Autogroup has this effect if each program has its own session, and so
    /// has a cgroup for each program.
    Separate,
}

/// The kernel of a host, and the cores that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Linux {
    /// The version, which determines the rules.
    pub version: Version,
    /// The sysctl `sched_compat_yield` of 2.6.32 and 2.6.36. If true, a thread that yields goes behind all other
    /// threads of its queue. If false, it keeps the place that its virtual run time gives it.
    #[serde(default)]
    pub compat_yield: bool,
    /// The number of timer ticks per second. Time slices end at ticks.
    #[serde(default = "ticks")]
    pub hz: u32,
    /// The division of threads into task groups.
    #[serde(default)]
    pub groups: Groups,
    /// The number of sockets, among which the cores are divided evenly. The kernel prefers to move threads within a
    /// socket.
    #[serde(default = "one")]
    pub sockets: u32,
    /// The number of hardware threads of a core, 1 or 2. With 2, the machine's processors are hardware threads, and
    /// processors 2n and 2n + 1 are a core.
    #[serde(default = "one")]
    pub threads_per_core: u32,
    /// The speed of a hardware thread while the other thread of its core runs, in thousandths of its speed alone.
    #[serde(default = "smt_speed")]
    pub smt_speed: u32,
    /// The number of cores, in thousandths, that a socket's memory can serve if these cores only wait for memory.
    /// `None` means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u32>,
    /// If true, a program uses the memory of the socket on which its first task ran, as if one thread had touched all
    /// pages first. If false, each thread uses the memory of the socket on which it runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_touch: bool,
    /// True if, under the completely fair scheduler, a yield to a peer is fair to other threads. The peer moves and runs
    /// next only if it is not ahead of the first thread of its queue by more than the wake-up granularity. This is the
    /// limit of `yield_to` in Linux since 2.6.39. False: the peer always runs next, for the rest of the turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fair_yield_to: bool,
    /// True if the kernel has Robinhood's Thread Accelerator: a thief's turn can go to a preempted worker.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accelerates: bool,
    /// The mean time between two wake-ups of a thread of the kernel on each core, in nanoseconds. The times are random.
    /// 0: the kernel has no such threads.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub noise_every: u64,
    /// The time for which a thread of the kernel runs after each of these wake-ups, in nanoseconds. It is a part of the
    /// turn of the thread that runs afterwards, which pays for it.
    #[serde(default = "noise_work", skip_serializing_if = "is_noise_work")]
    pub noise_work: u64,
    /// The number of processors for which the kernel's constants are scaled, if it differs from the number of the
    /// host's processors. Used if the host stands for a part of a machine to which programs are confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled_for: Option<u32>,
}

/// The tick rate of Debian's and Ubuntu's kernels of all four versions.
fn ticks() -> u32 {
    250
}

fn one() -> u32 {
    1
}

/// Two hardware threads together do 1.25 times the work of one alone. This is an assumption (figures of 1.1 to 1.4
/// are common).
fn smt_speed() -> u32 {
    625
}

/// Returns the time for which Domain 0 runs after a wake-up.
fn noise_work() -> u64 {
    50_000
}

fn is_zero(time: &u64) -> bool {
    *time == 0
}

fn is_noise_work(time: &u64) -> bool {
    *time == noise_work()
}

impl Linux {
    /// Creates a kernel of this version with 250 ticks per second, one task group, one socket, and cores with one
    /// hardware thread.
    pub fn new(version: Version) -> Linux {
        Linux {
            version,
            compat_yield: false,
            hz: ticks(),
            groups: Groups::Same,
            sockets: 1,
            threads_per_core: 1,
            smt_speed: smt_speed(),
            bandwidth: None,
            first_touch: false,
            fair_yield_to: false,
            accelerates: false,
            noise_every: 0,
            noise_work: noise_work(),
            scaled_for: None,
        }
    }

    /// Checks that a machine of `processors` processors can have this kernel.
    ///
    /// # Errors
    /// A message that names the invalid parameter.
    pub fn check(&self, processors: u32) -> Result<(), String> {
        let Linux { version, compat_yield, hz, sockets, threads_per_core, smt_speed, bandwidth, scaled_for, .. } =
            *self;
        if compat_yield && version > Version::V2_6_36 {
            return Err(
                "machine.linux.compat_yield: only 2.6.32 and 2.6.36 have sched_compat_yield. Leave it out".into()
            );
        }
        if self.accelerates && (self.is_eevdf() || self.groups == Groups::Separate) {
            return Err(
                "machine.linux.accelerates: Robinhood's Thread Accelerator needs the completely fair scheduler without \
                 task groups. Write version = \"3.9\" and groups = \"same\", or leave it out"
                    .into(),
            );
        }
        if self.fair_yield_to && self.is_eevdf() {
            return Err("machine.linux.fair_yield_to: 6.18 has another rule. Leave it out".into());
        }
        if !(10..=10_000).contains(&hz) {
            return Err(format!("machine.linux.hz is {hz}; it must be at least 10 and at most 10000"));
        }
        if !(1..=2).contains(&threads_per_core) {
            return Err(format!("machine.linux.threads_per_core is {threads_per_core}; it must be 1 or 2"));
        }
        if !(100..=1_000).contains(&smt_speed) {
            return Err(format!("machine.linux.smt_speed is {smt_speed}; it must be at least 100 and at most 1000"));
        }
        if scaled_for == Some(0) {
            return Err("machine.linux.scaled_for is 0; it must be at least 1".into());
        }
        let Linux { noise_every, noise_work, .. } = *self;
        if noise_every > 1 << 40 || noise_every > 0 && !(1..=noise_every).contains(&noise_work) {
            return Err(format!(
                "machine.linux.noise_work is {noise_work} in each {noise_every}; it must be at least 1 and at most \
                 machine.linux.noise_every, which is at most {} ns",
                1u64 << 40
            ));
        }
        let parts = u64::from(sockets) * u64::from(threads_per_core);
        if parts == 0 || !u64::from(processors).is_multiple_of(parts) {
            return Err(format!(
                "machine.linux: {processors} processors cannot be divided evenly among {sockets} sockets of cores with {threads_per_core} \
                 hardware threads"
            ));
        }
        if let Some(cores) = bandwidth {
            // With a smaller bandwidth, the rounding of speeds to whole thousandths is too coarse.
            let least = (10 * processors / sockets).max(100);
            if !(least..=1_024_000).contains(&cores) {
                return Err(format!(
                    "machine.linux.bandwidth is {cores}; with {} processors in a socket it must be at least {least} and at most 1024000",
                    processors / sockets
                ));
            }
        }
        Ok(())
    }

    /// Returns the nanoseconds from one tick to the next.
    fn tick(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }

    fn is_eevdf(&self) -> bool {
        self.version == Version::V6_18
    }
}

/// The tunables of a kernel, in nanoseconds, scaled for its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Constants {
    /// The period in which each thread of a queue runs once, if there are at most `few` threads
    /// (`sysctl_sched_latency`).
    latency: u64,
    /// The minimum time for which each thread runs, if there are more than `few` threads
    /// (`sysctl_sched_min_granularity`).
    granularity: u64,
    /// The number of threads up to which the period is `latency` (`sched_nr_latency`).
    few: u64,
    /// A thread that wakes preempts the running thread if its virtual run time is smaller by more than this
    /// (`sysctl_sched_wakeup_granularity`).
    wakeup_granularity: u64,
    /// The length of a thread's request (EEVDF's `sysctl_sched_base_slice`).
    base_slice: u64,
    /// The time since a thread's last run within which its data is assumed to be in the cache, so that it is not
    /// moved (`sysctl_sched_migration_cost`).
    migration_cost: u64,
}

const MILLISECOND: u64 = 1_000_000;

impl Constants {
    /// Returns the constants from the kernel sources: `kernel/sched_fair.c` of 2.6.33 (2.6.32 has the same values)
    /// and 2.6.36, `kernel/sched/fair.c` of 3.9 and 6.18. Each constant is multiplied by 1 + log₂ of the number of
    /// processors, up to eight processors (`get_update_sysctl_factor`). In 2.6.32 all processors count, up to a
    /// latency of 200 ms (`sched_init_granularity` of `kernel/sched.c`).
    fn of(version: Version, processors: u32) -> Constants {
        let (latency, granularity, few) = match version {
            Version::V2_6_32 => (5 * MILLISECOND, MILLISECOND, 5),
            Version::V2_6_36 => (6 * MILLISECOND, 2 * MILLISECOND, 3),
            Version::V3_9 | Version::V6_18 => (6 * MILLISECOND, 750_000, 8),
        };
        let counted = if version == Version::V2_6_32 { processors } else { processors.min(8) };
        let factor = 1 + u64::from(counted.max(1).ilog2());
        Constants {
            latency: (latency * factor).min(200 * MILLISECOND),
            granularity: (granularity * factor).min(200 * MILLISECOND),
            few,
            wakeup_granularity: MILLISECOND * factor,
            base_slice: 700_000 * factor,
            migration_cost: 500_000,
        }
    }

    /// Returns the period in which each of `threads` threads runs once (`__sched_period`).
    fn period(&self, threads: u64) -> u64 {
        if threads > self.few { threads * self.granularity } else { self.latency }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the values of `/proc/sys/kernel/sched_*` that are often quoted for such machines: 24 ms and 8 ms
    /// (2.6.36); 24, 3 and 4 ms (3.x).
    #[test]
    fn constants_grow_with_the_machine_as_each_kernel_has_it() {
        let of = |version, processors| Constants::of(version, processors);
        let bws = of(Version::V2_6_36, 32);
        assert_eq!((bws.latency, bws.granularity, bws.wakeup_granularity), (24_000_000, 8_000_000, 4_000_000));
        let robinhood = of(Version::V3_9, 12);
        assert_eq!((robinhood.latency, robinhood.granularity), (24_000_000, 3_000_000));
        let dws = of(Version::V2_6_32, 16);
        assert_eq!((dws.latency, dws.granularity), (25_000_000, 5_000_000));
        assert_eq!([1, 2, 4, 8, 64].map(|cores| of(Version::V6_18, cores).base_slice / 100_000), [7, 14, 21, 28, 28]);
        assert_eq!([1, 3, 4, 6].map(|threads| bws.period(threads) / MILLISECOND), [24, 24, 32, 48]);
    }

    #[test]
    fn what_cannot_be_is_said() {
        let base = Linux::new(Version::V3_9);
        for (linux, processors, what) in [
            (Linux { compat_yield: true, ..base }, 8, "compat_yield: only 2.6.32"),
            (Linux { fair_yield_to: true, ..Linux::new(Version::V6_18) }, 8, "fair_yield_to: 6.18 has another rule"),
            (Linux { hz: 1, ..base }, 8, "hz is 1;"),
            (Linux { threads_per_core: 3, ..base }, 9, "threads_per_core is 3;"),
            (Linux { smt_speed: 2_000, ..base }, 8, "smt_speed is 2000;"),
            (Linux { bandwidth: Some(10), ..base }, 8, "bandwidth is 10;"),
            (Linux { scaled_for: Some(0), ..base }, 8, "scaled_for is 0;"),
            (Linux { noise_every: 1_000, ..base }, 8, "noise_work is 50000 in each 1000;"),
            (Linux { sockets: 3, ..base }, 8, "8 processors cannot be divided evenly among 3 sockets"),
            (Linux { sockets: 0, ..base }, 8, "among 0 sockets"),
            (Linux { sockets: 2, threads_per_core: 2, ..base }, 6, "hardware threads"),
        ] {
            let said = linux.check(processors).unwrap_err();
            assert!(said.contains(what), "{said}");
        }
        let dws = Linux { sockets: 2, threads_per_core: 2, compat_yield: true, ..Linux::new(Version::V2_6_32) };
        assert_eq!(dws.check(16), Ok(()));
    }
}
