//! Which workers of a program have a core: what the runtime's `share.rs` and `coordinator.rs` do, where nobody is interrupted between
//! two steps and no task blocks.

use comity_policy::{Account, Claims, Coordinator, Placement, Sharing, Sleeper, WakeReason};
use comity_table::{CoreSet, STOPPED_AFTER, SlotId, Standing};

use super::pool::Rest;
use super::{Due, Host, Thread};

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
    /// No other program wants cores.
    pub(super) alone: bool,
    /// It has looked for the first time.
    pub(super) entered: bool,
    /// The cores that it holds, as far as it knows.
    pub(super) known: CoreSet,
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

    fn count(&self, program: u32, state: State) -> u32 {
        self.pool(program).in_books[state as usize]
    }

    fn held(&self, program: u32) -> u32 {
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
            _ if !(share.sharing.plain_alone && share.alone) => self.held(program).max(1),
            Sleeper::LendsCore => share.most.min(workers),
            Sleeper::KeepsCore | Sleeper::LeavesCore => workers,
        }
    }

    /// Whether a push may wake whoever finds room: nobody is there to share with.
    fn wakes_by_push(share: &Share) -> bool {
        share.sharing.sleeper == Sleeper::LendsCore && share.alone
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

    /// The worker, a thief, is one too many, or with `by_itself` wants no core: it leaves. False: it is needed.
    pub(super) fn retire(&mut self, me: Thread, by_itself: bool) -> bool {
        let program = me.program;
        let Some(share) = self.share(program).filter(|share| share.entered) else { return false };
        let lends = share.sharing.sleeper == Sleeper::LendsCore;
        let is_surplus = self.count(program, State::Awake) > self.room(program);
        let has_tasks = !self.worker(me).ready.is_empty();
        if has_tasks || !self.may_retire(me) || !(by_itself || is_surplus) {
            return false;
        }
        if is_surplus && lends {
            // Nor is there a core for those whom the next pushes would wake.
            let sleepers: Vec<u32> = self.in_state(program, State::Asleep).collect();
            for worker in sleepers {
                if self.worker(Thread { program, worker }).rest == Rest::Asleep {
                    self.pool_mut(program).set_rest(worker, Rest::Retired);
                    self.set_state(Thread { program, worker }, State::Retired);
                }
            }
        }
        let core = self.worker(me).core;
        self.set_state(me, State::Retired);
        self.lie_down(me, Rest::Retired);
        self.let_go(program, core);
        self.balance(program);
        self.pass_on(me);
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

    /// The worker is up again. False: there is no core for it, and it rests again.
    pub(super) fn woke(&mut self, me: Thread) -> bool {
        let program = me.program;
        if self.share(program).is_none_or(|share| !share.entered) {
            return true;
        }
        if self.worker(me).state != State::Awake {
            self.set_state(me, State::Awake);
            self.take_core(me);
        }
        self.balance(program);
        let stays = self.count(program, State::Awake) <= self.room(program) || !self.may_retire(me);
        stays || !self.retire(me, false)
    }

    /// Cores that nobody needs any more, `core` first.
    fn let_go(&mut self, program: u32, core: Option<usize>) {
        let awake = self.count(program, State::Awake);
        let keeps = self.share(program).is_some_and(|share| share.sharing.sleeper == Sleeper::KeepsCore);
        // A pool that nobody works in holds nothing.
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
        let wants = (is_short || retired > 0) && held < share.most && !Self::wakes_by_push(share);
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
        let room = if share.alone { self.room(program) } else { share.most };
        let retired: Vec<u32> = self.in_state(program, State::Retired).collect();
        let mut restored = false;
        for worker in retired.into_iter().take(room.saturating_sub(hungry) as usize) {
            let thread = Thread { program, worker };
            self.set_state(thread, State::Asleep);
            if self.worker(thread).rest == Rest::Retired {
                self.pool_mut(program).set_rest(worker, Rest::Asleep);
                restored = true;
            }
        }
        if restored && self.pool(program).shows_task() {
            self.send_scout(Thread { program, worker: self.pool(program).workers.len() as u32 - 1 });
        }
    }

    /// Recalls workers as long as there are cores for them.
    fn recall(&mut self, program: u32, queued: u64) {
        let alone = self.share(program).is_some_and(|share| share.alone);
        let room = if queued > 0 || alone { self.room(program) } else { self.held(program).max(1) };
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
            if self.worker(thread).rest == Rest::Retired {
                self.wake(thread, WakeReason::Coordinator, None);
            }
        }
    }

    /// Cores that were taken back. True: there are some.
    fn note_losses(&mut self, program: u32) -> bool {
        let Some(share) = self.share(program) else { return false };
        let slot = Some(share.slot);
        let lost: Vec<usize> = share.known.iter().filter(|core| self.table[*core].holder() != slot).collect();
        for core in &lost {
            self.forget(program, *core);
        }
        let held = (0..self.table.len()).filter(|core| self.table[*core].holder() == slot).collect();
        self.pool_mut(program).counts.lost += lost.len() as u64;
        if let Some(share) = self.share_mut(program) {
            share.known = held;
            share.alone &= lost.is_empty();
        }
        !lost.is_empty()
    }

    /// A worker for each core, if there are any, and no core without one unless the policy keeps it.
    fn employ(&mut self, program: u32, queued: u64) {
        let Some(share) = self.share(program) else { return };
        let (keeps, own_only) = (share.sharing.sleeper == Sleeper::KeepsCore, share.sharing.own_only);
        let (most, by_push) = (share.most, Self::wakes_by_push(share));
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
            while self.held(program) > self.count(program, State::Awake) && self.release(program, None) {}
        }
        self.balance(program);
    }

    /// A core was taken back, or there is one to be had.
    pub(super) fn rung(&mut self, program: u32) {
        let Some(share) = self.share(program).filter(|_| self.pool(program).is_there()) else { return };
        let lends = share.sharing.sleeper == Sleeper::LendsCore;
        let lost = self.note_losses(program);
        if !lost && !lends {
            return;
        }
        let queued = self.pool(program).waiting();
        if lends {
            for _ in 0..queued.min(self.count(program, State::Retired).into()) {
                if !self.claim(program, false) {
                    break;
                }
            }
        }
        self.employ(program, queued);
        let now = self.now;
        if let Some(share) = self.share_mut(program)
            && lost
            && share.next > now + share.quantum
        {
            let after = share.quantum;
            self.look_again(program, after);
        }
    }

    // ---- The coordinator. ----

    fn look_again(&mut self, program: u32, after: u64) {
        let next = self.now + after;
        if let Some(share) = self.share_mut(program) {
            (share.next, share.plan) = (next, share.plan + 1);
            let plan = share.plan;
            self.plan(next, Due::Quantum { program, plan });
        }
    }

    /// One quantum is over.
    pub(super) fn quantum(&mut self, program: u32, plan: u64) {
        if !self.pool(program).is_there() || self.share(program).is_none_or(|share| share.plan != plan) {
            return;
        }
        (0..self.cores.len()).for_each(|core| self.charge(core));
        self.note_losses(program);
        let desire = self.share(program).map_or(0, |share| share.desire);
        let Standing { owned, held, free, own_free, lent, .. } = self.round(program, desire);
        let now = self.now;
        let pool = self.pool(program);
        let (workers, queued, work) = (pool.workers.len() as u32, pool.waiting(), pool.busy_time(now));
        let (awake, retired) = (self.count(program, State::Awake), self.count(program, State::Retired));
        let Some(share) = self.share_mut(program) else { return };
        let account = Account {
            first: !share.entered,
            workers,
            awake,
            retired,
            blocked: 0,
            queued: queued.try_into().unwrap_or(u32::MAX),
            usable: share.most,
            owned,
            held,
            free,
            own_free,
            lent,
            usage_ns: work - share.work,
            allotted_ns: (now - share.looked) * u64::from(share.allotment),
            allotment: share.allotment,
        };
        (share.looked, share.work, share.entered) = (now, work, true);
        let orders = share.coordinator.quantum(&account);
        let (quantum, before) = (share.quantum, share.desire);
        if orders.desire != before {
            self.round(program, orders.desire);
        }
        match orders.cores {
            Claims::Owned => self.hold_what_is_owned(program),
            Claims::More { free, own_only, back } => {
                let _ = (0..free).take_while(|_| self.claim(program, own_only)).count();
                let _ = (0..back).take_while(|_| self.take_back(program)).count();
            }
        }
        let held = self.held(program);
        if let Some(share) = self.share_mut(program) {
            share.allotment = held;
        }
        self.employ(program, queued);
        // Whoever comes by less often counts as stopped.
        let due = quantum * u64::from(orders.due.max(1));
        self.look_again(program, due.min(STOPPED_AFTER.as_nanos() as u64 / 2));
    }

    fn hold_what_is_owned(&mut self, program: u32) {
        let Some(share) = self.share(program) else { return };
        let slot = Some(share.slot);
        let foreign: Vec<usize> = share.known.iter().filter(|core| self.table[*core].owner() != slot).collect();
        for core in foreign {
            self.release(program, Some(core));
        }
        while self.claim(program, true) || self.take_back(program) {}
    }

    // ---- What others ask. ----

    /// Where the thread may run, if not everywhere.
    pub(super) fn confined(&self, thread: Thread) -> Option<CoreSet> {
        let share = self.share(thread.program).filter(|share| !share.alone && !share.known.is_empty())?;
        match (share.sharing.placement, self.worker(thread).core) {
            (Placement::Anywhere, _) => share.excess.then_some(share.known),
            (Placement::OnePerCore, Some(core)) => Some([core].into_iter().collect()),
            (Placement::WithinCores | Placement::OnePerCore, _) => Some(share.known),
        }
    }

    /// Whether the worker, should it be up, has a core, as far as its program knows.
    pub(super) fn has_core(&self, thread: Thread) -> bool {
        let Some(share) = self.share(thread.program) else { return true };
        let worker = self.worker(thread);
        share.alone || share.known.is_empty() || worker.state != State::Awake || worker.core.is_some()
    }

    /// Workers whose queue a thief may take over.
    pub(super) fn without_core(&self, program: u32) -> Vec<u32> {
        if self.share(program).is_none_or(|share| share.alone || share.known.is_empty()) {
            return Vec::new();
        }
        let awake = self.in_state(program, State::Awake);
        awake.filter(|worker| self.worker(Thread { program, worker: *worker }).core.is_none()).collect()
    }
}
