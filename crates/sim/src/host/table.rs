//! The core table, and a program's part in it: what `comity_table::Member` does on a mapped file.

use comity_policy::allotment::Claim;
use comity_protocol::{CoreSet, CoreWord, Party, SlotId, Standing, TURN, partition};

use super::quota::Quota;
use super::share::Share;
use super::{Due, Host};

/// Here all programs count alike.
const WEIGHT: u32 = 100;

impl Host {
    pub(super) fn join_table(&mut self, program: u32) {
        let pool = self.pool(program);
        if !self.has_table {
            return;
        }
        let (Some((sharing, quantum)), Some(coordinator)) = (pool.policy.sharing(), pool.policy.coordinator()) else {
            return;
        };
        let can_have = |slot: &Option<u32>| slot.is_none_or(|other| self.pool(other).died.is_some());
        let free = self.slots.iter().position(can_have);
        if let Some(dead) = free.and_then(|slot| self.slots[slot]) {
            self.leave_table(dead);
        }
        let pool = self.pool(program);
        let Some(free) = free else {
            self.pool_mut(program).counts.unshared = 1;
            return;
        };
        let usable = pool.quota.as_ref().map_or(u32::MAX, Quota::usable).min(self.cores.len() as u32);
        let most = usable.min(pool.workers.len() as u32);
        let slot = SlotId::new(free).expect("there are as many");
        self.slots[free] = Some(program);
        let share = Share::new((sharing, quantum.as_nanos() as u64), coordinator, slot, most, self.now);
        self.pool_mut(program).share = Some(share);
        // One that was alone looks rarely.
        let others = self.members().into_iter().filter(|other| *other != program);
        others.collect::<Vec<_>>().into_iter().for_each(|other| self.ring(other));
    }

    pub(super) fn begin_to_share(&mut self, program: u32) {
        if self.share(program).is_some() {
            self.quantum(program, 0);
        }
    }

    /// Nothing of the program's is left in the table; those who wait for a core are told.
    pub(super) fn leave_table(&mut self, program: u32) {
        let Some(slot) = self.share(program).map(|share| share.slot) else { return };
        if self.slots[slot.index()] != Some(program) {
            return;
        }
        self.slots[slot.index()] = None;
        self.want(program, false);
        for word in &mut self.table {
            *word = word.without(slot).unwrap_or(*word);
        }
        for other in self.members() {
            if self.wants(other) {
                self.ring(other);
            }
        }
    }

    /// The programs in the table, by their places.
    pub(super) fn members(&self) -> Vec<u32> {
        self.slots.iter().flatten().copied().collect()
    }

    pub(super) fn wants(&self, program: u32) -> bool {
        self.wanting.contains(&program) && self.pool(program).is_there()
    }

    /// From now on the program is told when a core becomes free; or no longer.
    pub(super) fn want(&mut self, program: u32, wants: bool) {
        self.wanting.retain(|other| *other != program);
        if wants {
            self.wanting.push(program);
        }
    }

    /// The program leaves the cores that are free to others: tells those who want one.
    pub(super) fn decline(&mut self, program: u32) {
        let free: Vec<CoreWord> = self.table.iter().copied().filter(|word| word.is_free()).collect();
        for word in free {
            self.offer(word.owner().and_then(|owner| self.program_of(owner)), program);
        }
    }

    pub(super) fn is_core_wanted(&self, program: u32) -> bool {
        let shares = self.share(program).is_some_and(|share| share.entered && !share.alone);
        shares && self.wanting.iter().any(|other| *other != program && self.pool(*other).is_there())
    }

    pub(super) fn ring(&mut self, program: u32) {
        let latency = self.wake_latency();
        self.plan(self.now + latency, Due::Rung(program));
    }

    pub(super) fn program_of(&self, slot: SlotId) -> Option<u32> {
        self.slots[slot.index()]
    }

    pub(super) fn change(&mut self, next: impl Fn(CoreWord) -> Option<CoreWord>) -> Option<(usize, CoreWord)> {
        let changed = |(core, word): (usize, &CoreWord)| Some((core, *word, next(*word)?));
        let (core, before, next) = self.table.iter().enumerate().find_map(changed)?;
        self.table[core] = next;
        Some((core, before))
    }

    /// The place in the table of a program that may hold a core more.
    fn place_for_more(&self, program: u32) -> Option<SlotId> {
        let share = self.share(program)?;
        ((share.known.len() as u32) < share.most && !share.is_by_time()).then_some(share.slot)
    }

    /// Claims a core that nobody uses.
    pub(super) fn claim(&mut self, program: u32, own_only: bool) -> bool {
        let Some(slot) = self.place_for_more(program) else { return false };
        let mut claimed = self.change(|word| word.claimed(slot).filter(|_| word.owner() == Some(slot)));
        if claimed.is_none() && !own_only {
            claimed = self.change(|word| word.claimed(slot).filter(|_| word.owner().is_none()));
            claimed = claimed.or_else(|| self.change(|word| word.claimed(slot)));
        }
        self.gains(program, claimed.map(|(core, _)| core))
    }

    /// Takes a core back from who uses it.
    pub(super) fn take_back(&mut self, program: u32) -> bool {
        let Some(slot) = self.place_for_more(program) else { return false };
        let taken = self.change(|word| word.taken_back(slot));
        if let Some(borrower) = taken.and_then(|(_, before)| self.program_of(before.holder()?)) {
            self.ring(borrower);
        }
        self.gains(program, taken.map(|(core, _)| core))
    }

    pub(super) fn gains(&mut self, program: u32, core: Option<usize>) -> bool {
        let now = self.now;
        if let (Some(core), Some(share)) = (core, self.share_mut(program)) {
            share.hold(share.known.union([core].into_iter().collect()), now);
        }
        core.is_some()
    }

    /// Uses one core less: `core`, or one that is not its own, or any.
    pub(super) fn release(&mut self, program: u32, core: Option<usize>) -> bool {
        let Some(slot) = self.share(program).map(|share| share.slot) else { return false };
        let released = match core {
            Some(core) => self.table[core].released(slot).map(|next| {
                let before = std::mem::replace(&mut self.table[core], next);
                (core, before)
            }),
            None => {
                let others = self.change(|word| word.released(slot).filter(|_| word.owner() != Some(slot)));
                others.or_else(|| self.change(|word| word.released(slot)))
            }
        };
        let Some((core, before)) = released else { return false };
        self.forget(program, core);
        self.offer(before.owner().and_then(|owner| self.program_of(owner)), program);
        true
    }

    pub(super) fn forget(&mut self, program: u32, core: usize) {
        let now = self.now;
        let pool = self.pool_mut(program);
        if let Some(share) = &mut pool.share {
            share.hold(share.known.iter().filter(|known| *known != core).collect(), now);
        }
        for worker in &mut pool.workers {
            worker.core = worker.core.filter(|given| *given != core);
        }
    }

    /// A core is free: its owner is told, if it waits for one, or else the next program that does.
    pub(super) fn offer(&mut self, owner: Option<u32>, but: u32) {
        if self.wanting.is_empty() {
            return;
        }
        let own = self.share(but).map_or(0, |share| share.slot.index());
        let others = (1..self.slots.len()).filter_map(|after| self.slots[(own + after) % self.slots.len()]);
        let owner = owner.filter(|owner| *owner != but);
        let told = owner.into_iter().chain(others).find(|program| self.wants(*program));
        if let Some(program) = told {
            self.ring(program);
        }
    }

    pub(super) fn any_free(&self) -> bool {
        self.table.iter().any(|word| word.is_free())
    }

    /// Buries the dead, and brings the owners of the cores up to date with what all desire.
    pub(super) fn round(&mut self, program: u32, desire: u32) -> Standing {
        for other in self.members() {
            if self.pool(other).died.is_some() {
                self.leave_table(other);
            }
        }
        if let Some(share) = self.share_mut(program) {
            share.desire = desire;
        }
        let parties = self.parties();
        let owners: Vec<Option<SlotId>> = self.table.iter().map(|word| word.owner()).collect();
        let turn = self.now / TURN.as_nanos() as u64;
        let after = partition(&parties, &owners, |core| self.table[core].holder(), turn);
        for (word, owner) in self.table.iter_mut().zip(after) {
            *word = word.granted(owner).unwrap_or(*word);
        }
        let alone = parties.iter().all(|party| party.claim.program == u64::from(program));
        let has_work = |other: &u32| {
            let works = self.share(*other).is_some_and(|share| share.desire > 0) || self.pool(*other).in_books[0] > 0;
            works && *other != program && self.pool(*other).is_there()
        };
        let others = self.members().into_iter().filter(has_work).count() as u32;
        if let Some(share) = self.share_mut(program) {
            share.alone = alone;
        }
        Standing {
            alone,
            share_milli: self.table.len() as u32 * 1000 / (others + 1),
            programs: others + 1,
            ..self.standing(program)
        }
    }

    pub(super) fn parties(&self) -> Vec<Party> {
        let may_use: CoreSet = (0..self.table.len()).collect();
        let party = |number: &u32| {
            let share = self.share(*number).filter(|share| share.desire > 0)?;
            let claim = Claim { program: u64::from(*number), weight: WEIGHT, desire: share.desire };
            Some(Party { slot: share.slot, claim, may_use })
        };
        self.slots.iter().flatten().filter_map(party).collect()
    }

    pub(super) fn standing(&self, program: u32) -> Standing {
        let mut standing = Standing::default();
        let Some(slot) = self.share(program).map(|share| Some(share.slot)) else { return standing };
        for word in &self.table {
            let (own, held, free) = (word.owner() == slot, word.holder() == slot, word.is_free());
            standing.owned += u32::from(own);
            standing.held += u32::from(held);
            standing.free += u32::from(free);
            standing.own_free += u32::from(free && own);
            standing.lent += u32::from(own && !free && !held);
        }
        standing
    }
}
