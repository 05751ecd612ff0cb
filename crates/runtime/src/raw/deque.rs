//! The split deque: a worker's own tasks, of which it shows to others only as many as they ask for.
//!
//! ```text
//!    0        tail           split          head
//!    │ stolen │    shared    │   private    │  free …
//!               ▲ thieves      ▲ a raid       ▲ the owner
//! ```
//!
//! The owner pushes and pops above `split` with plain loads and stores. Thieves take the oldest shared task by one
//! compare-and-swap. A hungry thief rings the bell, which the owner hears at its next push, and shares. If the owner
//! does not push for long, a thief raids the private part, and pays for both with a barrier on every core.
//!
//! The crate's `README.md` holds the protocol with its proof; the names of its lemmas stand beside the steps below.
//!
//! The deque is a stack to its owner: what was pushed last is popped first, each push by the frame that made it. It
//! grows as that stack does.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ops::Range;
use std::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use super::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, back_off, fence, heavy, light};

/// Slots of a new deque. A worker that joins deeper than that has a deque that has grown.
const SLOTS: usize = if cfg!(loom) { 2 } else { 1024 };

/// The most slots, what the indices in [`Shown`] can tell: a stack of 512 MiB and more.
const MOST_SLOTS: usize = 1 << 22;

/// `limit` while the bell rings: every index is beyond.
const RINGING: usize = 0;

/// `floor` while the owner may not pop without asking: every index is below.
const CLOSED: usize = usize::MAX;

/// No thread has set out to move `split`, in [`Shown::mover`].
const NO_MOVER: u32 = 0;
/// The owner has.
const OWNER: u32 = (1 << (64 - 2 * Shown::BITS)) - 1;

/// The one word that thieves change: where the shared part begins and ends, and which thread has set out to move its
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    tail: usize,
    split: usize,
    /// [`NO_MOVER`], [`OWNER`], or the raider's number plus one.
    mover: u32,
}

impl Shown {
    const BITS: u32 = 23;
    const MASK: u64 = (1 << Self::BITS) - 1;
    /// The mover's part of the word.
    const MOVER: u64 = !0 << (2 * Self::BITS);

    fn unpack(word: u64) -> Shown {
        let index = |word: u64| (word & Self::MASK) as usize;
        Shown { tail: index(word), split: index(word >> Self::BITS), mover: (word >> (2 * Self::BITS)) as u32 }
    }

    fn pack(self) -> u64 {
        debug_assert!(self.tail <= self.split && self.split <= MOST_SLOTS);
        self.tail as u64 | (self.split as u64) << Self::BITS | u64::from(self.mover) << (2 * Self::BITS)
    }
}

/// What became of the task that a frame had pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Popped {
    /// It is the owner's again.
    Back,
    /// A thief has it.
    Stolen,
}

/// Pointers to tasks. The owner's operations are unsafe, because only one thread may call them.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `head` | the owner, at every push and pop | thieves that look for private tasks |
/// | `floor` | the owner, as `split` moves; a raider closes it | the owner, at every pop |
/// | `limit` | any thread rings; the owner silences | the owner, at every push |
/// | `slots` | the owner writes, a thief clears what it took; the owner moves them | thieves, after they have claimed |
/// | `shown` | thieves, raiders, and the owner off its fast path | all |
/// | `asked_at` | the first thief that rings, and the thread that answers | thieves |
pub(crate) struct Deque<T> {
    own: CachePadded<Own<T>>,
    shown: CachePadded<AtomicU64>,
    asked_at: AtomicU64,
}

struct Own<T> {
    head: AtomicUsize,
    /// A pop at or above needs to ask no other thread.
    floor: AtomicUsize,
    /// A push below needs to look no further: the index of the last slot, or [`RINGING`].
    limit: AtomicUsize,
    slots: AtomicPtr<AtomicPtr<T>>,
    /// How many slots there are. Only the owner looks.
    capacity: AtomicUsize,
    /// Whether the barrier that raids need is there. Else everything is shared at once, and each pop asks.
    raids: bool,
}

impl<T> Deque<T> {
    /// An empty deque. `raids`: whether [`heavy`] works here.
    pub(crate) fn new(raids: bool) -> Deque<T> {
        let empty = Shown { tail: 0, split: 0, mover: NO_MOVER };
        Deque {
            own: CachePadded::new(Own {
                head: AtomicUsize::new(0),
                floor: AtomicUsize::new(if raids { 0 } else { CLOSED }),
                limit: AtomicUsize::new(if raids { SLOTS - 1 } else { RINGING }),
                slots: AtomicPtr::new(allocate(SLOTS)),
                capacity: AtomicUsize::new(SLOTS),
                raids,
            }),
            shown: CachePadded::new(AtomicU64::new(empty.pack())),
            asked_at: AtomicU64::new(0),
        }
    }

    // The owner.

    /// Pushes a task; returns its index. If [`Deque::calls`] says so of the index, [`Deque::answer`] must follow.
    ///
    /// # Safety
    /// Called by the owner alone; the index that this returns goes to [`Deque::pop`] after those of all later pushes.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, task: NonNull<T>) -> usize {
        let own = &*self.own;
        let index = own.head.load(Ordering::Relaxed);
        debug_assert!(index < own.capacity.load(Ordering::Relaxed));
        // SAFETY: the head stays within the slots: the push into the last one makes room for the next.
        unsafe { &*own.slots.load(Ordering::Relaxed).add(index) }.store(task.as_ptr(), Ordering::Relaxed);
        // Lemma D1: with the task comes all that it points to.
        own.head.store(index + 1, Ordering::Release);
        light();
        index
    }

    /// Whether the bell rings, or the task at `index`, just pushed, took the last slot.
    #[inline(always)]
    pub(crate) fn calls(&self, index: usize) -> bool {
        index >= self.own.limit.load(Ordering::Relaxed)
    }

    /// Takes back the task at `index`, the newest, if no thief took it.
    ///
    /// # Safety
    /// Called by the owner alone; `index` came from the last push that has not been popped.
    #[inline(always)]
    pub(crate) unsafe fn pop(&self, index: usize) -> Popped {
        let own = &*self.own;
        debug_assert!(own.head.load(Ordering::Relaxed) == index + 1);
        own.head.store(index, Ordering::Release);
        // Lemma D3: either this load sees the closed floor, or the raider sees the head that was just stored.
        light();
        if index >= own.floor.load(Ordering::Relaxed) { Popped::Back } else { self.pop_shown(index) }
    }

    /// The task may be shared or stolen, or a raid may be on its way.
    #[cold]
    #[inline(never)]
    fn pop_shown(&self, index: usize) -> Popped {
        let shown = self.move_split(|shown| {
            if shown.tail > index {
                return shown;
            }
            let left = index - shown.tail;
            let split = if !self.own.raids {
                // Nothing may become private again.
                shown.split.min(index)
            } else if shown.mover != NO_MOVER || self.rings() {
                // This may call a raid off, and an owner may pop for long and not push: so it answers here too.
                shown.tail + left.div_ceil(2)
            } else {
                // Half of what remains shared is taken back too, so that the next pops need not ask.
                shown.split.min(shown.tail + left / 2)
            };
            Shown { split, ..shown }
        });
        if shown.split > shown.tail {
            self.asked_at.store(0, Ordering::Relaxed);
        }
        if shown.tail <= index {
            return Popped::Back;
        }
        // Lemma D2: a slot is free again when its thief has read it.
        self.wait_for_readers(index..index + 1);
        self.move_split(|shown| Shown { tail: index, split: index, ..shown });
        Popped::Stolen
    }

    /// Waits until the slots, which thieves have claimed, have been read.
    fn wait_for_readers(&self, claimed: Range<usize>) {
        for index in claimed {
            let mut tries = 0;
            while !self.slot(index).load(Ordering::Acquire).is_null() {
                back_off(tries);
                tries += 1;
            }
        }
    }

    /// A slot that the caller has a right to look at: the owner, or a thief between its claim and its reading.
    fn slot(&self, index: usize) -> &AtomicPtr<T> {
        // SAFETY: indices are below the head, and the slots stay where they are while a thief has a claim (Lemma D5).
        unsafe { &*self.own.slots.load(Ordering::Relaxed).add(index) }
    }

    /// Twice as many slots.
    #[cold]
    fn grow(&self) {
        let (old, capacity) = (self.own.slots.load(Ordering::Relaxed), self.own.capacity.load(Ordering::Relaxed));
        assert!(
            capacity < MOST_SLOTS,
            "a worker has {capacity} joins under way inside of each other: a recursion without end?"
        );
        let new = allocate(2 * capacity);
        // Lemma D5: nothing is shared and no raid begins, so no thief can claim; and those that have claimed have
        // read.
        let (before, shown) = self.begin_move(|shown| Shown { split: shown.tail, ..shown });
        self.wait_for_readers(0..shown.tail);
        for index in shown.tail..capacity {
            // SAFETY: both have that many slots.
            unsafe { (*new.add(index)).store((*old.add(index)).load(Ordering::Relaxed), Ordering::Relaxed) }
        }
        self.own.slots.store(new, Ordering::Relaxed);
        self.own.capacity.store(2 * capacity, Ordering::Relaxed);
        // A bell that rings goes on, and stops only for what it rang for. In some pools it never stops.
        let limits = (capacity - 1, 2 * capacity - 1);
        let _ = self.own.limit.compare_exchange(limits.0, limits.1, Ordering::Relaxed, Ordering::Relaxed);
        self.open_floor(before.split);
        // No other thread changes the word meanwhile, so a store will do.
        let reopened = Shown { split: before.split, mover: NO_MOVER, ..shown };
        self.shown.store(reopened.pack(), Ordering::Release);
        // SAFETY: no thread but the owner looks at slots without a claim.
        unsafe { free(old, capacity) }
    }

    /// Moves the ends of the shared part, and calls off every raid that has begun (Lemma D4). Returns what it moved to.
    fn move_split(&self, to: impl Fn(Shown) -> Shown) -> Shown {
        let (_, moved) = self.begin_move(to);
        self.open_floor(moved.split);
        // From here on a raid may begin, and closes the floor after it was opened.
        self.shown.fetch_and(!Shown::MOVER, Ordering::AcqRel);
        moved
    }

    /// The first half of a move: no raid begins until the mover is cleared. Returns what was before, and what is now.
    fn begin_move(&self, to: impl Fn(Shown) -> Shown) -> (Shown, Shown) {
        let mut now = self.shown.load(Ordering::Acquire);
        loop {
            let before = Shown::unpack(now);
            let moved = Shown { mover: OWNER, ..to(before) };
            match self.shown.compare_exchange_weak(now, moved.pack(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return (before, moved),
                Err(meanwhile) => now = meanwhile,
            }
        }
    }

    fn open_floor(&self, split: usize) {
        if self.own.raids {
            self.own.floor.store(split, Ordering::Relaxed);
        }
    }

    /// For an owner that met the bell, or took the last slot by a push: makes room, and shares half, if nothing is
    /// shared.
    ///
    /// # Safety
    /// Called by the owner alone.
    pub(crate) unsafe fn answer(&self) {
        if self.own.head.load(Ordering::Relaxed) == self.own.capacity.load(Ordering::Relaxed) {
            self.grow();
        }
        self.asked_at.store(0, Ordering::Relaxed);
        let shown = Shown::unpack(self.shown.load(Ordering::Acquire));
        if shown.tail == shown.split || !self.own.raids {
            let private = self.own.head.load(Ordering::Relaxed) - shown.split;
            self.share(shown.split + if self.own.raids { private.div_ceil(2) } else { private });
        }
    }

    fn share(&self, up_to: usize) {
        self.move_split(|shown| Shown { split: shown.split.max(up_to), ..shown });
    }

    /// Takes the oldest task of the own deque, as a thief would: for an owner that waits inside of a frame.
    ///
    /// # Safety
    /// Called by the owner alone.
    pub(crate) unsafe fn take_oldest(&self) -> Option<NonNull<T>> {
        if self.is_empty() {
            return None;
        }
        self.share(self.own.head.load(Ordering::Relaxed));
        self.steal()
    }

    /// Stops the bell. A thread that rings from now on is heard at the next push.
    ///
    /// # Safety
    /// Called by the owner alone.
    pub(crate) unsafe fn silence(&self) {
        let last = self.own.capacity.load(Ordering::Relaxed) - 1;
        // A swap, not a store: what a ringer wrote before it rang is visible afterwards.
        self.own.limit.swap(if self.own.raids { last } else { RINGING }, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Whether the bell stops when it has been answered.
    pub(crate) fn can_be_silent(&self) -> bool {
        self.own.raids
    }

    /// Whether the bell rings.
    #[inline(always)]
    pub(crate) fn rings(&self) -> bool {
        self.own.limit.load(Ordering::Relaxed) == RINGING
    }

    // What any thread may ask.

    /// Whether there is no task, private ones included.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many tasks there are, private ones included. Exact for the owner; for others, at some time lately.
    pub(crate) fn len(&self) -> usize {
        let tail = Shown::unpack(self.shown.load(Ordering::Acquire)).tail;
        self.own.head.load(Ordering::Acquire).saturating_sub(tail)
    }

    /// Takes the oldest task that is shared.
    pub(crate) fn steal(&self) -> Option<NonNull<T>> {
        let mut stolen = None;
        self.claim(1, |task| stolen = Some(task));
        stolen
    }

    /// Takes all tasks that are shared at once, the oldest first: mugging, after a raid.
    pub(crate) fn steal_all(&self, take: impl FnMut(NonNull<T>)) {
        self.claim(MOST_SLOTS, take);
    }

    fn claim(&self, most: usize, mut take: impl FnMut(NonNull<T>)) {
        let mut now = self.shown.load(Ordering::Acquire);
        loop {
            let shown = Shown::unpack(now);
            let claimed = shown.tail..shown.split.min(shown.tail + most);
            if claimed.is_empty() {
                return;
            }
            let left = Shown { tail: claimed.end, ..shown };
            match self.shown.compare_exchange_weak(now, left.pack(), Ordering::AcqRel, Ordering::Acquire) {
                Err(meanwhile) => now = meanwhile,
                Ok(_) => {
                    for index in claimed {
                        // Lemma D2: no other thread writes the slot between the claim and its clearing.
                        let slot = self.slot(index);
                        let task = slot.load(Ordering::Relaxed);
                        slot.store(ptr::null_mut(), Ordering::Release);
                        take(NonNull::new(task).expect("a claimed slot holds a task"));
                    }
                    return;
                }
            }
        }
    }

    /// Makes the owner's next push hear the bell. A thread that must be heard fences before.
    pub(crate) fn ring(&self) {
        if !self.rings() {
            // A swap, where a store would do, because loom may order a store before a compare-and-swap that missed it.
            self.own.limit.swap(RINGING, Ordering::Release);
        }
    }

    /// Asks the owner to share; `now` is some clock's reading, not 0. Returns since when it has been asked without an
    /// answer.
    pub(crate) fn ask(&self, now: u64) -> u64 {
        let asked = self.asked_at.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        self.ring();
        asked.map_or_else(|before| before, |_| now)
    }

    /// Whether the caller is the one to raid, of all that see an owner that was asked at `asked`: the others wait for
    /// as long again.
    pub(crate) fn may_raid(&self, asked: u64, now: u64) -> bool {
        self.asked_at.compare_exchange(asked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Shares everything that is private, over the owner's head. `raider` is the caller's number in its pool.
    ///
    /// The owner may be anywhere, preempted included. If it moves `split` meanwhile, the raid is called off, and the
    /// owner has answered. Costs a barrier on every core that runs a thread of this process, 10 µs or so.
    pub(crate) fn raid(&self, raider: u32) {
        let me = raider + 1;
        let begin = |word| {
            let shown = Shown::unpack(word);
            (shown.mover != OWNER && shown.tail == shown.split).then(|| Shown { mover: me, ..shown }.pack())
        };
        if self.shown.fetch_update(Ordering::AcqRel, Ordering::Acquire, begin).is_err() {
            return;
        }
        self.own.floor.store(CLOSED, Ordering::Relaxed);
        // Lemma D3: afterwards every pop that did not see the closed floor shows in `head`.
        if !heavy() {
            return;
        }
        let head = self.own.head.load(Ordering::Acquire);
        let finish = |word| {
            let shown = Shown::unpack(word);
            (shown.mover == me).then(|| Shown { split: head.max(shown.split), mover: NO_MOVER, ..shown }.pack())
        };
        // Lemma D4: if the mover is still this one, no pop has got past the closed floor.
        if self.shown.fetch_update(Ordering::AcqRel, Ordering::Acquire, finish).is_ok() {
            self.asked_at.store(0, Ordering::Relaxed);
        }
    }

    /// Whether a raid is under way.
    pub(crate) fn is_raided(&self) -> bool {
        ![NO_MOVER, OWNER].contains(&Shown::unpack(self.shown.load(Ordering::Relaxed)).mover)
    }
}

impl<T> Drop for Deque<T> {
    fn drop(&mut self) {
        // SAFETY: no other thread has the deque any more.
        unsafe { free(self.own.slots.load(Ordering::Relaxed), self.own.capacity.load(Ordering::Relaxed)) }
    }
}

fn allocate<T>(slots: usize) -> *mut AtomicPtr<T> {
    let slots: Box<[AtomicPtr<T>]> = (0..slots).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
    Box::into_raw(slots).cast()
}

/// # Safety
/// `slots` came from [`allocate`] with this many, and no thread uses them any more.
unsafe fn free<T>(slots: *mut AtomicPtr<T>, capacity: usize) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(slots, capacity)) });
}
