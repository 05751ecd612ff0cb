//! The observations of a coordinator at a look: which workers of its pools wait for a core, which wait for something
//! else, and how much processor time the program could use.
//!
//! # States
//!
//! The state of a worker at a look, compared with the previous look:
//!
//! | state | sign |
//! |---|---|
//! | moves | it has forked, finished or taken a task since; or it has no task |
//! | waits for a core | it had no time on a core since, and is in no system call: its count of unmoved looks does not change |
//! | unmoved | it has a task and shows no progress; the number of successive looks is counted |
//! | stuck | unmoved for so long that it may wait for another task: one more worker may be awake |
//!
//! # Invariants
//!
//! - A worker that waits for a core never counts as stuck.
//! - More workers than cores may be awake only while tasks wait and workers have retired. Their number doubles at each
//!   look at which no worker moves, and halves afterwards.
//! - A program that a cgroup quota throttles could use at most the time that the quota grants.
//! - The times for which workers waited are used only if all workers were queried at this look and at the previous
//!   one. Otherwise the program is presumed to use the cores that it holds.
//! - The time of workers that have ended counts too. A program that builds a pool for each step spends all of its
//!   time in such workers.
//!
//! On threads, querying the system for a worker's times is expensive, so it is done only if the result may change a
//! decision. A driver's methods are called in the order of their cost. Times are in nanoseconds.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use comity_policy::{Account, Mode, Room, WorkerId};

use crate::program::{Pools, Sample, Spent, Staff, Status, Times};
use crate::steal_time::StealClock;

/// The number of successive looks without progress after which a worker with a task counts as stuck: it may wait for
/// another task. The second number counts looks at which no worker of the pool has moved. The papers' policies have
/// the longer limits below.
const STUCK_AFTER: [u32; 2] = [3, 2];
const STUCK_AFTER_LONG: [u32; 2] = [100, 100];

/// The divisor for blocked time. If a tenth of a quantum was blocked, tasks do block, and no more workers are
/// queried.
const MUCH_BLOCKED: u64 = 10;

/// The divisor for little use. If a program used less than this part of its share, and of one core, its workers are
/// not queried.
const LITTLE: u64 = 10;

/// The idle time of the machine's cores between two looks that both read it.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdleClock {
    /// The idle time at the last look, in ns, if it was read.
    last: Option<u64>,
}

impl IdleClock {
    /// Returns the idle time since the last look, in ns, or 0 if it was not read at both looks. `now` is the machine's
    /// idle time since it started.
    pub fn look(&mut self, now: Option<u64>) -> u64 {
        let last = core::mem::replace(&mut self.last, now);
        now.zip(last).map_or(0, |(now, last)| now.saturating_sub(last))
    }
}

/// The rules under which the program got processor time since the last look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Basis {
    pub(crate) mode: Mode,
    pub(crate) room: Room,
    pub(crate) share_milli: u32,
    /// The number of cores that the program held when the quantum began, if other programs want cores.
    pub(crate) allotment: Option<u32>,
}

/// The observations of the last look.
pub(crate) struct Observer {
    pools: BTreeMap<u64, PoolObservations>,
    clock_ns: u64,
    held_ns: u64,
    busy_ns: u64,
    /// The times of ended workers that are already in an account.
    ended: Times,
    first_thread: Option<Times>,
    idle_clock: IdleClock,
    steal_clock: StealClock,
}

/// The observations of a pool's workers at the previous look.
struct PoolObservations {
    workers: Vec<One>,
    /// The number of additional workers that may be awake, because other workers make no progress.
    relief: u32,
    /// The number of successive looks at which no worker moved.
    still: u32,
}

#[derive(Clone, Copy, Default)]
struct One {
    sample: Sample,
    times: Option<Times>,
    /// The number of successive looks at which the worker had not moved.
    unmoved: u32,
}

/// The sums over all workers at one look.
#[derive(Default)]
struct Sums {
    lasted: u64,
    asks: bool,
    /// True if other programs want cores and the program has more workers awake than it holds cores.
    is_crowd: bool,
    /// The time that workers with a task were off their cores without waiting for one.
    blocked_ns: u64,
    /// The time that the queried workers ran on cores. The field below it is the time that they could have used.
    on_core_ns: u64,
    able_ns: u64,
    /// The time that the queried workers and the program's first thread waited for a core.
    for_core_ns: u64,
    /// True if a worker was queried for the first time.
    is_partial: bool,
    unmoved: u32,
}

impl Observer {
    /// Makes the observer of a process that has used `clock_ns` of processor time.
    pub(crate) fn new(clock_ns: u64) -> Observer {
        Observer {
            pools: BTreeMap::new(),
            clock_ns,
            held_ns: 0,
            busy_ns: 0,
            ended: Times::default(),
            first_thread: None,
            idle_clock: IdleClock::default(),
            steal_clock: StealClock::default(),
        }
    }

    /// Returns the total time for which workers had a task, as of the last look.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// Returns the account of the pools since the previous look, which was `lasted` ago, without the values from the
    /// table.
    pub(crate) fn look<P: Pools>(&mut self, pools: &mut P, basis: Basis, lasted: u64) -> Account {
        let Spent { held_ns: held, clock_ns: clock, granted_ns, ended } = pools.spent(lasted);
        let held_ns = held - core::mem::replace(&mut self.held_ns, held);
        let used_ns = clock.saturating_sub(core::mem::replace(&mut self.clock_ns, clock));
        // Workers that have ended may have used little time because they waited for a core.
        let had_ns = used_ns + ended.for_core.saturating_sub(self.ended.for_core);
        let asks = asks(basis, [used_ns, had_ns], held_ns, lasted);
        let leaves_some = basis.mode == Mode::Cores && used_ns < held_ns;
        let idle_ns = self.idle_clock.look(if leaves_some { pools.idle_ns() } else { None });
        let steal = self.steal_clock.look(lasted, || pools.stolen());
        // While the program holds cores, the first thread's times are read at each look, because the next look may
        // need them.
        let first_thread = if asks || basis.mode == Mode::Cores { pools.first_thread() } else { None };
        let before = core::mem::replace(&mut self.first_thread, first_thread);
        let waited = first_thread.zip(before).filter(|_| asks).map_or(0, |(now, then)| {
            let gap = lasted.saturating_sub(now.sum().saturating_sub(then.sum()));
            let waits_still = gap * 8 > lasted && pools.first_thread_is_blocked() == Some(false);
            now.for_core.saturating_sub(then.for_core) + if waits_still { gap } else { 0 }
        });
        let may_crowd = basis.mode == Mode::Cores && basis.room == Room::Workers;
        let is_crowd = basis.allotment.filter(|_| may_crowd).is_some_and(|cores| pools.awake() > cores.max(1));
        let mut sums = Sums { lasted, asks, is_crowd, for_core_ns: waited.min(lasted), ..Sums::default() };
        let mut account = Account { elapsed_ns: lasted, used_ns, held_ns, idle_ns, steal, ..Account::default() };
        let mut before = core::mem::take(&mut self.pools);
        for nth in 0..pools.staffs() {
            let id = pools.id(nth);
            let mut pool = pools.staff(nth);
            pool.note_losses();
            let status = pool.status();
            let mut seen = before.remove(&id).unwrap_or_else(|| PoolObservations::new(status.workers, lasted > 0));
            let off_core = sums.look(&pool, status, &mut seen);
            pool.set_off_core(off_core);
            self.pools.insert(id, seen);
            account.workers += status.workers;
            account.awake += status.awake;
            account.retired += status.retired;
            account.blocked += off_core;
            account.queued = account.queued.saturating_add(status.queued.try_into().unwrap_or(u32::MAX));
        }
        let busy = pools.busy_ns();
        account.usage_ns = busy.saturating_sub(core::mem::replace(&mut self.busy_ns, busy));
        sums.look_back(before.into_values(), ended, &mut self.ended);
        (account.unmoved, account.blocked_ns) = (sums.unmoved, sums.blocked_ns);
        // The value to use if the workers are not queried.
        let presumed_ns = if basis.mode == Mode::Cores { used_ns.max(held_ns) } else { used_ns };
        (account.able_ns, account.wanted_ns) = sums.could_use(used_ns, presumed_ns, granted_ns);
        account
    }
}

/// True if the workers should be queried, because what they waited for could change the policy's decision. `had_ns` is
/// the time that the program used, plus the time that ended workers waited for a core.
fn asks(Basis { mode, room, share_milli, .. }: Basis, [used_ns, had_ns]: [u64; 2], held_ns: u64, lasted: u64) -> bool {
    let share_ns = lasted * u64::from(share_milli) / 1000;
    match mode {
        // With so little room, the policy does not use the result.
        Mode::Time if room == Room::One => false,
        Mode::Time => had_ns > share_ns.min(lasted) / LITTLE && used_ns < share_ns,
        Mode::Cores => used_ns < held_ns || held_ns < share_ns / 2,
    }
}

impl PoolObservations {
    /// Makes the record of a pool that is seen for the first time. `has_just_begun`: its threads began after the
    /// previous look.
    fn new(workers: u32, has_just_begun: bool) -> PoolObservations {
        let one = One { times: has_just_begun.then(Times::default), ..One::default() };
        PoolObservations { workers: vec![one; workers as usize], relief: 0, still: 0 }
    }
}

impl Sums {
    /// Looks at a pool's workers. Returns how many awake workers need no core: the maximum of the time that workers
    /// with a task were in system calls, in units of the quantum, and the additional workers allowed because others
    /// make no progress.
    fn look(&mut self, pool: &impl Staff, status: Status, seen: &mut PoolObservations) -> u32 {
        let Status { awake, retired, queued, most, lends, .. } = status;
        let counts_blocked = retired > 0 || awake > most;
        let asks_if_blocked = lends && self.is_crowd;
        let is_new = self.lasted == 0;
        let [stuck_after, still_after] = if lends { STUCK_AFTER } else { STUCK_AFTER_LONG };
        let (mut blocked_ns, mut unmoved, mut stuck, mut busy) = (0, 0, 0, 0);
        for (worker, one) in (0..).map(WorkerId).zip(&mut seen.workers) {
            let before = *one;
            *one = One { sample: pool.sample(worker), times: None, unmoved: 0 };
            let is_awake = one.sample.is_awake;
            let asks_if_blocked = asks_if_blocked && is_awake && self.blocked_ns * MUCH_BLOCKED < self.lasted;
            if self.asks || (counts_blocked && is_awake) || asks_if_blocked {
                one.times = pool.times(worker);
                let gap = one.gap(&before);
                let most_gaps = if asks_if_blocked { 50 } else { 8 };
                let is_blocked = if is_awake && gap * most_gaps > self.lasted { pool.is_blocked(worker) } else { None };
                // The system counts a wait for a core only when the wait is over.
                let waits_still = if is_blocked == Some(false) { gap } else { 0 };
                self.ask(&before, one, waits_still);
                if counts_blocked && is_blocked == Some(true) {
                    blocked_ns += gap;
                }
                if asks_if_blocked && is_blocked == Some(true) {
                    self.blocked_ns += gap;
                }
            }
            let is_busy = one.sample.is_busy;
            let has_not_moved =
                is_busy && before.sample.is_busy && one.sample.progress == before.sample.progress && !is_new;
            if has_not_moved && one.waits_for_a_core(&before, || pool.is_blocked(worker)) {
                one.unmoved = before.unmoved;
                continue;
            }
            busy += u32::from(is_busy);
            if has_not_moved {
                one.unmoved = before.unmoved + 1;
                unmoved += 1;
                stuck += u32::from(one.unmoved >= stuck_after);
            }
        }
        self.unmoved += unmoved;
        if is_new {
            return 0;
        }
        let waits = queued > 0 && retired > 0;
        let is_still = waits && busy > 0 && unmoved == busy;
        seen.still = if is_still { seen.still + 1 } else { 0 };
        // A surplus worker takes no time from other programs, because it runs on this program's cores.
        seen.relief = match seen.still {
            _ if !waits => seen.relief / 2,
            still if still >= still_after => (2 * seen.relief).max(busy),
            _ => (seen.relief / 2).max(stuck),
        };
        seen.relief = seen.relief.min(awake.saturating_add(retired));
        let blocked = (blocked_ns + self.lasted / 2) / self.lasted;
        seen.relief.max(u32::try_from(blocked).unwrap_or(u32::MAX))
    }

    /// Adds the times of a worker. `waits_still` is the time that it has waited for a core in a wait that is not over.
    fn ask(&mut self, before: &One, now: &One, waits_still: u64) {
        let (Some(then), Some(times)) = (before.times, now.times) else {
            self.is_partial |= now.times.is_some();
            return;
        };
        let on_core = times.on_core.saturating_sub(then.on_core);
        let for_core = (times.for_core.saturating_sub(then.for_core) + waits_still).min(self.lasted);
        self.on_core_ns += on_core;
        self.for_core_ns += for_core;
        self.able_ns += able(on_core, for_core, self.lasted);
    }

    /// Counts the time of workers whose pools have ended since the previous look. `gone`: the ended pools as the
    /// previous look saw them. `known`: the times of ended workers that are in earlier accounts.
    fn look_back(&mut self, gone: impl Iterator<Item = PoolObservations>, ended: Times, known: &mut Times) {
        let mut are_known = true;
        for one in gone.flat_map(|pool| pool.workers) {
            match one.times {
                Some(times) => known.add(times),
                None => are_known = false,
            }
        }
        // A worker that has not ended yet is counted at a later look.
        let on_core = ended.on_core.saturating_sub(known.on_core);
        let for_core = ended.for_core.saturating_sub(known.for_core);
        known.on_core += on_core;
        known.for_core += for_core;
        if self.asks && are_known {
            self.on_core_ns += on_core;
            self.for_core_ns += for_core;
            self.able_ns += on_core + for_core;
        }
        self.is_partial |= self.asks && !are_known;
    }

    /// Returns the time that the program could have used, and the time that its threads had or waited for.
    fn could_use(&self, used_ns: u64, presumed_ns: u64, granted_ns: Option<u64>) -> (u64, u64) {
        if let Some(granted_ns) = granted_ns {
            // The grant limits the processor time of the process, on any number of cores.
            let most = used_ns.min(granted_ns);
            return (most, most);
        }
        // Threads that are not workers could have used the time that they used.
        let asked = used_ns.saturating_sub(self.on_core_ns) + self.able_ns;
        let able_ns = if self.asks && !self.is_partial { asked.max(used_ns) } else { presumed_ns };
        (able_ns, able_ns.max(used_ns + self.for_core_ns))
    }
}

impl One {
    /// Returns the time for which the worker had a task and neither ran nor waited for a core.
    fn gap(&self, before: &One) -> u64 {
        let (Some(then), Some(times)) = (before.times, self.times) else { return 0 };
        let busy = self.sample.busy_ns.saturating_sub(before.sample.busy_ns);
        busy.saturating_sub(times.sum().saturating_sub(then.sum()))
    }

    /// True if the worker did not run since the previous look because it waits for a core. Then it cannot have made
    /// progress.
    fn waits_for_a_core(&self, before: &One, is_blocked: impl FnOnce() -> Option<bool>) -> bool {
        let had_none = self.sample.clock_ns.is_some() && self.sample.clock_ns == before.sample.clock_ns;
        had_none && is_blocked() == Some(false)
    }
}

/// Returns the time that a thread could have used if it ran `on_core` and waited `for_core`. Assumes that it blocks
/// for the same part of the time in which it does not wait for a core.
fn able(on_core: u64, for_core: u64, lasted: u64) -> u64 {
    let left = lasted.saturating_sub(for_core);
    if left < on_core.max(lasted / 20) {
        return lasted;
    }
    let scaled = u128::from(on_core) * u128::from(lasted) / u128::from(left.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX).min(lasted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_core_is_no_wait_that_the_program_wants() {
        const MS: u64 = 1_000_000;
        let able = |on_core: u64, for_core: u64, lasted: u64| able(on_core * MS, for_core * MS, lasted * MS) / MS;
        // The thread computed whenever it had a core.
        assert_eq!([able(5, 5, 10), able(0, 10, 10), able(3, 40, 10)], [10; 3]);
        // The thread blocked for three quarters of the time, or of the time in which it did not wait for a core.
        assert_eq!([able(2, 0, 8), able(1, 4, 8), able(0, 0, 8)], [2, 2, 0]);
    }

    #[test]
    fn the_time_of_workers_that_have_ended_counts_once() {
        let times = |on_core, for_core| Times { on_core, for_core };
        let pool = |times| PoolObservations { workers: vec![One { times, ..One::default() }], relief: 0, still: 0 };
        let mut known = times(0, 0);
        let mut look_back = |gone: Vec<PoolObservations>, ended| {
            let mut sums = Sums { lasted: 100, asks: true, ..Sums::default() };
            sums.look_back(gone.into_iter(), ended, &mut known);
            (sums.on_core_ns, sums.for_core_ns, sums.able_ns, sums.is_partial)
        };
        // A pool was made and ended between two looks.
        assert_eq!(look_back(vec![], times(10, 30)), (10, 30, 40, false));
        assert_eq!(look_back(vec![], times(10, 30)), (0, 0, 0, false));
        // An earlier look has counted a part of this worker's time. The worker ends after its pool.
        assert_eq!(look_back(vec![pool(Some(times(20, 5)))], times(10, 30)), (0, 0, 0, false));
        assert_eq!(look_back(vec![], times(35, 36)), (5, 1, 6, false));
        // The earlier time of this worker is unknown, so its time since then is unknown too.
        assert_eq!(look_back(vec![pool(None)], times(99, 99)), (0, 0, 0, true));
        assert_eq!(look_back(vec![], times(100, 99)), (1, 0, 1, false));
    }

    #[test]
    fn idle_time_counts_from_the_look_that_asked() {
        let mut clock = IdleClock::default();
        let looks = [Some(5), Some(9), None, Some(30), Some(31)].map(|now| clock.look(now));
        assert_eq!(looks, [0, 4, 0, 0, 1]);
    }
}
