//! The coordinator of one program: what the runtime's `coordinator.rs` does, which asks the policy once each quantum.

use comity_policy::{Account, Claims, Orders, Sleeper};
use comity_protocol::STOPPED_AFTER;

use super::share::State;
use super::{Due, Host};

impl Host {
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
        let Some(account) = self.account(program) else { return };
        let Some(share) = self.share_mut(program) else { return };
        let Orders { desire, cores, mode, room, due } = share.coordinator.quantum(&account);
        (share.mode, share.room) = (mode, room);
        let (quantum, before) = (share.quantum, share.desire);
        if desire != before {
            self.round(program, desire);
        }
        match cores {
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
        self.employ(program, account.queued.into());
        // A program whose coordinator comes by less often counts as stopped.
        let due = quantum * u64::from(due.max(1));
        self.look_again(program, due.min(STOPPED_AFTER.as_nanos() as u64 / 2));
    }

    /// What the program did in the quantum, and how things stand.
    fn account(&mut self, program: u32) -> Option<Account> {
        self.charge_all();
        self.note_losses(program);
        let desire = self.share(program)?.desire;
        let standing = self.round(program, desire);
        let observed = self.observe(program);
        let now = self.now;
        let [awake, _, retired] = [State::Awake, State::Asleep, State::Retired].map(|state| self.count(program, state));
        let pool = self.pool_mut(program);
        let (workers, queued, work) = (pool.workers.len() as u32, pool.waiting(), pool.busy_time(now));
        let share = pool.share.as_mut()?;
        let elapsed_ns = now - share.looked;
        let account = Account {
            first: !share.entered,
            workers,
            awake,
            retired,
            blocked: observed.off_core,
            queued: queued.try_into().unwrap_or(u32::MAX),
            usable: share.most,
            owned: standing.owned,
            held: standing.held,
            free: standing.free,
            own_free: standing.own_free,
            lent: standing.lent,
            usage_ns: work - share.work,
            allotted_ns: elapsed_ns * u64::from(share.allotment),
            allotment: share.allotment,
            elapsed_ns,
            used_ns: observed.used_ns,
            able_ns: observed.able_ns,
            wanted_ns: observed.wanted_ns,
            held_ns: observed.held_ns,
            idle_ns: observed.idle_ns,
            share_milli: standing.share_milli,
            programs: standing.programs,
            alone: standing.alone,
            unmoved: observed.unmoved,
        };
        (share.looked, share.work, share.entered) = (now, work, true);
        (share.off_core, share.share_milli) = (observed.off_core, standing.share_milli);
        Some(account)
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

    /// A core was taken back, there is one to be had, or another program has come.
    pub(super) fn rung(&mut self, program: u32) {
        let Some(share) = self.share(program).filter(|_| self.pool(program).is_there()) else { return };
        let lends = share.sharing.sleeper == Sleeper::LendsCore;
        let lost = self.note_losses(program);
        if lost || lends {
            let queued = self.pool(program).waiting();
            if lends {
                let wanted = queued.min(self.count(program, State::Retired).into());
                let _ = (0..wanted).take_while(|_| self.claim(program, false)).count();
            }
            self.employ(program, queued);
        }
        let (now, population) = (self.now, self.members().len());
        let Some(share) = self.share_mut(program) else { return };
        let grew = population > std::mem::replace(&mut share.population, population);
        if (lost || grew) && share.next > now + share.quantum {
            let after = share.quantum;
            self.look_again(program, after);
        }
    }
}
