//! The core table at one time, as the steps of `comity_protocol::table` see and change it.

use std::sync::atomic::{Ordering, fence};

use comity_protocol::table::{Change, Table};

use super::{Member, clear_bit, count, exchange, has_bit, is_stopped, load, set_bit};
use crate::{CoreSet, CoreWord, SlotId, fault};

pub(super) struct View<'a> {
    pub(super) member: &'a Member,
    /// The program's place when the step began.
    pub(super) me: SlotId,
    /// When that was.
    pub(super) now: u64,
}

impl Table for View<'_> {
    fn slot(&self) -> SlotId {
        self.me
    }

    fn cores(&self) -> CoreSet {
        self.member.may_use()
    }

    fn load(&self, core: usize) -> CoreWord {
        load(&self.member.layout().cores[core])
    }

    fn exchange(&self, core: usize, before: CoreWord, next: CoreWord) -> bool {
        self.member.exchange(core, before, next)
    }

    fn grant(&self, core: usize, before: CoreWord, next: CoreWord) {
        exchange(&self.member.layout().cores[core], before, next);
        fault::point("owners-half-written");
    }

    fn is_stopped(&self, slot: SlotId) -> bool {
        is_stopped(self.member.layout(), slot, self.now)
    }

    fn note(&self, change: Change) {
        let own = self.member.own();
        let (counter, point) = match change {
            Change::Claimed(_) => (&own.claimed, "core-claimed"),
            Change::TakenBack(_) => (&own.taken_back, "core-taken-back"),
            Change::Released(core) if self.load(core).owner() == Some(self.me) => (&own.released, "core-lent"),
            Change::Released(_) => (&own.released, "core-released"),
        };
        count(counter);
        fault::point(point);
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn wants(&self, slot: SlotId) -> bool {
        has_bit(&self.member.layout().header.wanting, slot)
    }

    fn is_core_wanted(&self) -> bool {
        self.member.is_core_wanted()
    }

    fn set_wants(&self, wants: bool) {
        let wanting = &self.member.layout().header.wanting;
        if wants { set_bit(wanting, self.me) } else { clear_bit(wanting, self.me) }
    }

    fn may_use(&self, slot: SlotId, core: usize) -> bool {
        CoreSet::load(&self.member.layout().slots[slot.index()].may_use).contains(core)
    }

    fn ring(&self, slot: SlotId) {
        self.member.ring(slot);
    }

    fn waits(&self) -> bool {
        self.member.waits.load(Ordering::Relaxed)
    }

    fn set_waits(&self, waits: bool) {
        self.member.waits.store(waits, Ordering::Relaxed);
    }

    fn watches(&self) -> bool {
        self.member.watches.load(Ordering::Relaxed)
    }

    fn set_watches(&self, watches: bool) {
        self.member.watches.store(watches, Ordering::Relaxed);
    }

    fn lasts(&self, core: usize) -> u64 {
        let since = self.member.layout().since[core].load(Ordering::Relaxed);
        // It has changed after this step began; or what stands there is no time.
        if since > self.now + 1_000_000_000 { u64::MAX } else { self.now.saturating_sub(since) }
    }

    fn lend_after(&self) -> u64 {
        self.member.profile.lend_after.as_nanos().try_into().unwrap_or(u64::MAX)
    }
}
