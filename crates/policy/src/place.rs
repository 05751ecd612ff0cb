//! The queue that an unblocked task goes to.

use core::fmt;

use crate::parameters::Field;

/// The queue that a task goes to when it was blocked and can continue (WS-LAST §3). The thread that unblocks the task
/// chooses the queue. This thread may be busy, so the choice is a pure function of few facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The queue of the worker whose task unblocked this task, as in Arora, Blumofe and Plaxton (WS-CUR).
    Current,
    /// The queue of the worker that last ran the task (WS-LAST).
    Last,
    /// The queue of the worker that last ran the task, if that worker is up and other tasks are queued at the
    /// unblocking worker. Otherwise the queue of the unblocking worker.
    LastIfUp,
}

/// Facts about the worker that last ran an unblocked task, and about the worker that unblocked the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unblocked {
    /// True if the worker that last ran the task is awake and has a core.
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

    /// True if the task goes to the worker that last ran it, and false if it goes to the worker that unblocked it.
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
