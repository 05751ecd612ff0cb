//! What [`Hungry`](super::hungry::Hungry) packs into one counter: how many sleep, and whether a scout is out.

/// The counter's value: the number of sleepers, less [`Hunger::SCOUT`] while a scout is out.
///
/// So one addition raises, lowers or takes the scout back, and a push looks at the sign alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hunger(i32);

impl Hunger {
    /// What one sleeper adds.
    pub(super) const SLEEPER: i32 = 1;

    /// What a scout takes away while it is out: far more than there are sleepers.
    pub(super) const SCOUT: i32 = 1 << 30;

    #[inline]
    pub(super) fn from_packed(packed: i32) -> Hunger {
        Hunger(packed)
    }

    #[inline]
    pub(super) fn packed(self) -> i32 {
        self.0
    }

    /// Whether a woken worker is on its way.
    #[inline]
    pub(super) fn scout_is_out(self) -> bool {
        self.0 <= -Hunger::SCOUT / 2
    }

    /// The workers that are ASLEEP, or are about to be or were a moment ago.
    #[inline]
    pub(super) fn sleepers(self) -> i32 {
        if self.scout_is_out() { self.0 + Hunger::SCOUT } else { self.0 }
    }

    /// Whether a push is to wake a sleeper: there is one, and no scout is out.
    #[inline]
    pub(super) fn is_hungry(self) -> bool {
        self.0 > 0
    }

    /// One sleeper more.
    #[inline]
    pub(super) fn raised(self) -> Hunger {
        Hunger(self.0 + Hunger::SLEEPER)
    }

    /// One sleeper less. Each has been counted before.
    #[inline]
    pub(super) fn lowered(self) -> Hunger {
        debug_assert!(self.sleepers() > 0, "{self:?} counts too few sleepers");
        Hunger(self.0 - Hunger::SLEEPER)
    }

    /// A scout leaves for the tasks, if there is a sleeper to be it and no other is out.
    #[inline]
    pub(super) fn scout_leaves(self) -> Option<Hunger> {
        self.is_hungry().then_some(Hunger(self.0 - Hunger::SCOUT))
    }

    /// A scout that has just returned leaves again, whether there are sleepers or not, unless another has left since.
    #[inline]
    pub(super) fn scout_leaves_again(self) -> Option<Hunger> {
        (!self.scout_is_out()).then_some(Hunger(self.0 - Hunger::SCOUT))
    }

    /// The scout has a task or is about to rest.
    #[inline]
    pub(super) fn scout_returned(self) -> Hunger {
        debug_assert!(self.scout_is_out(), "{self:?} takes back a scout that never left");
        Hunger(self.0 + Hunger::SCOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Hunger = Hunger(0);

    #[test]
    fn it_is_hungry_while_a_sleeper_can_be_sent() {
        assert!(!NONE.is_hungry());
        assert!(NONE.raised().is_hungry());
        assert!(!NONE.raised().lowered().is_hungry());
        assert!(!NONE.raised().raised().scout_leaves().unwrap().is_hungry(), "one scout at a time");
    }

    #[test]
    fn a_scout_leaves_only_a_hungry_pool_and_never_beside_another() {
        assert_eq!(NONE.scout_leaves(), None);
        let out = NONE.raised().scout_leaves().unwrap();
        assert!(out.scout_is_out());
        assert_eq!(out.raised().scout_leaves(), None);
        assert_eq!(out.raised().scout_leaves_again(), None);
    }

    #[test]
    fn a_scout_that_returned_leaves_again_though_no_worker_sleeps() {
        let returned = NONE.raised().scout_leaves().unwrap().lowered().scout_returned();
        assert_eq!(returned, NONE);
        assert!(returned.scout_leaves_again().unwrap().scout_is_out());
    }

    #[test]
    fn sleepers_are_counted_whether_a_scout_is_out_or_not() {
        let mut hunger = NONE.raised();
        for sleepers in 1..1000 {
            assert_eq!((hunger.sleepers(), hunger.scout_is_out()), (sleepers, false));
            let out = hunger.scout_leaves().unwrap();
            assert_eq!((out.sleepers(), out.scout_is_out()), (sleepers, true));
            assert_eq!(out.lowered().raised(), out);
            assert_eq!(out.scout_returned(), hunger);
            hunger = hunger.raised();
        }
    }

    /// The shell changes the counter by these, without a look at what it holds.
    #[test]
    fn the_summands_are_the_transitions() {
        for hunger in [NONE.raised(), NONE.raised().raised().scout_leaves().unwrap()] {
            assert_eq!(hunger.raised().packed(), hunger.packed() + Hunger::SLEEPER);
            assert_eq!(hunger.lowered().packed(), hunger.packed() - Hunger::SLEEPER);
        }
        let out = NONE.raised().scout_leaves().unwrap();
        assert_eq!(out.scout_returned().packed(), out.packed() + Hunger::SCOUT);
    }

    #[test]
    #[should_panic(expected = "counts too few")]
    fn no_more_sleepers_are_taken_away_than_were_counted() {
        let _ = NONE.lowered();
    }
}
