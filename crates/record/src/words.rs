//! The words that the steps read and write, each by its number.

use std::any::Any;
use std::cell::Cell;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::thread;

use comity_policy::WorkerId;
use comity_protocol::activation::Books;
use comity_protocol::platform::{Counter, Lock, Once, Parker, Platform, Waker, Word};
use comity_protocol::sleep::Roles;

use crate::Recorded;
use crate::answer::Answer;
use crate::tape::{self, Mode, asks, mode, says};

thread_local! {
    static NEXT: Cell<u32> = const { Cell::new(0) };
}

/// The words that this thread makes from now on are numbered from 0. A pool's are made by one thread, in one order.
pub fn number_words() {
    NEXT.set(0);
}

/// Something of a platform's, with its number.
pub struct Named<W> {
    number: u32,
    word: W,
}

fn named<W>(word: W) -> Named<W> {
    let number = NEXT.get();
    NEXT.set(number + 1);
    Named { number, word }
}

impl<W> Deref for Named<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.word
    }
}

impl<P: Platform> Platform for Recorded<P> {
    type Bool = Named<P::Bool>;
    type Word = Named<P::Word>;
    type Counter = Named<P::Counter>;
    type Parker = Named<P::Parker>;
    type Lock<T: 'static> = Named<P::Lock<T>>;
    type Once<T> = Named<P::Once<T>>;

    fn bool(&self, owner: Option<WorkerId>, value: bool) -> Named<P::Bool> {
        named(self.0.bool(owner, value))
    }

    fn word(&self, owner: Option<WorkerId>, value: u32) -> Named<P::Word> {
        named(self.0.word(owner, value))
    }

    fn counter(&self) -> Named<P::Counter> {
        named(self.0.counter())
    }

    fn parker(&self, owner: WorkerId, value: u32) -> Named<P::Parker> {
        named(self.0.parker(owner, value))
    }

    fn lock<T: 'static>(&self, value: T) -> Named<P::Lock<T>> {
        named(self.0.lock(value))
    }

    fn once<T>(&self) -> Named<P::Once<T>> {
        named(self.0.once())
    }

    fn fence(&self, order: Ordering) {
        says(format_args!("fence {order:?}"));
        self.0.fence(order);
    }

    fn light(&self) {
        says(format_args!("light"));
        self.0.light();
    }

    fn heavy(&self) -> bool {
        asks(format_args!("heavy"), || self.0.heavy())
    }
}

impl<W> Named<W> {
    /// A step on the word. In a replay the word is first `put` to what other threads had made of it, and must then
    /// answer as it did.
    fn step<T, A>(&self, line: std::fmt::Arguments<'_>, put: impl FnOnce(&W, &A), step: impl FnOnce(&W) -> A) -> A
    where
        A: Answer + PartialEq + Debug,
        W: Word<T>,
    {
        match mode() {
            Mode::Off => step(&self.word),
            Mode::Records => {
                let answer = step(&self.word);
                tape::write(line, &answer);
                answer
            }
            Mode::Replays => {
                let recorded = tape::read(line);
                put(&self.word, &recorded);
                let answer = step(&self.word);
                assert!(answer == recorded, "`{line}` was answered with {recorded:?}, and now with {answer:?}");
                answer
            }
        }
    }
}

impl<T: Answer + Copy + PartialEq + Debug, W: Word<T>> Word<T> for Named<W> {
    fn load(&self, order: Ordering) -> T {
        let line = format_args!("load {} {order:?}", self.number);
        self.step(line, |word, was| word.store(*was, Ordering::Relaxed), |word| word.load(order))
    }

    fn store(&self, value: T, order: Ordering) {
        says(format_args!("store {} {value:?} {order:?}", self.number));
        self.word.store(value, order);
    }

    fn compare_exchange(&self, current: T, new: T, success: Ordering, failure: Ordering) -> Result<T, T> {
        let line = format_args!("compare_exchange {} {current:?} {new:?} {success:?} {failure:?}", self.number);
        let put = |word: &W, (Ok(was) | Err(was)): &Result<T, T>| word.store(*was, Ordering::Relaxed);
        self.step(line, put, |word| word.compare_exchange(current, new, success, failure))
    }
}

impl<W: Counter> Counter for Named<W> {
    fn fetch_add(&self, summand: i32, order: Ordering) -> i32 {
        let line = format_args!("fetch_add {} {summand} {order:?}", self.number);
        self.step(line, |word, was| word.store(*was, Ordering::Relaxed), |word| word.fetch_add(summand, order))
    }

    fn fetch_sub(&self, summand: i32, order: Ordering) -> i32 {
        let line = format_args!("fetch_sub {} {summand} {order:?}", self.number);
        self.step(line, |word, was| word.store(*was, Ordering::Relaxed), |word| word.fetch_sub(summand, order))
    }

    /// The answer is what it was, and what it was replaced by.
    fn fetch_update(
        &self,
        set: Ordering,
        fetch: Ordering,
        mut next: impl FnMut(i32) -> Option<i32>,
    ) -> Result<i32, i32> {
        let line = format_args!("fetch_update {} {set:?} {fetch:?}", self.number);
        let put = |word: &W, (Ok(was) | Err(was), _): &(Result<i32, i32>, Option<i32>)| {
            word.store(*was, Ordering::Relaxed);
        };
        let step = |word: &W| {
            let mut last = None;
            let was = word.fetch_update(set, fetch, |value| {
                last = next(value);
                last
            });
            (was, last)
        };
        self.step(line, put, step).0
    }
}

impl<W: Parker> Parker for Named<W> {
    fn wake(&self, waker: Waker) {
        says(format_args!("wake {} {waker:?}", self.number));
        self.word.wake(waker);
    }
}

impl<T: 'static, L: Lock<T>> Lock<T> for Named<L> {
    type Guard<'a>
        = Held<L::Guard<'a>, T>
    where
        Self: 'a,
        T: 'a;

    fn lock(&self) -> Held<L::Guard<'_>, T> {
        let mut guard = self.word.lock();
        let line = format_args!("lock {}", self.number);
        match mode() {
            Mode::Off => return Held { guard, logs: None, value: PhantomData },
            Mode::Records => tape::write(line, &numbers(&*guard)),
            Mode::Replays => {
                let Found(was) = tape::read(line);
                *guard = value(&was);
            }
        }
        Held { guard, logs: Some(self.number), value: PhantomData }
    }
}

/// What has the lock.
pub struct Held<G: DerefMut<Target = T>, T: 'static> {
    guard: G,
    /// The lock's number, if what is left behind is of interest.
    logs: Option<u32>,
    value: PhantomData<fn() -> T>,
}

impl<G: DerefMut<Target = T>, T: 'static> Deref for Held<G, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<G: DerefMut<Target = T>, T: 'static> DerefMut for Held<G, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<G: DerefMut<Target = T>, T: 'static> Drop for Held<G, T> {
    fn drop(&mut self) {
        if let Some(number) = self.logs
            && !thread::panicking()
        {
            let Found(left) = numbers(&*self.guard);
            says(format_args!("unlock {number} {left:?}"));
        }
    }
}

/// The numbers of what a lock is around.
struct Found(Vec<u64>);

impl Answer for Found {
    fn put(&self, to: &mut Vec<u64>) {
        to.extend(&self.0);
    }

    fn take(from: &mut crate::answer::Numbers<'_>) -> Option<Found> {
        Some(Found(from.collect()))
    }
}

fn numbers(value: &dyn Any) -> Found {
    if let Some(books) = value.downcast_ref::<Books>() {
        return Found(books.to_numbers());
    }
    let Roles { busy, thieves, sleepers } = value.downcast_ref().expect("a pool has locks around these two");
    Found([busy, thieves, sleepers].map(|count| u64::from(*count)).to_vec())
}

fn value<T: 'static>(numbers: &[u64]) -> T {
    let books = || Books::of_numbers(&mut numbers.iter().copied());
    let roles = || match numbers.iter().map(|count| *count as u32).collect::<Vec<_>>()[..] {
        [busy, thieves, sleepers] => Some(Roles { busy, thieves, sleepers }),
        _ => None,
    };
    let is = |value: Option<Box<dyn Any>>| value.and_then(|value| value.downcast::<T>().ok());
    let found = is(books().map(|books| Box::new(books) as _)).or_else(|| is(roles().map(|roles| Box::new(roles) as _)));
    *found.expect("these numbers are what the lock is around")
}

impl<T, O: Once<T>> Once<T> for Named<O> {
    fn get(&self) -> Option<&T> {
        let is_there = asks(format_args!("get {}", self.number), || self.word.get().is_some());
        self.word.get().filter(|_| is_there)
    }

    fn set(&self, value: T) -> &T {
        self.word.set(value)
    }
}
