//! The queue that an unblocked task goes to.

use core::fmt;

use crate::parameters::Field;

/// The queue that a task goes to when it was blocked and can continue (WS-LAST §3). The thread that unblocks the task
/// chooses the place, busy or not, so the choice is a pure function of few facts. Any other move of a task is a
/// steal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The queue of the worker whose task unblocked it, as in Arora, Blumofe and Plaxton (WS-CUR).
    Current,
    /// The queue of the worker that it last ran on (WS-LAST).
    Last,
    /// The queue of the worker that it last ran on, if that worker is up and the current one has other tasks.
    /// Otherwise the queue of the current worker.
    LastIfUp,
}

/// Facts about the worker that an unblocked task last ran on, and about the worker that unblocked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unblocked {
    /// True if the last worker neither sleeps nor has lost its core.
    pub last_is_up: bool,
    /// True if other tasks are queued at the worker that unblocked the task.
    pub current_has_more: bool,
}

impl Place {
    /// Every place.
    pub const ALL: [Place; 3] = [Place::Current, Place::Last, Place::LastIfUp];

    /// The names of the places, as in `ws-last:place=current`, in the order of [`Place::ALL`].
    pub const NAMES: [&str; 3] = ["current", "last", "last-if-up"];

    /// The name of the place.
    pub fn name(self) -> &'static str {
        Place::NAMES[self as usize]
    }

    /// True if the task goes to the worker that it last ran on, and not to the current worker, if they differ.
    pub fn goes_to_last(self, unblocked: Unblocked) -> bool {
        match self {
            Place::Current => false,
            Place::Last => true,
            Place::LastIfUp => unblocked.last_is_up && unblocked.current_has_more,
        }
    }
}

impl Field for Place {
    fn of(value: u32) -> Place {
        Place::ALL[value as usize]
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_its_answer() {
        let named = Place::ALL.map(|place| (place, place.name()));
        assert_eq!(named, [(Place::Current, "current"), (Place::Last, "last"), (Place::LastIfUp, "last-if-up")]);
        assert!(Place::ALL.into_iter().all(|place| Place::of(place as u32) == place));
    }

    #[test]
    fn only_the_adaptive_answer_looks_at_the_workers() {
        for last_is_up in [false, true] {
            for current_has_more in [false, true] {
                let unblocked = Unblocked { last_is_up, current_has_more };
                assert!(!Place::Current.goes_to_last(unblocked));
                assert!(Place::Last.goes_to_last(unblocked));
                assert_eq!(Place::LastIfUp.goes_to_last(unblocked), last_is_up && current_has_more);
            }
        }
    }
}
