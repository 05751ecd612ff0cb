//! Where an unblocked task goes.

use core::fmt;

use crate::parameters::Field;

/// Which queue a task goes to that was blocked and can go on (WS-LAST §3). The thread that unblocks the task asks,
/// busy or not, so this is a pure function of few facts. Any other move of a task is a steal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To the worker of the task that unblocked it, as in Arora, Blumofe and Plaxton (WS-CUR).
    Current,
    /// To the worker that it last ran on (WS-LAST).
    Last,
    /// To the worker that it last ran on, if that is up and this one has something to do without the task; else to the
    /// current one.
    LastIfUp,
}

/// What is known of the worker that an unblocked task last ran on, and of the one that unblocked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unblocked {
    /// Whether the last worker neither sleeps nor has lost its core.
    pub last_is_up: bool,
    /// Whether other tasks are queued where the unblocking task runs.
    pub current_has_more: bool,
}

impl Place {
    /// Every answer.
    pub const ALL: [Place; 3] = [Place::Current, Place::Last, Place::LastIfUp];

    /// Their names, as in `ws-last:place=current`.
    pub const NAMES: [&str; 3] = ["current", "last", "last-if-up"];

    /// The answer's name.
    pub fn name(self) -> &'static str {
        Place::NAMES[self as usize]
    }

    /// Whether the task goes where it last ran, and not to the current worker, where these are two.
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
