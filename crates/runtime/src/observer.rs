//! What the coordinator sees of the workers at a look: who waits, for a core or for something else, and what the program could use.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use comity_os::cpu_clock::{self, ThreadId, Times};
use comity_os::idle_clock::IdleClock;
use comity_os::throttle::Throttle;
use comity_policy::{Mode, Room, Sleeper, WorkerId};

use crate::share::{Books, Share, State};
use crate::shared::{Peer, Shared};

/// Looks in succession at which a worker with a task has neither forked nor finished anything, after which it may be waiting for
/// what another task would do; and the same where no worker of the pool has. The papers' programs are left alone for long.
const STUCK_AFTER: [u32; 2] = [3, 2];
const STUCK_AFTER_LONG: [u32; 2] = [100, 100];

/// Below this part of its share a program need not be asked what it could use.
const LITTLE: u64 = 10;

/// What was seen of a pool's workers a look ago.
pub(crate) struct Seen {
    workers: Box<[One]>,
    /// Workers that were let in beside those that do not move.
    relief: u32,
    /// Looks in succession at which nothing moved.
    still: u32,
}

#[derive(Clone, Copy, Default)]
struct One {
    /// Nanoseconds in which it had a task.
    busy_ns: u64,
    times: Option<Times>,
    /// Its processor time, if it had a task.
    clock: Option<Duration>,
    /// What changes when it forks, finishes or takes something.
    progress: (usize, u64, u64),
    /// Whether it had a task and was awake.
    was_busy: bool,
    /// Looks in succession at which it had not moved.
    unmoved: u32,
}

impl Seen {
    pub(crate) fn new(workers: u32) -> Seen {
        Seen { workers: vec![One::default(); workers as usize].into(), relief: 0, still: 0 }
    }
}

/// What was seen of all pools.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observed {
    /// See [`Account`](comity_policy::Account).
    pub(crate) used_ns: u64,
    pub(crate) able_ns: u64,
    pub(crate) wanted_ns: u64,
    pub(crate) idle_ns: u64,
    pub(crate) unmoved: u32,
}

/// Adds up what is seen at one look.
pub(crate) struct Observer {
    throttle: Throttle,
    /// A quota stops the process, and gives it so many nanoseconds in the time between the looks.
    quota_ns: Option<u64>,
    /// The process's clock at the last look.
    clock: Duration,
    lasted: Duration,
    used_ns: u64,
    /// What is known if the workers are not asked.
    presumed_ns: u64,
    asks: bool,
    /// Time on cores of the workers that were asked, and what they could have had.
    on_core_ns: u64,
    able_ns: u64,
    /// What they and the program's first thread waited for a core.
    for_core_ns: u64,
    /// The first thread's times at the last look: it may be who hands in the tasks.
    first_thread: Option<Times>,
    idle_clock: IdleClock,
    idle_ns: u64,
    /// Some worker was asked for the first time.
    is_partial: bool,
    unmoved: u32,
}

impl Observer {
    /// For a process that has used so much time.
    pub(crate) fn new(clock: Duration) -> Observer {
        Observer {
            throttle: Throttle::of(std::process::id()),
            quota_ns: None,
            clock,
            lasted: Duration::ZERO,
            used_ns: 0,
            presumed_ns: 0,
            asks: false,
            on_core_ns: 0,
            able_ns: 0,
            for_core_ns: 0,
            first_thread: None,
            idle_clock: IdleClock::default(),
            idle_ns: 0,
            is_partial: false,
            unmoved: 0,
        }
    }

    /// Begins a look after a quantum that lasted so long, in which cores were held for `held_ns`, under a quota of so many cores.
    pub(crate) fn begin(
        &mut self,
        lasted: Duration,
        (mode, room): (Mode, Room),
        held_ns: u64,
        share_milli: u32,
        quota: Option<f64>,
    ) {
        let clock = process_clock();
        let used_ns = clock.saturating_sub(std::mem::replace(&mut self.clock, clock)).as_nanos() as u64;
        let share_ns = lasted.as_nanos() as u64 * u64::from(share_milli) / 1000;
        // Each worker costs 6 µs, so they are asked only where the answer may change something.
        let asks = match mode {
            // In a crowd nothing follows from it.
            Mode::Time if room == Room::One => false,
            Mode::Time => used_ns > share_ns / LITTLE && used_ns < share_ns,
            Mode::Cores => used_ns < held_ns || held_ns < share_ns / 2,
        };
        let leaves_some = mode == Mode::Cores && used_ns < held_ns;
        self.idle_ns = self.idle_clock.look(leaves_some).as_nanos() as u64;
        let presumed_ns = if mode == Mode::Cores { used_ns.max(held_ns) } else { used_ns };
        let first_thread = if asks { ThreadId::from_raw(std::process::id() as i32).times() } else { None };
        let waited = first_thread.zip(self.first_thread).map(|(now, then)| now.for_core.saturating_sub(then.for_core));
        let for_core_ns = waited.unwrap_or_default().min(lasted).as_nanos() as u64;
        let is_throttled = self.throttle.is_active(Instant::now());
        self.quota_ns = quota.filter(|_| is_throttled).map(|cores| lasted.mul_f64(cores).as_nanos() as u64);
        (self.clock, self.lasted, self.used_ns) = (clock, lasted, used_ns);
        (self.presumed_ns, self.asks) = (presumed_ns, asks);
        (self.for_core_ns, self.first_thread) = (for_core_ns, first_thread);
        (self.on_core_ns, self.able_ns, self.is_partial, self.unmoved) = (0, 0, false, 0);
    }

    /// Looks at a pool's workers. Returns how many that count as awake need no core, or wait for what others would do: as many as the
    /// time that they spent in system calls with a task in hand makes up, and those that do not move.
    pub(crate) fn look(&mut self, pool: &Shared, share: &Share, books: &Books, queued: usize, seen: &mut Seen) -> u32 {
        let counts_blocked = books.retired() > 0 || books.awake() > share.most();
        let is_new = self.lasted.is_zero();
        let lends = share.sharing.sleeper == Sleeper::LendsCore;
        let [stuck_after, still_after] = if lends { STUCK_AFTER } else { STUCK_AFTER_LONG };
        let (mut blocked, mut unmoved, mut stuck, mut busy) = (Duration::ZERO, 0, 0, 0);
        for (nth, (peer, one)) in pool.peers.iter().zip(&mut seen.workers).enumerate() {
            let worker = WorkerId(nth as u32);
            let is_awake = books.is(worker, State::Awake);
            let before = *one;
            *one = One::of(pool, peer, is_awake && pool.sleep.is_busy(worker));
            if self.asks || (counts_blocked && is_awake) {
                let thread = peer.thread();
                one.times = thread.and_then(|thread| thread.times());
                let gap = self.gap(&before, one);
                let is_blocked =
                    if is_awake && gap * 8 > self.lasted { thread.and_then(|one| one.is_blocked()) } else { None };
                // A wait for a core that is not over is in no account yet.
                let waits_still = if is_blocked == Some(false) { gap } else { Duration::ZERO };
                self.ask(&before, one, waits_still);
                if counts_blocked && is_blocked == Some(true) {
                    blocked += gap;
                }
            }
            let has_not_moved = one.was_busy && before.was_busy && one.progress == before.progress && !is_new;
            if has_not_moved && waits_for_a_core(peer, &before, one) {
                one.unmoved = before.unmoved;
                continue;
            }
            busy += u32::from(one.was_busy);
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
        let waits = queued > 0 && books.retired() > 0;
        let is_still = waits && busy > 0 && unmoved == busy;
        seen.still = if is_still { seen.still + 1 } else { 0 };
        // One worker too many takes nothing from other programs: it runs on this one's cores.
        seen.relief = match seen.still {
            _ if !waits => seen.relief / 2,
            still if still >= still_after => (2 * seen.relief).max(busy),
            _ => (seen.relief / 2).max(stuck),
        };
        seen.relief = seen.relief.min(books.awake().saturating_add(books.retired()));
        let blocked = (blocked.as_secs_f64() / self.lasted.as_secs_f64()).round() as u32;
        blocked.max(seen.relief)
    }

    /// What a worker spent with a task in hand, neither on a core nor after a wait for one.
    fn gap(&self, before: &One, now: &One) -> Duration {
        let (Some(then), Some(times)) = (before.times, now.times) else { return Duration::ZERO };
        let busy = Duration::from_nanos(now.busy_ns.saturating_sub(before.busy_ns));
        busy.saturating_sub(times.sum().saturating_sub(then.sum()))
    }

    /// Where a worker's time went, of which it `waits_still` for a core.
    fn ask(&mut self, before: &One, now: &One, waits_still: Duration) {
        let (Some(then), Some(times)) = (before.times, now.times) else {
            self.is_partial |= now.times.is_some();
            return;
        };
        let on_core = times.on_core.saturating_sub(then.on_core);
        let for_core = (times.for_core.saturating_sub(then.for_core) + waits_still).min(self.lasted);
        self.on_core_ns += on_core.as_nanos() as u64;
        self.for_core_ns += for_core.as_nanos() as u64;
        self.able_ns += able(on_core, for_core, self.lasted).as_nanos() as u64;
    }

    pub(crate) fn end(&self) -> Observed {
        let Observer { used_ns, idle_ns, unmoved, .. } = *self;
        if let Some(quota_ns) = self.quota_ns {
            // That is what the process can use, however fast it does.
            let most = used_ns.min(quota_ns);
            return Observed { used_ns, able_ns: most, wanted_ns: most, idle_ns, unmoved };
        }
        // Threads that are no workers count as they are.
        let asked = used_ns.saturating_sub(self.on_core_ns) + self.able_ns;
        let able_ns = if self.asks && !self.is_partial { asked.max(used_ns) } else { self.presumed_ns };
        let wanted_ns = able_ns.max(used_ns + self.for_core_ns);
        Observed { used_ns, able_ns, wanted_ns, idle_ns, unmoved }
    }
}

impl One {
    fn of(pool: &Shared, peer: &Peer, was_busy: bool) -> One {
        let progress = (peer.queued(), peer.counters.steals.get(), peer.busy_since.load(Ordering::Relaxed));
        let clock = peer.thread().filter(|_| was_busy).and_then(|thread| thread.cpu_time());
        One { busy_ns: peer.busy_ns(pool.now()), times: None, clock, progress, was_busy, unmoved: 0 }
    }
}

/// Whether a worker had no time since the last look because it got no core: then it is no wonder that it has not moved.
fn waits_for_a_core(peer: &Peer, before: &One, now: &One) -> bool {
    let had_none = now.clock.is_some() && now.clock == before.clock;
    had_none && peer.thread().and_then(|thread| thread.is_blocked()) == Some(false)
}

/// What a thread that had so much time, and waited so long for it, could have had: it blocks as often in the time that is left to it.
fn able(on_core: Duration, for_core: Duration, lasted: Duration) -> Duration {
    let left = lasted.saturating_sub(for_core);
    if left <= on_core.max(lasted / 20) {
        return lasted;
    }
    on_core.mul_f64(lasted.as_secs_f64() / left.as_secs_f64()).min(lasted)
}

/// The processor time that all threads of this process have had.
pub(crate) fn process_clock() -> Duration {
    cpu_clock::of_process(std::process::id()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_core_is_no_wait_that_the_program_wants() {
        let ms = Duration::from_millis;
        // It computed all the time that it was let to.
        assert_eq!(able(ms(5), ms(5), ms(10)), ms(10));
        assert_eq!(able(ms(0), ms(10), ms(10)), ms(10));
        assert_eq!(able(ms(3), ms(40), ms(10)), ms(10));
        // It blocked for three quarters of the time.
        assert_eq!(able(ms(2), ms(0), ms(8)), ms(2));
        // It blocked for three quarters of the time in which it did not wait.
        assert_eq!(able(ms(1), ms(4), ms(8)), ms(2));
        assert_eq!(able(ms(0), ms(0), ms(8)), ms(0));
        // The first look after the program had no work, or has rested, is at no time.
        assert_eq!(able(ms(0), ms(0), ms(0)), ms(0));
    }
}
