//! What the coordinator sees of the workers at a look, as the runtime's `observer.rs` does: who waits, for a core or for something else,
//! and what the program could use.

use comity_policy::{Mode, Room, Sleeper};

use super::Host;
use super::kernel::{Place, Times};
use super::pool::Pool;
use super::share::{Share, State};
use super::worker::Worker;

/// Looks in succession at which a worker with a task has neither begun nor pushed anything, after which it may be waiting for what
/// another task would do; and the same where no worker of the pool has. The papers' programs are left alone for long.
const STUCK_AFTER: [u32; 2] = [3, 2];
const STUCK_AFTER_LONG: [u32; 2] = [100, 100];

/// Below this part of its share a program need not be asked what it could use.
const LITTLE: u64 = 10;

/// What was seen a look ago.
#[derive(Default)]
pub(super) struct Observer {
    workers: Vec<One>,
    /// Time on cores of all workers, and time that cores were held.
    used_ns: u64,
    held_ns: u64,
    /// Time that the machine's cores had nothing to run.
    idled: u64,
    /// Workers that were let in beside those that do not move.
    relief: u32,
    /// Looks in succession at which nothing moved.
    still: u32,
}

#[derive(Clone, Copy, Default)]
struct One {
    /// Nanoseconds in which it had a task.
    busy_ns: u64,
    /// If it was asked.
    times: Option<Times>,
    /// Its processor time.
    on_core: u64,
    /// What changes when it begins or pushes something, or another takes something from it.
    progress: (usize, u64),
    /// Whether it had a task and was awake.
    was_busy: bool,
    /// Looks in succession at which it had not moved.
    unmoved: u32,
}

/// What is seen at one look.
#[derive(Clone, Copy, Default)]
pub(super) struct Observed {
    /// See [`Account`](comity_policy::Account).
    pub(super) used_ns: u64,
    pub(super) able_ns: u64,
    pub(super) wanted_ns: u64,
    pub(super) held_ns: u64,
    pub(super) idle_ns: u64,
    pub(super) unmoved: u32,
    /// Workers that count as awake and need no core, or wait for what others would do.
    pub(super) off_core: u32,
}

/// What is added up over the workers.
#[derive(Default)]
struct Sums {
    /// Time on cores of those that were asked, and what they could have had.
    on_core_ns: u64,
    able_ns: u64,
    /// What they waited for a core.
    for_core_ns: u64,
    /// Some worker was asked for the first time.
    is_partial: bool,
    blocked_ns: u64,
    busy: u32,
    unmoved: u32,
    stuck: u32,
}

impl Host {
    /// Looks at a program's workers.
    pub(super) fn observe(&mut self, program: u32) -> Observed {
        let (now, idled) = (self.now, self.idled);
        let Some(share) = self.share_mut(program) else { return Observed::default() };
        let mut observer = std::mem::take(&mut share.observer);
        let pool = self.pool(program);
        let observed = pool.share.as_ref().map(|share| observer.look(pool, share, idled, now));
        if let Some(share) = self.share_mut(program) {
            share.observer = observer;
        }
        observed.unwrap_or_default()
    }
}

impl Observer {
    fn look(&mut self, pool: &Pool, share: &Share, idled: u64, now: u64) -> Observed {
        let lasted = now - share.looked;
        self.workers.resize(pool.workers.len(), One::default());
        let (used, held) = (pool.spent().total(), share.held_time(now));
        let used_ns = used - std::mem::replace(&mut self.used_ns, used);
        let held_ns = held - std::mem::replace(&mut self.held_ns, held);
        let idled = idled - std::mem::replace(&mut self.idled, idled);
        let idle_ns = if share.mode == Mode::Cores && used_ns < held_ns { idled } else { 0 };
        let share_ns = lasted * u64::from(share.share_milli) / 1000;
        // On threads each worker costs 6 µs, so they are asked only where the answer may change something.
        let asks = match share.mode {
            // In a crowd nothing follows from it.
            Mode::Time if share.room == Room::One => false,
            Mode::Time => used_ns > share_ns / LITTLE && used_ns < share_ns,
            Mode::Cores => used_ns < held_ns || held_ns < share_ns / 2,
        };
        let sums = self.ask(pool, share, asks, now);
        // What is known if the workers are not asked.
        let presumed_ns = if share.mode == Mode::Cores { used_ns.max(held_ns) } else { used_ns };
        let asked_ns = (used_ns.saturating_sub(sums.on_core_ns) + sums.able_ns).max(used_ns);
        let able_ns = if asks && !sums.is_partial { asked_ns } else { presumed_ns };
        let off_core = if lasted == 0 { 0 } else { self.off_core(pool, &sums, lasted) };
        let wanted_ns = able_ns.max(used_ns + sums.for_core_ns);
        // A quota that stops the program says what it can use, however fast it does.
        let most = pool.quota.as_ref().and_then(|quota| quota.most(lasted, now)).map(|most| most.min(used_ns));
        let (able_ns, wanted_ns) = most.map_or((able_ns, wanted_ns), |most| (most, most));
        Observed { used_ns, able_ns, wanted_ns, held_ns, idle_ns, unmoved: sums.unmoved, off_core }
    }

    /// Where the workers' time went, and which of them move.
    fn ask(&mut self, pool: &Pool, share: &Share, asks: bool, now: u64) -> Sums {
        let lasted = now - share.looked;
        let [awake, _, retired] = pool.in_books;
        let counts_blocked = retired > 0 || awake > share.most;
        let mut sums = Sums::default();
        for (worker, one) in pool.workers.iter().zip(&mut self.workers) {
            let is_awake = worker.state == State::Awake;
            let before = std::mem::replace(one, One::of(worker, is_awake, now));
            if asks || (counts_blocked && is_awake) {
                one.times = Some(worker.times);
                let gap = one.gap(&before);
                let is_off = is_awake && gap * 8 > lasted;
                let is_blocked = worker.place == Place::Blocked;
                // A wait for a core that is not over is in no account yet.
                let waits_still = is_off && !is_blocked && worker.place != Place::Throttled;
                sums.add(&before, one, if waits_still { gap } else { 0 }, lasted);
                if is_off && counts_blocked && is_blocked {
                    sums.blocked_ns += gap;
                }
            }
            let has_not_moved = one.was_busy && before.was_busy && one.progress == before.progress && lasted > 0;
            // It is no wonder that one has not moved that got no core.
            if has_not_moved && one.on_core == before.on_core && worker.place != Place::Blocked {
                one.unmoved = before.unmoved;
                continue;
            }
            sums.busy += u32::from(one.was_busy);
            if has_not_moved {
                one.unmoved = before.unmoved + 1;
                sums.unmoved += 1;
                sums.stuck += u32::from(one.unmoved >= stuck_after(share)[0]);
            }
        }
        sums
    }

    /// As many as the time makes up that workers spent in system calls with a task in hand, and those that do not move.
    fn off_core(&mut self, pool: &Pool, sums: &Sums, lasted: u64) -> u32 {
        let [awake, _, retired] = pool.in_books;
        let waits = pool.waiting() > 0 && retired > 0;
        let is_still = waits && sums.busy > 0 && sums.unmoved == sums.busy;
        self.still = if is_still { self.still + 1 } else { 0 };
        let still_after = pool.share.as_ref().map_or(STUCK_AFTER, stuck_after)[1];
        // One worker too many takes nothing from other programs: it runs on this one's cores.
        self.relief = match self.still {
            _ if !waits => self.relief / 2,
            still if still >= still_after => (2 * self.relief).max(sums.busy),
            _ => (self.relief / 2).max(sums.stuck),
        };
        self.relief = self.relief.min(awake + retired);
        let blocked = (sums.blocked_ns + lasted / 2) / lasted;
        self.relief.max(blocked as u32)
    }
}

impl Sums {
    /// Adds where a worker's time went, of which it `waits_still` for a core.
    fn add(&mut self, before: &One, now: &One, waits_still: u64, lasted: u64) {
        let (Some(then), Some(times)) = (before.times, now.times) else {
            self.is_partial |= now.times.is_some();
            return;
        };
        let on_core = times.on_core - then.on_core;
        let for_core = (times.for_core - then.for_core + waits_still).min(lasted);
        self.on_core_ns += on_core;
        self.for_core_ns += for_core;
        self.able_ns += able(on_core, for_core, lasted);
    }
}

impl One {
    fn of(worker: &Worker, is_awake: bool, now: u64) -> One {
        let progress = (worker.ready.len(), worker.begun);
        let was_busy = is_awake && worker.is_busy();
        let on_core = worker.times.on_core;
        One { busy_ns: worker.busy_time(now), times: None, on_core, progress, was_busy, unmoved: 0 }
    }

    /// What the worker spent with a task in hand, neither on a core nor after a wait for one.
    fn gap(&self, before: &One) -> u64 {
        let (Some(then), Some(times)) = (before.times, self.times) else { return 0 };
        let waited = times.on_core - then.on_core + times.for_core - then.for_core;
        (self.busy_ns - before.busy_ns).saturating_sub(waited)
    }
}

fn stuck_after(share: &Share) -> [u32; 2] {
    if share.sharing.sleeper == Sleeper::LendsCore { STUCK_AFTER } else { STUCK_AFTER_LONG }
}

/// What a thread that had so much time, and waited so long for it, could have had: it blocks as often in the time that is left to it.
fn able(on_core: u64, for_core: u64, lasted: u64) -> u64 {
    let left = lasted.saturating_sub(for_core);
    if left < on_core.max(lasted / 20) {
        return lasted;
    }
    let scaled = u128::from(on_core) * u128::from(lasted) / u128::from(left.max(1));
    (scaled as u64).min(lasted)
}

#[cfg(test)]
mod tests {
    use super::able;

    #[test]
    fn a_wait_for_a_core_is_no_wait_that_the_program_wants() {
        let able =
            |on_core: u64, for_core: u64, lasted: u64| able(on_core * 1_000, for_core * 1_000, lasted * 1_000) / 1_000;
        // It computed all the time that it was let to.
        assert_eq!([able(5, 5, 10), able(0, 10, 10), able(3, 40, 10)], [10; 3]);
        // It blocked for three quarters of the time, or of that in which it did not wait for a core.
        assert_eq!([able(2, 0, 8), able(1, 4, 8), able(0, 0, 8)], [2, 2, 0]);
    }
}
