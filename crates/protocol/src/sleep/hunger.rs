//! The counter of [`Hungry`](super::hungry::Hungry): it packs the number of sleepers, whether a worker is searching,
//! and whether a thread answers for all workers that rest.
//!
//! The head of `hungry.rs` has the states, and explains *searching* and *answering*. Each state also has a number of
//! sleepers.
//!
//! # Invariants
//!
//! - One more sleeper, one sleeper less, and the end of a search are each one atomic addition, in any order.
//! - The counter is above zero if and only if it is hungry: no worker is searching, and there is a sleeper or was one
//!   when a thread answered.
//! - The number of sleepers is far below [`Hunger::SEARCH`], so it cannot hide a search.

/// The counter's value: the number of sleepers, plus [`Hunger::ANSWERED`] after a thread has answered, minus
/// [`Hunger::SEARCH`] while a worker is searching.
///
/// A push only checks whether the value is above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hunger(i32);

impl Hunger {
    /// The summand of one sleeper.
    pub(super) const SLEEPER: i32 = 1;

    /// The summand of a thread that answers for all workers that rest, or has done so. It is larger than any number
    /// of sleepers.
    const ANSWERED: i32 = 1 << 28;

    /// The value that a search subtracts while it lasts. It is far larger than any number of sleepers.
    pub(super) const SEARCH: i32 = 1 << 30;

    #[inline]
    pub(super) fn from_packed(packed: i32) -> Hunger {
        Hunger(packed)
    }

    #[inline]
    pub(super) fn packed(self) -> i32 {
        self.0
    }

    /// True if a worker is searching.
    #[inline]
    pub(super) fn search_is_on(self) -> bool {
        self.0 <= -Hunger::SEARCH / 2
    }

    /// Returns the number of workers that are ASLEEP, or are about to be, or were a moment ago.
    #[inline]
    pub(super) fn sleepers(self) -> i32 {
        if self.search_is_on() { self.0 + Hunger::SEARCH } else { self.0 % Hunger::ANSWERED }
    }

    /// True if a thread answers for all workers that rest, or has done so, and no search has begun since.
    #[inline]
    pub(super) fn is_answered(self) -> bool {
        self.0 >= Hunger::ANSWERED
    }

    /// True if a push must look for a sleeper: there is one, or was one when a thread answered, and no worker is
    /// searching.
    #[inline]
    pub(super) fn is_hungry(self) -> bool {
        self.0 > 0
    }

    /// Returns the value with one sleeper more.
    #[inline]
    pub(super) fn raised(self) -> Hunger {
        debug_assert!(self.sleepers() >= 0, "{self:?} has lost a sleeper");
        Hunger(self.0 + Hunger::SLEEPER)
    }

    /// Returns the value with one sleeper less. The sleeper must have been counted.
    #[inline]
    pub(super) fn lowered(self) -> Hunger {
        debug_assert!(self.sleepers() > 0, "{self:?} counts too few sleepers");
        Hunger(self.0 - Hunger::SLEEPER)
    }

    /// Returns the value after a thread began to answer for all workers that rest. `None`: the value is not hungry,
    /// or another thread answers.
    #[inline]
    pub(super) fn answered(self) -> Option<Hunger> {
        (self.is_hungry() && !self.is_answered()).then_some(Hunger(self.0 + Hunger::ANSWERED))
    }

    /// Returns the value after a search began. `None`: the value is not hungry.
    #[inline]
    pub(super) fn search_begins(self) -> Option<Hunger> {
        self.is_hungry().then_some(Hunger(self.sleepers() - Hunger::SEARCH))
    }

    /// Returns the value after a worker that is awake began to search, whether there are sleepers or not. `None`:
    /// another worker is searching.
    #[inline]
    pub(super) fn search_resumes(self) -> Option<Hunger> {
        (!self.search_is_on()).then_some(Hunger(self.sleepers() - Hunger::SEARCH))
    }

    /// Returns the value after the searching worker got a task or is about to rest.
    #[inline]
    pub(super) fn search_ended(self) -> Hunger {
        debug_assert!(self.search_is_on(), "{self:?} ends a search that never began");
        Hunger(self.0 + Hunger::SEARCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Hunger = Hunger(0);

    #[test]
    fn a_pool_is_hungry_while_a_sleeper_can_be_sent() {
        assert!(!NONE.is_hungry());
        assert!(NONE.raised().is_hungry());
        assert!(!NONE.raised().lowered().is_hungry());
        assert!(!NONE.raised().raised().search_begins().unwrap().is_hungry(), "one search at a time");
    }

    #[test]
    fn a_search_begins_only_in_a_hungry_pool_and_never_beside_another() {
        assert_eq!(NONE.search_begins(), None);
        let out = NONE.raised().search_begins().unwrap();
        assert!(out.search_is_on());
        assert_eq!(out.raised().search_begins(), None);
        assert_eq!(out.raised().search_resumes(), None);
    }

    #[test]
    fn a_search_that_ended_resumes_though_no_worker_sleeps() {
        let returned = NONE.raised().search_begins().unwrap().lowered().search_ended();
        assert_eq!(returned, NONE);
        assert!(returned.search_resumes().unwrap().search_is_on());
    }

    #[test]
    fn sleepers_are_counted_during_a_search_and_without_one() {
        let mut hunger = NONE.raised();
        for sleepers in 1..1000 {
            assert_eq!((hunger.sleepers(), hunger.search_is_on()), (sleepers, false));
            let out = hunger.search_begins().unwrap();
            assert_eq!((out.sleepers(), out.search_is_on()), (sleepers, true));
            assert_eq!(out.lowered().raised(), out);
            assert_eq!(out.search_ended(), hunger);
            hunger = hunger.raised();
        }
    }

    /// The shell adds these summands to the counter without reading it first.
    #[test]
    fn the_summands_are_the_transitions() {
        for hunger in [NONE.raised(), NONE.raised().raised().search_begins().unwrap()] {
            assert_eq!(hunger.raised().packed(), hunger.packed() + Hunger::SLEEPER);
            assert_eq!(hunger.lowered().packed(), hunger.packed() - Hunger::SLEEPER);
        }
        let out = NONE.raised().search_begins().unwrap();
        assert_eq!(out.search_ended().packed(), out.packed() + Hunger::SEARCH);
    }

    #[test]
    fn one_answer_holds_until_a_search_begins() {
        assert_eq!(NONE.answered(), None, "there is no sleeper to answer for");
        let answered = NONE.raised().answered().unwrap();
        assert_eq!((answered.is_hungry(), answered.sleepers()), (true, 1));
        assert_eq!((answered.answered(), answered.raised().answered()), (None, None), "one is enough");
        assert_eq!(answered.raised().lowered(), answered);
        assert!(
            answered.lowered().is_hungry(),
            "a push that stops its bell begins a search, so that the next sleeper rings it"
        );
        for out in [answered.search_begins(), answered.search_resumes()].map(Option::unwrap) {
            assert_eq!(out.answered(), None, "the searching worker answers when its search ends");
            assert_eq!(out.search_ended(), NONE.raised());
        }
    }

    #[test]
    #[should_panic(expected = "counts too few")]
    fn no_more_sleepers_are_taken_away_than_were_counted() {
        let _ = NONE.lowered();
    }
}
