//! The split deque: it holds a worker's own tasks, and shares only the tasks that thieves ask for.
//!
//! ```text
//!    0        tail           split          head
//!    │ stolen │    shared    │   private    │  free …
//!               ▲ thieves      ▲ a raid       ▲ the owner
//! ```
//!
//! The owner pushes and pops above `split` with plain loads and stores. A thief takes the oldest shared task with one
//! compare-and-swap. A thief that finds no shared task rings the bell: it changes a word that the owner reads at each
//! push. The owner then shares tasks. If the owner does not push for long, a thief *raids*: it shares the private
//! tasks itself. A raid interrupts every core of the process with a barrier, so that the owner needs no fence in its
//! pushes and pops.
//!
//! The crate's `README.md` has the protocol with its proof. Comments at the steps below name its lemmas.
//!
//! For its owner, the deque is a stack: the newest task is popped first, by the frame that pushed it. The deque grows
//! with the owner's call stack.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ops::Range;
use std::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use super::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, back_off, fence, heavy, light};

/// The number of slots of a new deque. The deque grows if a worker has more joins under way.
const SLOTS: usize = if cfg!(loom) { 2 } else { 1024 };

/// The maximum number of slots, limited by the width of the indices in [`Shown`]. A call stack with this number of
/// joins has 512 MiB or more.
const MOST_SLOTS: usize = 1 << 22;

/// The value of `limit` while the bell rings: every index is at or above it, so every push sees the bell.
const RINGING: usize = 0;

/// The value of `floor` while every pop must check `shown`: every index is below it.
const CLOSED: usize = usize::MAX;

/// The value of [`Shown::mover`] while no thread has begun to move `split`.
const NO_MOVER: u32 = 0;
/// The value of [`Shown::mover`] while the owner moves `split`.
const OWNER: u32 = (1 << (64 - 2 * Shown::BITS)) - 1;

/// The one word that thieves change: the ends `tail` and `split` of the shared part, and the thread that has begun to
/// move `split`.
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
    /// The bits of the word that hold the mover.
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

/// The fate of a task that a frame had pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Popped {
    /// The task belongs to the owner again.
    Back,
    /// A thief has the task.
    Stolen,
}

/// A deque of pointers to tasks. The owner's operations are unsafe, because only one thread may call them.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `head` | the owner, at every push and pop | thieves that look for private tasks |
/// | `floor` | the owner, as `split` moves; a raider closes it | the owner, at every pop |
/// | `limit` | any thread rings; the owner silences | the owner, at every push |
/// | `slots` | the owner writes, a thief clears what it took; the owner moves them | thieves, after they have claimed |
/// | `shown` | thieves, raiders, and the owner off its fast path | all threads |
/// | `asked_at` | the first thief that rings, and the thread that answers | thieves |
pub(crate) struct Deque<T> {
    own: CachePadded<Own<T>>,
    shown: CachePadded<AtomicU64>,
    asked_at: AtomicU64,
}

struct Own<T> {
    head: AtomicUsize,
    /// A pop at this index or above need not check `shown`.
    floor: AtomicUsize,
    /// A push at a lower index than this needs no further step. The value is the index of the last slot, or
    /// [`RINGING`].
    limit: AtomicUsize,
    slots: AtomicPtr<AtomicPtr<T>>,
    /// The number of slots. Only the owner reads it.
    capacity: AtomicUsize,
    /// True if the barrier that raids need is available. Otherwise each task is shared as soon as it is pushed, and
    /// each pop checks `shown`.
    raids: bool,
}

impl<T> Deque<T> {
    /// Returns an empty deque. `raids` is true if [`heavy`] works on this system.
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

    // Functions for the owner.

    /// Pushes a task and returns its index. If [`Deque::calls`] is true for the index, [`Deque::answer`] must follow.
    ///
    /// # Safety
    /// Only the owner calls this. The index goes to [`Deque::pop`] after the indices of all later pushes.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, task: NonNull<T>) -> usize {
        let own = &*self.own;
        let index = own.head.load(Ordering::Relaxed);
        debug_assert!(index < own.capacity.load(Ordering::Relaxed));
        // SAFETY: the head stays within the slots, because the push into the last slot makes room for the next push.
        unsafe { &*own.slots.load(Ordering::Relaxed).add(index) }.store(task.as_ptr(), Ordering::Relaxed);
        // Lemma D1: a thread that sees the new head also sees the task and all that it points to.
        own.head.store(index + 1, Ordering::Release);
        light();
        index
    }

    /// True if the bell rings, or if the task at `index`, just pushed, took the last slot.
    #[inline(always)]
    pub(crate) fn calls(&self, index: usize) -> bool {
        index >= self.own.limit.load(Ordering::Relaxed)
    }

    /// Takes back the newest task, which is at `index`, unless a thief took it.
    ///
    /// # Safety
    /// Only the owner calls this. `index` came from the last push that has not been popped.
    #[inline(always)]
    pub(crate) unsafe fn pop(&self, index: usize) -> Popped {
        let own = &*self.own;
        debug_assert!(own.head.load(Ordering::Relaxed) == index + 1);
        own.head.store(index, Ordering::Release);
        // Lemma D3: either this load sees the closed floor, or the raider sees the head that was just stored.
        light();
        if index >= own.floor.load(Ordering::Relaxed) { Popped::Back } else { self.pop_shown(index) }
    }

    /// Pops the task at `index` when it may be shared or stolen, or when a raid may be under way.
    #[cold]
    #[inline(never)]
    fn pop_shown(&self, index: usize) -> Popped {
        let shown = self.move_split(|shown| {
            if shown.tail > index {
                return shown;
            }
            let left = index - shown.tail;
            let split = if !self.own.raids {
                // No task may become private again.
                shown.split.min(index)
            } else if shown.mover != NO_MOVER || self.rings() {
                // This pop may cancel a raid, and the owner may pop for long before its next push. So the owner
                // shares half of the remaining tasks here too.
                shown.tail + left.div_ceil(2)
            } else {
                // At most half of the remaining tasks stay shared, so that the next pops need not check `shown`.
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

    /// Waits until thieves have read the slots that they have claimed.
    fn wait_for_readers(&self, claimed: Range<usize>) {
        for index in claimed {
            let mut tries = 0;
            while !self.slot(index).load(Ordering::Acquire).is_null() {
                back_off(tries);
                tries += 1;
            }
        }
    }

    /// Returns a slot that the caller may read: the owner, or a thief between its claim and its read.
    fn slot(&self, index: usize) -> &AtomicPtr<T> {
        // SAFETY: indices are below the head, and the slots do not move while a thief has a claim (Lemma D5).
        unsafe { &*self.own.slots.load(Ordering::Relaxed).add(index) }
    }

    /// Doubles the number of slots.
    #[cold]
    fn grow(&self) {
        let (old, capacity) = (self.own.slots.load(Ordering::Relaxed), self.own.capacity.load(Ordering::Relaxed));
        assert!(
            capacity < MOST_SLOTS,
            "a worker has {capacity} nested joins, the maximum. Check the program for endless recursion"
        );
        let new = allocate(2 * capacity);
        // Lemma D5: nothing is shared and no raid begins, so no thief can claim a slot. After the wait, thieves that
        // had claimed a slot have read it.
        let (before, shown) = self.begin_move(|shown| Shown { split: shown.tail, ..shown });
        self.wait_for_readers(0..shown.tail);
        for index in shown.tail..capacity {
            // SAFETY: both arrays have that many slots.
            unsafe { (*new.add(index)).store((*old.add(index)).load(Ordering::Relaxed), Ordering::Relaxed) }
        }
        self.own.slots.store(new, Ordering::Relaxed);
        self.own.capacity.store(2 * capacity, Ordering::Relaxed);
        // A bell that rings continues to ring: only an answer stops it. In some pools it never stops.
        let limits = (capacity - 1, 2 * capacity - 1);
        let _ = self.own.limit.compare_exchange(limits.0, limits.1, Ordering::Relaxed, Ordering::Relaxed);
        self.open_floor(before.split);
        // No other thread changes the word meanwhile, so a store suffices.
        let reopened = Shown { split: before.split, mover: NO_MOVER, ..shown };
        self.shown.store(reopened.pack(), Ordering::Release);
        // SAFETY: no thread but the owner reads slots without a claim.
        unsafe { free(old, capacity) }
    }

    /// Moves the ends of the shared part, and cancels every raid that has begun (Lemma D4). Returns the new ends.
    fn move_split(&self, to: impl Fn(Shown) -> Shown) -> Shown {
        let (_, moved) = self.begin_move(to);
        self.open_floor(moved.split);
        // From here on a raid may begin. It closes the floor after this thread has opened it.
        self.shown.fetch_and(!Shown::MOVER, Ordering::AcqRel);
        moved
    }

    /// Does the first half of a move of `split`: no raid begins until the mover is cleared. Returns the old and the
    /// new word.
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

    /// Answers the bell, or makes room after a push that took the last slot. Shares half of the private tasks if
    /// nothing is shared.
    ///
    /// # Safety
    /// Only the owner calls this.
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

    /// Takes the oldest task of the owner's deque, as a thief would. Called by an owner that waits inside of a frame.
    ///
    /// # Safety
    /// Only the owner calls this.
    pub(crate) unsafe fn take_oldest(&self) -> Option<NonNull<T>> {
        if self.is_empty() {
            return None;
        }
        self.share(self.own.head.load(Ordering::Relaxed));
        self.steal()
    }

    /// Stops the bell. If a thread rings from now on, the owner's next push sees that.
    ///
    /// # Safety
    /// Only the owner calls this.
    pub(crate) unsafe fn silence(&self) {
        let last = self.own.capacity.load(Ordering::Relaxed) - 1;
        // A swap and not a store, so that this thread then sees what a ringer wrote before it rang.
        self.own.limit.swap(if self.own.raids { last } else { RINGING }, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// True if the bell stops when it has been answered.
    pub(crate) fn can_be_silent(&self) -> bool {
        self.own.raids
    }

    /// True if the bell rings.
    #[inline(always)]
    pub(crate) fn rings(&self) -> bool {
        self.own.limit.load(Ordering::Relaxed) == RINGING
    }

    // Functions that any thread may call.

    /// True if there is no task, shared or private.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of tasks, shared and private. It is exact for the owner. Other threads get the number of a recent
    /// moment.
    pub(crate) fn len(&self) -> usize {
        let tail = Shown::unpack(self.shown.load(Ordering::Acquire)).tail;
        self.own.head.load(Ordering::Acquire).saturating_sub(tail)
    }

    /// Takes the oldest shared task.
    pub(crate) fn steal(&self) -> Option<NonNull<T>> {
        let mut stolen = None;
        self.claim(1, |task| stolen = Some(task));
        stolen
    }

    /// Takes all shared tasks at once, the oldest first. Mugging does this after a raid.
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
                        // Lemma D2: no other thread writes the slot between the claim and the store that clears it.
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

    /// Rings the bell, so that the owner's next push sees it. A caller whose ring must not be missed executes a fence
    /// before.
    pub(crate) fn ring(&self) {
        if !self.rings() {
            // A swap, although a store suffices, because loom may order a store before a compare-and-swap that missed
            // it.
            self.own.limit.swap(RINGING, Ordering::Release);
        }
    }

    /// Asks the owner to share tasks. `now` is the reading of a clock, not 0. Returns the time of the first request
    /// that the owner has not answered.
    pub(crate) fn ask(&self, now: u64) -> u64 {
        let asked = self.asked_at.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        self.ring();
        asked.map_or_else(|before| before, |_| now)
    }

    /// True if the caller must raid the owner, which has not answered since `asked`. The time of the request becomes
    /// `now`, so that other thieves wait before they raid too.
    pub(crate) fn may_raid(&self, asked: u64, now: u64) -> bool {
        self.asked_at.compare_exchange(asked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Shares everything that is private, without the owner. `raider` is the caller's number in its pool.
    ///
    /// The owner may run any code, and may be preempted. If the owner moves `split` during the raid, it has answered,
    /// and the raid is cancelled. A raid costs a barrier on every core that runs a thread of this process, about 10
    /// µs.
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
        // Lemma D3: after the barrier, every pop that did not see the closed floor is visible in `head`.
        if !heavy() {
            return;
        }
        let head = self.own.head.load(Ordering::Acquire);
        let finish = |word| {
            let shown = Shown::unpack(word);
            (shown.mover == me).then(|| Shown { split: head.max(shown.split), mover: NO_MOVER, ..shown }.pack())
        };
        // Lemma D4: if this thread is still the mover, no pop has passed the closed floor.
        if self.shown.fetch_update(Ordering::AcqRel, Ordering::Acquire, finish).is_ok() {
            self.asked_at.store(0, Ordering::Relaxed);
        }
    }

    /// True if a raid is under way.
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
/// `slots` came from [`allocate`] with this number of slots, and no thread uses them any more.
unsafe fn free<T>(slots: *mut AtomicPtr<T>, capacity: usize) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(slots, capacity)) });
}
