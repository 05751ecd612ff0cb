//! Which workers of a program have a core: what the runtime's `share.rs` does, where no worker is interrupted between two steps.

use comity_policy::{Coordinator, Mode, Placement, Room, Sharing, Sleeper, WorkerId};
use comity_protocol::{CoreSet, SlotId};

use super::observer::Observer;
use super::{Host, Thread};

/// What a worker is, as the books have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Awake,
    Asleep,
    Retired,
}

/// A program's place in the table.
pub(super) struct Share {
    pub(super) sharing: Sharing,
    pub(super) coordinator: Box<dyn Coordinator>,
    /// Nanoseconds.
    pub(super) quantum: u64,
    pub(super) slot: SlotId,
    /// The most cores that it can use.
    pub(super) most: u32,
    /// No other program holds cores or wants some.
    pub(super) alone: bool,
    /// Whether it holds cores at all.
    pub(super) mode: Mode,
    /// How many workers may be awake while the number of held cores does not say.
    pub(super) room: Room,
    /// What it is entitled to, as the last look had it.
    pub(super) share_milli: u32,
    /// Awake workers that are blocked, or do not move: they need no core.
    pub(super) off_core: u32,
    pub(super) observer: Observer,
    /// Programs in the table when it looked for the last time.
    pub(super) population: usize,
    /// It has looked for the first time.
    pub(super) entered: bool,
    /// The cores that it holds, as far as it knows.
    pub(super) known: CoreSet,
    /// Nanoseconds that it held them, summed over the cores, up to a time.
    held_time: (u64, u64),
    /// More workers are awake than there is room for.
    pub(super) excess: bool,
    pub(super) desire: u32,
    /// At the last look: when, the work that was done, and the cores that were had from then on.
    pub(super) looked: u64,
    pub(super) work: u64,
    pub(super) allotment: u32,
    /// When it looks next, and how often that was changed.
    pub(super) next: u64,
    pub(super) plan: u64,
}

impl Share {
    /// A place in the table of a program that has no core yet, and may use so many at the most.
    pub(super) fn new(
        (sharing, quantum): (Sharing, u64),
        coordinator: Box<dyn Coordinator>,
        slot: SlotId,
        most: u32,
        now: u64,
    ) -> Share {
        Share {
            sharing,
            coordinator,
            quantum,
            slot,
            most,
            alone: true,
            mode: Mode::Time,
            room: Room::Workers,
            share_milli: 0,
            off_core: 0,
            observer: Observer::default(),
            population: 0,
            entered: false,
            known: CoreSet::EMPTY,
            held_time: (0, now),
            excess: false,
            desire: 0,
            looked: now,
            work: 0,
            allotment: 0,
            next: 0,
            plan: 0,
        }
    }

    /// It shares time, and holds no cores.
    pub(super) fn is_by_time(&self) -> bool {
        self.mode == Mode::Time
    }

    /// Whether the number of held cores does not say how many workers may be awake, nor where.
    fn is_free(&self) -> bool {
        self.alone || self.is_by_time()
    }

    /// Whether a push may wake a worker that finds room.
    fn wakes_by_push(&self) -> bool {
        self.sharing.sleeper == Sleeper::LendsCore && self.is_free()
    }

    /// It holds these cores from now on.
    pub(super) fn hold(&mut self, cores: CoreSet, now: u64) {
        self.held_time = (self.held_time(now), now);
        self.known = cores;
    }

    pub(super) fn held_time(&self, now: u64) -> u64 {
        let (sum, until) = self.held_time;
        sum + (now - until) * self.known.len() as u64
    }
}

impl Host {
    pub(super) fn share(&self, program: u32) -> Option<&Share> {
        self.pool(program).share.as_ref()
    }

    pub(super) fn share_mut(&mut self, program: u32) -> Option<&mut Share> {
        self.pool_mut(program).share.as_mut()
    }

    // ---- The books. ----

    fn in_state(&self, program: u32, state: State) -> impl Iterator<Item = u32> + '_ {
        let workers = self.pool(program).workers.iter().enumerate();
        workers.filter(move |(_, worker)| worker.state == state).map(|(nth, _)| nth as u32)
    }

    pub(super) fn count(&self, program: u32, state: State) -> u32 {
        self.pool(program).in_books[state as usize]
    }

    pub(super) fn held(&self, program: u32) -> u32 {
        self.share(program).map_or(0, |share| share.known.len() as u32)
    }

    fn given(&self, program: u32) -> CoreSet {
        let workers = self.pool(program).workers.iter();
        workers.filter(|worker| worker.state == State::Awake).filter_map(|worker| worker.core).collect()
    }

    /// A core that the program holds and no worker was given.
    fn spare(&self, program: u32) -> Option<usize> {
        let given = self.given(program);
        self.share(program)?.known.iter().find(|core| !given.contains(*core))
    }

    fn set_state(&mut self, thread: Thread, state: State) {
        let worker = self.worker_mut(thread);
        let before = std::mem::replace(&mut worker.state, state);
        if state != State::Awake {
            worker.core = None;
        }
        let in_books = &mut self.pool_mut(thread.program).in_books;
        in_books[before as usize] -= 1;
        in_books[state as usize] += 1;
    }

    /// How many workers may be awake.
    pub(super) fn room(&self, program: u32) -> u32 {
        let workers = self.pool(program).workers.len() as u32;
        let Some(share) = self.share(program) else { return workers };
        match share.sharing.sleeper {
            _ if !(share.sharing.plain_alone && share.is_free()) => self.held(program).max(1) + share.off_core,
            // No worker too many takes anything from another program's cores, so the room grows fast.
            Sleeper::LendsCore if share.room != Room::Workers => {
                let breadth = if share.room == Room::One { 1 } else { share.most };
                (breadth + 2 * share.off_core).min(workers)
            }
            Sleeper::LendsCore | Sleeper::KeepsCore | Sleeper::LeavesCore => workers,
        }
    }

    pub(super) fn has_excess(&self, program: u32) -> bool {
        self.share(program).is_some_and(|share| share.entered && share.excess)
    }

    /// Whether another worker is awake, or asleep such that a task wakes it.
    fn may_retire(&self, me: Thread) -> bool {
        let up = |worker: &u32| *worker != me.worker;
        self.in_state(me.program, State::Awake).any(|worker| up(&worker))
            || self.in_state(me.program, State::Asleep).any(|worker| up(&worker))
    }

    /// The worker, a thief, is one too many, or with `by_itself` wants no core: it retires, and is to go on with
    /// [`Host::passes_on`]. False: it is needed.
    pub(super) fn retire(&mut self, me: Thread, by_itself: bool) -> bool {
        let program = me.program;
        let Some(share) = self.share(program).filter(|share| share.entered) else { return false };
        let lends = share.sharing.sleeper == Sleeper::LendsCore;
        let is_surplus = self.count(program, State::Awake) > self.room(program);
        if !self.may_retire(me) || !(by_itself || is_surplus) {
            return false;
        }
        if is_surplus && lends {
            // Nor is there a core for those whom the next pushes would wake.
            let sleepers: Vec<u32> = self.in_state(program, State::Asleep).collect();
            for worker in sleepers {
                if self.step(program, |sleep, _| sleep.retire_sleeper(WorkerId(worker))) {
                    self.set_state(Thread { program, worker }, State::Retired);
                }
            }
        }
        self.step(program, |sleep, _| sleep.retire(WorkerId(me.worker)));
        let core = self.worker(me).core;
        self.set_state(me, State::Retired);
        self.let_go(program, core);
        self.balance(program);
        self.begin_to_pass_on(me);
        true
    }

    /// The worker was admitted to sleep: its core is free, unless the policy keeps it.
    pub(super) fn fell_asleep(&mut self, me: Thread) {
        if self.share(me.program).is_none_or(|share| !share.entered) {
            return;
        }
        let core = self.worker(me).core;
        self.set_state(me, State::Asleep);
        self.let_go(me.program, core);
        self.balance(me.program);
    }

    /// The worker is up again. False: there is no core for it, and it has no business of its own.
    pub(super) fn woke(&mut self, me: Thread, has_business: bool) -> bool {
        let program = me.program;
        if self.share(program).is_none_or(|share| !share.entered) {
            return true;
        }
        if self.worker(me).state != State::Awake {
            self.set_state(me, State::Awake);
            self.take_core(me);
        }
        self.balance(program);
        has_business || self.count(program, State::Awake) <= self.room(program) || !self.may_retire(me)
    }

    /// Cores that no worker needs any more, `core` first.
    fn let_go(&mut self, program: u32, core: Option<usize>) {
        let awake = self.count(program, State::Awake);
        let keeps = self.share(program).is_some_and(|share| share.sharing.sleeper == Sleeper::KeepsCore);
        // A pool without a worker awake holds nothing.
        if keeps && awake > 0 {
            return;
        }
        let mut own = core;
        while self.held(program) > awake {
            let core = own.take().or_else(|| self.spare(program));
            if !self.release(program, core) && !self.note_losses(program) {
                return;
            }
        }
    }

    /// A core for a worker that is awake, if there is one to be had.
    fn take_core(&mut self, me: Thread) {
        let own_only = self.share(me.program).is_some_and(|share| share.sharing.own_only);
        if self.held(me.program) < self.count(me.program, State::Awake) {
            let _ = self.claim(me.program, own_only) || self.take_back(me.program);
        }
        self.worker_mut(me).core = self.spare(me.program);
    }

    /// Brings up to date what thieves look at, and where threads may run.
    fn balance(&mut self, program: u32) {
        let Some(share) = self.share(program) else { return };
        if share.sharing.sleeper == Sleeper::LendsCore {
            self.ask_for_cores(program);
        }
        let given = self.given(program);
        let known = self.share(program).map_or(CoreSet::EMPTY, |share| share.known);
        let spare = known.iter().filter(|core| !given.contains(*core));
        let workers = self.pool_mut(program).workers.iter_mut();
        let without = workers.filter(|worker| worker.state == State::Awake && worker.core.is_none());
        without.zip(spare).for_each(|(worker, core)| worker.core = Some(core));
        let excess = self.count(program, State::Awake) > self.room(program);
        if let Some(share) = self.share_mut(program) {
            share.excess = excess;
        }
        self.pool_mut(program).is_astray = true;
        self.touched.push(program);
    }

    /// Says whether a core is wanted.
    fn ask_for_cores(&mut self, program: u32) {
        let awake = self.count(program, State::Awake);
        let retired = self.count(program, State::Retired);
        let Some(share) = self.share(program) else { return };
        let held = share.known.len() as u32;
        let is_short = awake > held;
        let wants = (is_short || retired > 0) && held < share.most && !share.wakes_by_push();
        let may_have_some = wants && retired > 0 && self.any_free();
        self.want(program, wants && (is_short || !may_have_some));
        if may_have_some {
            self.restore_hunger(program);
            if !self.pool(program).shows_task() {
                // Others may have some.
                self.decline(program);
            }
        }
    }

    /// Makes those who have retired hungry again, as many as there might be cores for, should they have work.
    fn restore_hunger(&mut self, program: u32) {
        let hungry = self.count(program, State::Awake) + self.count(program, State::Asleep);
        let Some(share) = self.share(program) else { return };
        let room = if share.is_free() { self.room(program) } else { share.most };
        let retired = self.in_state(program, State::Retired).take(room.saturating_sub(hungry) as usize);
        let retired: Vec<u32> = retired.collect();
        for worker in &retired {
            self.set_state(Thread { program, worker: *worker }, State::Asleep);
        }
        self.step(program, |sleep, queues| sleep.restore_hunger(retired.into_iter().map(WorkerId), queues));
    }

    /// Recalls workers as long as there are cores for them, and in the place of those who need none while there are tasks.
    fn recall(&mut self, program: u32, queued: u64) {
        let is_free = self.share(program).is_some_and(Share::is_free);
        let room = if queued > 0 || is_free { self.room(program) } else { self.held(program).max(1) };
        while self.count(program, State::Awake) < room {
            let core = self.spare(program);
            // The one whose number is the core's, so that workers stay where they were.
            let preferred = core.map(|core| (core % self.pool(program).workers.len()) as u32);
            let is_retired = |worker: &u32| self.worker(Thread { program, worker: *worker }).state == State::Retired;
            let preferred = preferred.filter(is_retired);
            let Some(worker) = preferred.or_else(|| self.in_state(program, State::Retired).next()) else { break };
            let thread = Thread { program, worker };
            self.set_state(thread, State::Awake);
            self.worker_mut(thread).core = core;
            // If it cannot be recalled, it was woken for business of its own, and is up.
            self.step(program, |sleep, _| sleep.recall(WorkerId(worker)));
        }
    }

    /// Cores that were taken back. True: there are some.
    pub(super) fn note_losses(&mut self, program: u32) -> bool {
        let Some(share) = self.share(program) else { return false };
        let slot = Some(share.slot);
        let lost: Vec<usize> = share.known.iter().filter(|core| self.table[*core].holder() != slot).collect();
        for core in &lost {
            self.forget(program, *core);
        }
        let held = (0..self.table.len()).filter(|core| self.table[*core].holder() == slot).collect();
        self.pool_mut(program).counts.lost += lost.len() as u64;
        let now = self.now;
        if let Some(share) = self.share_mut(program) {
            share.hold(held, now);
            share.alone &= lost.is_empty();
        }
        !lost.is_empty()
    }

    /// A worker for each core, if there are any, and no core without one unless the policy keeps it.
    pub(super) fn employ(&mut self, program: u32, queued: u64) {
        let Some(share) = self.share(program) else { return };
        let (keeps, own_only) = (share.sharing.sleeper == Sleeper::KeepsCore, share.sharing.own_only);
        let (most, by_push, by_time) = (share.most, share.wakes_by_push(), share.is_by_time());
        if !keeps {
            // For those who are awake without one.
            let most = self.count(program, State::Awake).min(most);
            while self.held(program) < most && (self.claim(program, own_only) || self.take_back(program)) {}
        }
        if by_push {
            self.restore_hunger(program);
        } else {
            self.recall(program, queued);
        }
        if !keeps {
            let needed = if by_time { 0 } else { self.count(program, State::Awake) };
            while self.held(program) > needed && self.release(program, None) {}
        }
        self.balance(program);
    }

    // ---- What others ask. ----

    /// Where the thread may run, if not everywhere.
    pub(super) fn confined(&self, thread: Thread) -> Option<CoreSet> {
        let share = self.share(thread.program).filter(|share| !share.is_free() && !share.known.is_empty())?;
        match (share.sharing.placement, self.worker(thread).core) {
            (Placement::Anywhere, _) => share.excess.then_some(share.known),
            (Placement::OnePerCore, Some(core)) => Some([core].into_iter().collect()),
            (Placement::WithinCores | Placement::OnePerCore, _) => Some(share.known),
        }
    }

    /// Workers whose queue a thief may take over.
    pub(super) fn without_core(&self, program: u32) -> Vec<u32> {
        if self.share(program).is_none_or(|share| share.is_free() || share.known.is_empty()) {
            return Vec::new();
        }
        let awake = self.in_state(program, State::Awake);
        awake.filter(|worker| self.worker(Thread { program, worker: *worker }).core.is_none()).collect()
    }
}
