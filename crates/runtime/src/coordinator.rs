//! The coordinator of one pool: the thread that keeps its account with the core table (DWS §3.3).
//!
//! While the pool has work it comes by once each quantum, asks the policy's [`Coordinator`] what to do, and does it; where the
//! policy lends cores it also comes when its bell is rung, because a core was taken back or became free. A pool that has had no
//! work for a quantum holds no core, reports no desire, and its coordinator sleeps until a worker wakes.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use comity_os::cpu_clock::Times;
use comity_os::fork;
use comity_policy::{Account, Claims, Coordinator, Orders, WorkerId};
use comity_table::{Location, Member, Profile, STOPPED_AFTER, draw_program};

use crate::share::{Books, Share, State};
use crate::shared::{Shared, View};
use crate::sleep::Work as _;

/// Processor time after which a worker that runs a task and neither forks nor finishes anything, while others wait, may be
/// waiting for one of them by looking: another is recalled, core or no core. Where that takes nothing from another program, half
/// a quantum is enough.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// Starts the coordinator of a pool whose threads are there. It ends with the pool.
pub(crate) fn start(pool: &Arc<Shared>, weight: u32) -> Option<JoinHandle<()>> {
    pool.share.as_ref()?;
    let location = Location::from_environment()?;
    let shared = Arc::clone(pool);
    let started = fork::spawn(thread::Builder::new().name("comity-share".to_owned()), move || {
        let share = shared.share.as_ref().expect("it was there");
        match Member::join(&location, &profile(&shared, share, weight)) {
            Ok(member) => Coordination::new(&shared, share, share.enter(member)).run(),
            Err(error) => {
                say_once(&error.to_string());
                // It is not to end at the moment in which the pool's handle lets it go: see there.
                while let heard = share.heard()
                    && !shared.has_ended()
                {
                    share.wait(heard);
                }
            }
        }
    });
    started.inspect_err(|error| say_once(&format!("gets no coordinator, for there is no thread: {error}"))).ok()
}

/// Sharing is a courtesy: without it a program goes on as it would have without Comity.
fn say_once(what: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        let line = format!("comity: {what}; this program goes on without sharing cores\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

fn profile(shared: &Shared, share: &Share, weight: u32) -> Profile {
    let name = std::env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    Profile {
        program: this_program(),
        name: name.unwrap_or_default(),
        policy: shared.policy.to_string(),
        weight,
        workers: shared.workers(),
        may_use: share.may_use,
    }
}

/// The number of this process; 0: not drawn yet. No lock, which a fork might leave locked.
static PROGRAM: AtomicU64 = AtomicU64::new(0);

/// All pools of a process are one program.
fn this_program() -> u64 {
    let drawn = draw_program().max(1);
    let before = PROGRAM.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed);
    before.map_or_else(|program| program, |_| drawn)
}

/// Runs in each forked child: it is another program, and draws a number of its own.
pub(crate) fn in_child() {
    PROGRAM.store(0, Ordering::Relaxed);
}

/// What a worker looked like a quantum ago.
#[derive(Clone, Copy)]
struct Seen {
    /// Nanoseconds in which it had a task.
    busy_ns: u64,
    times: Times,
    /// What changes when it forks, finishes or takes something.
    progress: (usize, u64, u64),
    /// Its time on a core when that last changed.
    since: Duration,
}

struct Coordination<'a> {
    shared: &'a Shared,
    share: &'a Share,
    member: &'a Member,
    policy: Box<dyn Coordinator>,
    desire: u32,
    seen: Box<[Option<Seen>]>,
    /// Busy time of all workers at the end of the last quantum, in nanoseconds.
    busy_ns: u64,
    /// Cores that were allotted for the quantum that runs.
    allotment: u32,
}

impl<'a> Coordination<'a> {
    fn new(shared: &'a Shared, share: &'a Share, member: &'a Member) -> Coordination<'a> {
        Coordination {
            shared,
            share,
            member,
            policy: shared.policy.coordinator().expect("a policy that shares cores has one"),
            desire: 0,
            seen: vec![None; shared.peers.len()].into(),
            busy_ns: 0,
            allotment: 0,
        }
    }

    fn run(mut self) {
        loop {
            // Before the look: whoever ends the pool says so first, and pokes then.
            let heard = self.share.heard();
            if self.shared.has_ended() {
                break;
            }
            self.share.dormant.store(true, Ordering::SeqCst);
            if self.has_work() {
                self.share.dormant.store(false, Ordering::SeqCst);
                self.serve();
            } else {
                self.share.wait(heard);
            }
        }
    }

    fn view(&self) -> View<'a> {
        View { shared: self.shared, awaited: &|| false }
    }

    /// Whether anybody is awake, or should be.
    fn has_work(&self) -> bool {
        self.share.books().awake() > 0 || self.shared.queued() > 0
    }

    /// Time that all workers together have had a task.
    fn total_busy_ns(&self, books: &Books) -> u64 {
        let now = self.shared.now();
        books.workers().map(|worker| self.shared.peer(worker).busy_ns(now)).sum()
    }

    /// Comes by until the pool has ended, or had no work for a quantum.
    fn serve(&mut self) {
        let mut began = Instant::now();
        let mut next = began + self.quantum(Duration::ZERO, true);
        loop {
            let heard = self.member.bell();
            if self.shared.has_ended() {
                break;
            }
            let now = Instant::now();
            if now >= next {
                if !self.has_work() && self.busy_ns == self.total_busy_ns(&self.share.books()) {
                    break;
                }
                let due = self.quantum(now - began, false);
                // Without work the next look may be the last, and until then others leave this pool a share. After a long
                // preemption there is nothing to catch up with.
                next = now + if self.has_work() { due } else { due.min(self.share.quantum) };
                began = now;
            } else if self.rung() {
                next = next.min(now + self.share.quantum);
            }
            self.member.wait(heard, next.saturating_duration_since(Instant::now()));
        }
        self.member.want(false);
        self.desire = 0;
        let mut books = self.share.books();
        self.member.round(0, books.awake());
        while books.awake() == 0 && self.share.release(&mut books, self.member, None) {}
        self.share.set_alone(true);
        self.share.balance(&mut books, &self.view());
    }

    /// One quantum is over, which lasted so long. Returns after how long to come again.
    fn quantum(&mut self, lasted: Duration, first: bool) -> Duration {
        let (shared, share, member) = (self.shared, self.share, self.member);
        let queued = shared.queued();
        let mut books = share.books();
        share.note_losses(&mut books, member);
        books.off_core = self.off_core(&books, lasted);
        let standing = member.round(self.desire, books.awake());

        let busy_ns = self.total_busy_ns(&books);
        let account = Account {
            first,
            workers: shared.workers(),
            awake: books.awake(),
            retired: books.retired(),
            blocked: books.off_core,
            queued: queued.try_into().unwrap_or(u32::MAX),
            usable: share.most,
            owned: standing.owned,
            held: standing.held,
            free: standing.free,
            own_free: standing.own_free,
            lent: standing.lent,
            usage_ns: busy_ns.saturating_sub(self.busy_ns),
            allotted_ns: lasted.as_nanos() as u64 * u64::from(self.allotment),
            allotment: self.allotment,
        };
        self.busy_ns = busy_ns;
        let Orders { desire, cores, due } = self.policy.quantum(&account);
        let standing = if desire == self.desire { standing } else { member.round(desire, books.awake()) };
        self.desire = desire;
        share.set_alone(standing.alone);
        match cores {
            Claims::Owned => self.hold_what_is_owned(&mut books),
            Claims::More { free, own_only, back } => {
                (0..free).take_while(|_| share.claim(&mut books, member, own_only)).for_each(drop);
                (0..back).take_while(|_| share.take_back(&mut books, member)).for_each(drop);
            }
        }
        self.allotment = books.held();
        if books.retired() > 0 {
            // A loop splits only as far as somebody asks: it shows at the next look how many tasks it has.
            self.view().ring_bells();
        }
        share.employ(&mut books, &self.view(), queued);
        // Whoever comes by less often counts as stopped.
        (share.quantum * u32::from(due.max(1))).min(STOPPED_AFTER / 2)
    }

    fn hold_what_is_owned(&self, books: &mut Books) {
        let (share, member) = (self.share, self.member);
        let owned = member.owned();
        for core in member.held().iter().filter(|core| !owned.contains(*core)) {
            share.release(books, member, Some(core));
        }
        // Bounded, for what somebody else writes into the table is without end.
        (0..share.most).take_while(|_| share.claim(books, member, true)).for_each(drop);
        (0..share.most).take_while(|_| share.take_back(books, member)).for_each(drop);
    }

    /// A core was taken back, or there is one to be had. True: some were taken back.
    fn rung(&self) -> bool {
        let mut books = self.share.books();
        self.share.rung(&mut books, &self.view(), self.shared.queued())
    }

    /// How many workers that count as awake needed no core in the last quantum, while there were more of them than cores, or
    /// others rested for want of one: as many as the time that they spent in system calls with a task in hand makes up, and
    /// those that seem to wait for others by looking.
    fn off_core(&mut self, books: &Books, lasted: Duration) -> u32 {
        if lasted.is_zero() || (books.retired() == 0 && books.awake() <= self.share.most) {
            self.seen.fill(None);
            return 0;
        }
        let stuck_after = if self.share.is_alone() { self.share.quantum / 2 } else { STUCK_AFTER };
        let (mut blocked, mut stuck) = (Duration::ZERO, 0);
        for (nth, (peer, seen)) in self.shared.peers.iter().zip(&mut self.seen).enumerate() {
            let worker = WorkerId(nth as u32);
            let thread = peer.thread().filter(|_| books.is(worker, State::Awake));
            let times = thread.and_then(|thread| thread.times());
            let before = seen.take();
            let Some(times) = times else { continue };
            let busy_ns = peer.busy_ns(self.shared.now());
            let progress = (peer.queued(), peer.counters.steals.get(), peer.busy_since.load(Ordering::Relaxed));
            let mut since = times.on_core;
            if let Some(before) = before {
                let busy = Duration::from_nanos(busy_ns.saturating_sub(before.busy_ns));
                let gap = busy.saturating_sub(times.sum().saturating_sub(before.times.sum()));
                // Else it may be waiting for a core, and has since long ago.
                if gap * 8 > lasted && thread.and_then(|thread| thread.is_blocked()) == Some(true) {
                    blocked += gap;
                }
                if progress == before.progress && self.shared.sleep.is_busy(worker) {
                    since = before.since;
                    stuck += u32::from(times.on_core.saturating_sub(since) >= stuck_after);
                }
            }
            *seen = Some(Seen { busy_ns, times, progress, since });
        }
        let blocked = (blocked.as_secs_f64() / lasted.as_secs_f64()).round() as u32;
        blocked.saturating_add(stuck).min(books.awake())
    }
}
