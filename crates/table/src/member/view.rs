//! The core table as one step of `comity_protocol::table` reads and changes it.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use comity_os::clock::now_ns;
use comity_protocol::table::{Change, Table};

use super::{Member, clear_bit, count, exchange, has_bit, is_stopped, load, ring, set_bit};
use crate::layout::{Layout, Slot};
use crate::{CoreSet, CoreWord, SlotId, fault};

/// The core table as a member reads and changes it in one step.
pub struct View<'a> {
    pub(super) member: &'a Member,
    /// The memory of the table in which the step began. Another table may replace that table during the step.
    pub(super) layout: &'a Layout,
    /// The program's slot when the step began.
    pub(super) me: SlotId,
    /// The time when the step began, in nanoseconds.
    pub(super) now: u64,
}

impl View<'_> {
    /// Returns the words of the program's slot.
    fn own(&self) -> &Slot {
        &self.layout.slots[self.me.index()]
    }
}

impl Table for View<'_> {
    fn slot(&self) -> SlotId {
        self.me
    }

    fn cores(&self) -> CoreSet {
        self.member.may_use()
    }

    fn load(&self, core: usize) -> CoreWord {
        load(&self.layout.cores[core])
    }

    fn exchange(&self, core: usize, before: CoreWord, next: CoreWord) -> bool {
        let exchanged = exchange(&self.layout.cores[core], before, next);
        if exchanged {
            self.layout.since[core].store(now_ns(), Ordering::Relaxed);
        }
        exchanged
    }

    fn grant(&self, core: usize, before: CoreWord, next: CoreWord) {
        exchange(&self.layout.cores[core], before, next);
        fault::point("owners-half-written");
    }

    fn beat(&self) {
        self.own().heartbeat.store(self.now, Ordering::Relaxed);
    }

    fn is_stopped(&self, slot: SlotId) -> bool {
        is_stopped(self.layout, slot, self.now)
    }

    fn note(&self, change: Change) {
        let own = self.own();
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
        has_bit(&self.layout.header.wanting, slot)
    }

    fn is_core_wanted(&self) -> bool {
        let (wanting, me) = (&self.layout.header.wanting, self.me.index());
        let others = |(nth, word): (usize, &AtomicU64)| {
            let own = if nth == me / 64 { 1 << (me % 64) } else { 0 };
            word.load(Ordering::Relaxed) & !own != 0
        };
        wanting.iter().enumerate().any(others)
    }

    fn set_wants(&self, wants: bool) {
        let wanting = &self.layout.header.wanting;
        if wants { set_bit(wanting, self.me) } else { clear_bit(wanting, self.me) }
    }

    fn may_use(&self, slot: SlotId, core: usize) -> bool {
        CoreSet::load(&self.layout.slots[slot.index()].may_use).contains(core)
    }

    fn ring(&self, slot: SlotId) {
        ring(&self.layout.slots[slot.index()]);
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
        let since = self.layout.since[core].load(Ordering::Relaxed);
        // `since` is later than `now` if the holder changed after this step began. If it is more than a second later,
        // it is invalid, and the core counts as free for long.
        if since > self.now + 1_000_000_000 { u64::MAX } else { self.now.saturating_sub(since) }
    }

    fn lend_after(&self) -> u64 {
        self.member.profile.lend_after.as_nanos().try_into().unwrap_or(u64::MAX)
    }
}
