//! A program that waits for a core, under loom. It watches a core that was released a moment ago, because it may
//! claim the core only later. A worker and the coordinator of the program run together with a program that releases a
//! core. The test fails if the core is free and nothing makes the coordinator look again. The steps are those of
//! `comity_protocol::table`. The table and the bell are a model of the shared memory of `comity_table`.

use comity_protocol::table::{self, Table};
use comity_protocol::{CoreSet, CoreWord, SlotId};
use loom::sync::Arc;

use crate::raw::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, beside, explore, fence};

const WAITS: usize = 0;
const LEAVES: usize = 1;
const BORROWS: usize = 2;

fn slot(index: usize) -> SlotId {
    SlotId::new(index).expect("there are as many")
}

/// The way in which a program gives up its core.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Released,
    /// The owner takes back the core, which another program borrows, and leaves it free for a worker that it wakes.
    /// That worker does not use the core.
    Reclaimed,
}

/// A core, and the state of the programs. With `own`, the owner of the core is the program that waits, else the
/// program that gives the core up.
struct Shared {
    core: AtomicU64,
    wanting: AtomicBool,
    waits: AtomicBool,
    watches: AtomicBool,
    /// The number of times that the bell of the waiting program was rung.
    bell: AtomicU32,
}

impl Shared {
    fn new(own: bool, left: Left) -> Arc<Shared> {
        let owner = slot(if own { WAITS } else { LEAVES });
        let holder = slot(if left == Left::Released { LEAVES } else { BORROWS });
        let word = CoreWord::UNUSED.granted(Some(owner)).and_then(|word| word.claimed(holder));
        let core = AtomicU64::new(word.expect("it is free").to_bits());
        let [wanting, waits, watches] = [(); 3].map(|()| AtomicBool::new(false));
        Arc::new(Shared { core, wanting, waits, watches, bell: AtomicU32::new(0) })
    }

    fn table(&self, me: usize, is_old: bool) -> TestTable<'_> {
        TestTable { shared: self, me, is_old }
    }

    /// Makes the coordinator look. `is_old`: the core was released so long ago that it may be claimed. Returns true
    /// if the program has claimed a core. Also returns `Ok` if the coordinator looks again after a timeout, else the
    /// number of rings before the look.
    fn visit(&self, is_old: bool) -> (bool, Result<(), u32>) {
        let heard = self.bell.load(Ordering::Acquire);
        let table = self.table(WAITS, is_old);
        table::stop_watching(&table);
        let has_claimed = table::claim(&table, false).is_some();
        (has_claimed, table::watch(&table).map(drop).ok_or(heard))
    }
}

struct TestTable<'a> {
    shared: &'a Shared,
    me: usize,
    is_old: bool,
}

impl Table for TestTable<'_> {
    fn slot(&self) -> SlotId {
        slot(self.me)
    }

    fn cores(&self) -> CoreSet {
        [0].into_iter().collect()
    }

    fn load(&self, _: usize) -> CoreWord {
        CoreWord::from_bits(self.shared.core.load(Ordering::Acquire))
    }

    fn exchange(&self, _: usize, before: CoreWord, next: CoreWord) -> bool {
        let (before, next) = (before.to_bits(), next.to_bits());
        self.shared.core.compare_exchange(before, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn grant(&self, _: usize, _: CoreWord, _: CoreWord) {
        unreachable!("no owner changes");
    }

    fn beat(&self) {}

    fn is_stopped(&self, _: SlotId) -> bool {
        false
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn wants(&self, of: SlotId) -> bool {
        of.index() == WAITS && self.shared.wanting.load(Ordering::Acquire)
    }

    fn is_core_wanted(&self) -> bool {
        self.me != WAITS && self.shared.wanting.load(Ordering::Acquire)
    }

    fn set_wants(&self, wants: bool) {
        self.shared.wanting.store(wants, Ordering::Release);
    }

    fn waits(&self) -> bool {
        self.shared.waits.load(Ordering::Relaxed)
    }

    fn set_waits(&self, waits: bool) {
        self.shared.waits.store(waits, Ordering::Relaxed);
    }

    fn watches(&self) -> bool {
        self.shared.watches.load(Ordering::Relaxed)
    }

    fn set_watches(&self, watches: bool) {
        self.shared.watches.store(watches, Ordering::Relaxed);
    }

    fn lasts(&self, _: usize) -> u64 {
        u64::from(self.is_old)
    }

    fn lend_after(&self) -> u64 {
        1
    }

    fn ring(&self, to: SlotId) {
        if to.index() == WAITS {
            self.shared.bell.fetch_add(1, Ordering::Release);
        }
    }
}

/// The state of the waiting program before the model begins.
#[derive(Clone, Copy)]
enum Before {
    HasEnough,
    Waits,
    /// The program watches a core that is in use again. Its coordinator will look at the core again.
    Watches,
    /// The program watches a core that is in use again, but no longer needs a core.
    WatchesInVain,
}

impl Before {
    const ALL: [Before; 4] = [Before::HasEnough, Before::Waits, Before::Watches, Before::WatchesInVain];
}

/// Runs three threads: a worker begins to wait for a core, the coordinator looks, and another program gives up its
/// core.
fn a_core_is_left(own: bool, left: Left, is_old: bool) {
    let model = move |before: Before| {
        let shared = Shared::new(own, left);
        if matches!(before, Before::Waits | Before::Watches) {
            table::want(&shared.table(WAITS, false), true);
        }
        if matches!(before, Before::Watches | Before::WatchesInVain) {
            shared.watches.store(true, Ordering::Relaxed);
            shared.wanting.store(false, Ordering::Relaxed);
        }
        let leaves = beside(&shared, move |shared| {
            let table = shared.table(LEAVES, false);
            match left {
                Left::Released => assert!(table::release(&table, Some(0)).is_some()),
                Left::Reclaimed => table::reclaim(&table),
            }
        });
        let waits = beside(&shared, |shared| {
            let table = shared.table(WAITS, false);
            table::want(&table, true);
            // Claims like a worker that found no core and retires.
            table::any_free(&table) && table::claim(&table, false).is_some()
        });
        let (has_claimed, comes_again) = shared.visit(is_old);
        leaves.join().unwrap();
        let has_claimed = waits.join().unwrap() || has_claimed;
        let comes_by = comes_again != Err(shared.bell.load(Ordering::Acquire));
        assert!(has_claimed || comes_by, "the core is free, and nothing brings the coordinator by");
        if !has_claimed {
            // By then, the core may be claimed.
            assert!(shared.visit(true).0);
        }
    };
    Before::ALL.into_iter().for_each(|before| explore(3, move || model(before)));
}

#[test]
fn loom_a_core_that_is_left_is_claimed_or_watched() {
    [false, true].into_iter().for_each(|is_old| a_core_is_left(false, Left::Released, is_old));
}

#[test]
fn loom_a_core_that_is_called_back_is_claimed_or_watched() {
    [false, true].into_iter().for_each(|is_old| a_core_is_left(false, Left::Reclaimed, is_old));
}

#[test]
fn loom_a_core_of_its_own_that_is_left_is_claimed() {
    a_core_is_left(true, Left::Released, false);
}
