//! Requests to a program from outside (`comity set`), under loom: a setter runs together with the program's look,
//! with another setter, or with the next program that takes the slot. If a request is never seen, the test ends in a
//! deadlock. The bell is a model of the futex of `comity_table`. The words are those that `comity_table` uses.

use std::time::Duration;

use comity_protocol::orders::{Request, Requests, Words};
use comity_protocol::platform::Word as _;
use loom::sync::Arc;
use loom::thread;

use crate::raw::sync::{AtomicBool, FutexWord, Ordering, U64, Waker, explore};

/// The part of a slot of the table that requests use.
struct Slot {
    is_taken: AtomicBool,
    tenure: U64,
    asked: [U64; 3],
    asks: FutexWord,
}

/// The time at which requests are read: no pause is over.
const NOW: u64 = 0;
const HOUR: Duration = Duration::from_secs(3600);

impl Slot {
    /// Returns a slot that belongs to a program of this tenure.
    fn of(tenure: u64) -> Arc<Slot> {
        let asked = [0; 3].map(U64::new);
        let (is_taken, asks) = (AtomicBool::new(true), FutexWord::new(0));
        Arc::new(Slot { is_taken, tenure: U64::new(tenure), asked, asks })
    }

    fn words(&self) -> Words<'_, U64> {
        Words { tenure: &self.tenure, asked: self.asked.each_ref() }
    }

    /// Makes a request like `comity_table::request`.
    fn ask(&self, tenure: u64, request: Request) -> bool {
        let asked = self.words().ask(request, tenure, NOW, || self.is_taken.load(Ordering::Acquire));
        if asked {
            self.asks.fetch_add(1, Ordering::Release);
            self.asks.wake(Waker::GoesOn);
        }
        asked
    }

    /// Waits, like a program that has nothing else to do, until `is_so` is true for the requests.
    fn wait_until(&self, tenure: u64, is_so: impl Fn(Requests) -> bool) {
        loop {
            let heard = self.asks.load(Ordering::Acquire);
            if is_so(self.words().read(tenure)) {
                return;
            }
            self.asks.wait(heard, None);
        }
    }

    /// Ends the program and gives the slot to another program, like `comity_table::Member` with the slot's lock.
    fn changes_hands(&self) -> u64 {
        self.is_taken.store(false, Ordering::Release);
        let tenure = self.words().begin();
        self.is_taken.store(true, Ordering::Release);
        tenure
    }
}

fn spawn<R: 'static>(slot: &Arc<Slot>, does: impl FnOnce(&Slot) -> R + 'static) -> thread::JoinHandle<R> {
    let slot = slot.clone();
    thread::spawn(move || does(&slot))
}

#[test]
fn loom_a_request_reaches_a_program_that_has_nothing_to_do() {
    explore(3, || {
        let slot = Slot::of(1);
        let setter = spawn(&slot, |slot| slot.ask(1, Request::Pause(HOUR)));
        slot.wait_until(1, |asked| asked.paused_until == Some(HOUR.as_nanos() as u64));
        assert!(setter.join().unwrap());
    });
}

#[test]
fn loom_requests_of_two_setters_all_reach_the_program() {
    explore(3, || {
        let slot = Slot::of(1);
        let first = spawn(&slot, |slot| slot.ask(1, Request::Weight(Some(7))));
        let second = spawn(&slot, |slot| slot.ask(1, Request::Cores(Some(2))) && slot.ask(1, Request::Weight(Some(8))));
        slot.wait_until(1, |asked| asked.cores == Some(2) && asked.weight.is_some());
        assert!(first.join().unwrap() & second.join().unwrap());
        assert!(matches!(slot.words().read(1).weight, Some(7 | 8)), "one of them is the last");
    });
}

/// Checks a late setter, whose request is for the slot's previous program. Meanwhile another setter asks the current
/// program.
#[test]
fn loom_a_late_setter_neither_asks_the_next_program_nor_unmakes_what_it_is_asked() {
    explore(3, || {
        let slot = Slot::of(1);
        let late = spawn(&slot, |slot| slot.ask(1, Request::Weight(Some(7))));
        let other = spawn(&slot, |slot| slot.ask(2, Request::Weight(Some(8))));
        assert_eq!(slot.changes_hands(), 2);
        late.join().unwrap();
        let asked = Some(8).filter(|_| other.join().unwrap());
        assert_eq!(slot.words().read(2).weight, asked, "what a setter was told is so");
    });
}
