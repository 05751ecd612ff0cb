//! Counters of each worker. The worker writes them at steals, and when it begins or ends a spell (a time without a
//! task). Any thread may read them at any time.

use std::fmt;
use std::iter::Sum;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use comity_table::{REFUSALS, Thieves};

/// Counts of what one worker has done since its pool was built, or between two readings (see
/// [`WorkerCounters::since`]).
///
/// `busy + thief + asleep` is the worker's age, except for the current period with or without a task, which is added
/// when it ends. The counters of several workers can be summed up. Counters are printed as one line:
///
/// ```
/// use comity::WorkerCounters;
///
/// let pool = comity::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
/// pool.install(|| comity::for_range(0..1_000, 1, |_| ()));
/// for (worker, counters) in pool.counters().iter().enumerate() {
///     println!("{worker}: {counters}");
/// }
/// let all: WorkerCounters = pool.counters().iter().sum();
/// // all: busy 34.1µs, thief 61.3µs, asleep 0.0ns; steals 2 of 9 attempts, yields 4, sleeps 1, …
/// println!("all: {all}");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerCounters {
    /// The number of attempts to take a task from another worker.
    pub steal_attempts: u64,
    /// The number of these attempts that took a task.
    pub steals: u64,
    /// The number of times that the worker yielded its core, to any thread or to a certain peer.
    pub yields: u64,
    /// The number of times that the worker went to sleep.
    pub sleeps: u64,
    /// The number of peers that the worker woke because its policy decided so.
    pub wakeups: u64,
    /// The number of times that the worker gave the rest of its time slice to a peer.
    pub accelerations: u64,
    /// The number of accelerations that were refused, by reason.
    pub refusals: Refusals,
    /// Wall-clock time with a task, including time spent waiting for a core.
    pub busy: Duration,
    /// Wall-clock time awake without a task.
    pub thief: Duration,
    /// Wall-clock time asleep.
    pub asleep: Duration,
}

impl WorkerCounters {
    /// Returns the counts since `earlier`, which is a reading of the same worker.
    pub fn since(&self, earlier: &WorkerCounters) -> WorkerCounters {
        WorkerCounters {
            steal_attempts: self.steal_attempts - earlier.steal_attempts,
            steals: self.steals - earlier.steals,
            yields: self.yields - earlier.yields,
            sleeps: self.sleeps - earlier.sleeps,
            wakeups: self.wakeups - earlier.wakeups,
            accelerations: self.accelerations - earlier.accelerations,
            refusals: self.refusals.with(earlier.refusals, u64::wrapping_sub),
            busy: self.busy.saturating_sub(earlier.busy),
            thief: self.thief.saturating_sub(earlier.thief),
            asleep: self.asleep.saturating_sub(earlier.asleep),
        }
    }

    /// Returns the sum over a pool's workers, like `workers.iter().sum()`.
    pub fn total(workers: &[WorkerCounters]) -> WorkerCounters {
        workers.iter().sum()
    }
}

impl AddAssign for WorkerCounters {
    fn add_assign(&mut self, other: WorkerCounters) {
        self.steal_attempts += other.steal_attempts;
        self.steals += other.steals;
        self.yields += other.yields;
        self.sleeps += other.sleeps;
        self.wakeups += other.wakeups;
        self.accelerations += other.accelerations;
        self.refusals = self.refusals.with(other.refusals, u64::wrapping_add);
        self.busy += other.busy;
        self.thief += other.thief;
        self.asleep += other.asleep;
    }
}

impl Sum for WorkerCounters {
    fn sum<I: Iterator<Item = WorkerCounters>>(workers: I) -> WorkerCounters {
        workers.fold(WorkerCounters::default(), |mut sum, worker| {
            sum += worker;
            sum
        })
    }
}

impl<'a> Sum<&'a WorkerCounters> for WorkerCounters {
    fn sum<I: Iterator<Item = &'a WorkerCounters>>(workers: I) -> WorkerCounters {
        workers.copied().sum()
    }
}

/// Formats the counters as one line, with a unit for each time.
impl fmt::Display for WorkerCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerCounters { steal_attempts, steals, yields, sleeps, wakeups, accelerations, refusals, .. } = self;
        write!(f, "busy {:.1?}, thief {:.1?}, asleep {:.1?}; ", self.busy, self.thief, self.asleep)?;
        write!(
            f,
            "steals {steals} of {steal_attempts} attempts, yields {yields}, sleeps {sleeps}, wake-ups {wakeups}, "
        )?;
        write!(f, "accelerations {accelerations}, refused {}", refusals.total())
    }
}

/// The reason why a worker was not accelerated.
// The variants are in the order of `REFUSALS`, which is the order of the words in the core table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The policy accelerates the worker's virtual CPU, and no hypervisor supports that.
    NoHypervisor,
    /// The worker is on a core, or has not been off its core for long enough.
    Running,
    /// The worker waits in a system call.
    Blocked,
    /// The worker has been pulled to another core, and has not run since.
    Pulled,
    /// Another thief accelerates the worker, or the thread that corrects affinity masks is not available. That thread
    /// may be starting, may have failed to start, or may have been told that the pool has ended.
    Taken,
    /// The thief is being accelerated itself.
    Chain,
    /// The worker last ran on another NUMA node.
    OtherNode,
    /// The worker may not run on the thief's core, because of its program, an administrator or a cpuset.
    Mask,
    /// The kernel does not let this program move its threads.
    Kernel,
}

impl Refusal {
    /// Every reason, in the order of the variants.
    pub const ALL: &'static [Refusal] = &[
        Refusal::NoHypervisor,
        Refusal::Running,
        Refusal::Blocked,
        Refusal::Pulled,
        Refusal::Taken,
        Refusal::Chain,
        Refusal::OtherNode,
        Refusal::Mask,
        Refusal::Kernel,
    ];

    /// The name of the reason in printed text.
    pub fn name(self) -> &'static str {
        REFUSALS[self as usize]
    }
}

const _: () = assert!(Refusal::ALL.len() == REFUSALS.len());

/// The number of refused accelerations, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::ALL.len()]);

impl Refusals {
    /// The number of refusals for this reason.
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.0[refusal as usize]
    }

    /// The number of refusals for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn add(&mut self, refusal: Refusal) {
        self.0[refusal as usize] += 1;
    }

    fn with(self, other: Refusals, both: impl Fn(u64, u64) -> u64) -> Refusals {
        Refusals(std::array::from_fn(|nth| both(self.0[nth], other.0[nth])))
    }
}

/// A number that one thread writes and any thread reads.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter. Only the owner calls this: it is a load and a store, without a locked instruction.
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    pub(crate) fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The live counters of one worker; times in nanoseconds.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) steal_attempts: Counter,
    pub(crate) steals: Counter,
    pub(crate) yields: Counter,
    pub(crate) sleeps: Counter,
    pub(crate) wakeups: Counter,
    pub(crate) accelerations: Counter,
    pub(crate) refusals: [Counter; Refusal::ALL.len()],
    pub(crate) busy_ns: Counter,
    pub(crate) thief_ns: Counter,
    pub(crate) asleep_ns: Counter,
}

impl Live {
    pub(crate) fn read(&self) -> WorkerCounters {
        WorkerCounters {
            steal_attempts: self.steal_attempts.get(),
            steals: self.steals.get(),
            yields: self.yields.get(),
            sleeps: self.sleeps.get(),
            wakeups: self.wakeups.get(),
            accelerations: self.accelerations.get(),
            refusals: Refusals(self.refusals.each_ref().map(Counter::get)),
            busy: Duration::from_nanos(self.busy_ns.get()),
            thief: Duration::from_nanos(self.thief_ns.get()),
            asleep: Duration::from_nanos(self.asleep_ns.get()),
        }
    }

    /// Adds this worker's counts to the counts that a program's thieves have in the core table.
    pub(crate) fn count_in(&self, thieves: &mut Thieves) {
        thieves.steals += self.steals.get();
        thieves.accelerations += self.accelerations.get();
        for (sum, refusals) in thieves.refusals.iter_mut().zip(&self.refusals) {
            *sum += refusals.get();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counters_sum_up_and_are_one_line() {
        let mut refusals = Refusals::default();
        refusals.add(Refusal::Mask);
        let worker = WorkerCounters {
            steal_attempts: 9,
            steals: 2,
            yields: 3,
            sleeps: 4,
            wakeups: 5,
            accelerations: 6,
            refusals,
            busy: Duration::from_millis(1500),
            thief: Duration::from_micros(250),
            asleep: Duration::ZERO,
        };
        let sum: WorkerCounters = [worker, worker].iter().sum();
        assert_eq!((sum, sum.since(&worker)), (WorkerCounters::total(&[worker; 2]), worker));
        assert_eq!(
            sum.to_string(),
            "busy 3.0s, thief 500.0µs, asleep 0.0ns; steals 4 of 18 attempts, yields 6, sleeps 8, wake-ups 10, \
             accelerations 12, refused 2"
        );
        assert_eq!([].iter().sum::<WorkerCounters>(), WorkerCounters::default());
    }

    #[test]
    fn each_reason_has_its_name() {
        for (nth, refusal) in Refusal::ALL.iter().copied().enumerate() {
            let name = refusal.name();
            assert_eq!((refusal as usize, name), (nth, REFUSALS[nth]));
            assert_eq!(format!("{refusal:?}").to_lowercase(), name.replace(' ', ""));
        }
    }
}
