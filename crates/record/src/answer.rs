//! Answers as numbers.

use comity_policy::allotment::Division;
use comity_policy::{Role, RunStatus, Victim, WorkerId};
use comity_protocol::dialogue::Take;
use comity_protocol::observer::{Sample, Times};
use comity_protocol::orders::InForce;
use comity_protocol::steal_time::Reading;
use comity_protocol::{CoreSet, Standing};

/// What is left of a line's numbers.
pub(crate) type Numbers<'a> = dyn Iterator<Item = u64> + 'a;

/// What a driver may answer.
pub(crate) trait Answer: Sized {
    fn put(&self, to: &mut Vec<u64>);

    /// `None`: the numbers say no such thing.
    fn take(from: &mut Numbers<'_>) -> Option<Self>;
}

impl Answer for () {
    fn put(&self, _: &mut Vec<u64>) {}

    fn take(_: &mut Numbers<'_>) -> Option<()> {
        Some(())
    }
}

impl Answer for u64 {
    fn put(&self, to: &mut Vec<u64>) {
        to.push(*self);
    }

    fn take(from: &mut Numbers<'_>) -> Option<u64> {
        from.next()
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Answer for $number {
            fn put(&self, to: &mut Vec<u64>) {
                to.push(*self as u64);
            }

            fn take(from: &mut Numbers<'_>) -> Option<$number> {
                Some(from.next()? as $number)
            }
        }
    )*};
}

numbers!(u32, i32, usize);

impl Answer for bool {
    fn put(&self, to: &mut Vec<u64>) {
        to.push(u64::from(*self));
    }

    fn take(from: &mut Numbers<'_>) -> Option<bool> {
        Some(from.next()? == 1)
    }
}

impl<T: Answer> Answer for Option<T> {
    fn put(&self, to: &mut Vec<u64>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn take(from: &mut Numbers<'_>) -> Option<Option<T>> {
        if bool::take(from)? { T::take(from).map(Some) } else { Some(None) }
    }
}

impl<T: Answer> Answer for Result<T, T> {
    fn put(&self, to: &mut Vec<u64>) {
        self.is_ok().put(to);
        let (Ok(value) | Err(value)) = self;
        value.put(to);
    }

    fn take(from: &mut Numbers<'_>) -> Option<Result<T, T>> {
        let is_ok = bool::take(from)?;
        let value = T::take(from)?;
        Some(if is_ok { Ok(value) } else { Err(value) })
    }
}

impl<A: Answer, B: Answer> Answer for (A, B) {
    fn put(&self, to: &mut Vec<u64>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn take(from: &mut Numbers<'_>) -> Option<(A, B)> {
        Some((A::take(from)?, B::take(from)?))
    }
}

/// A choice by its place.
macro_rules! choices {
    ($($type:ty: $($choice:expr),*;)*) => {$(
        impl Answer for $type {
            fn put(&self, to: &mut Vec<u64>) {
                [$($choice),*].iter().position(|choice| choice == self).expect("all are named").put(to);
            }

            fn take(from: &mut Numbers<'_>) -> Option<$type> {
                [$($choice),*].get(usize::take(from)?).copied()
            }
        }
    )*};
}

choices! {
    Division: Division::Equal, Division::Slowdown, Division::Time;
    Take: Take::Taken, Take::Missed, Take::Nothing;
    Role: Role::Rich, Role::Poor, Role::Thief, Role::Sleeper;
    RunStatus: RunStatus::Running, RunStatus::Preempted, RunStatus::Parked, RunStatus::Unknown;
}

/// All fields, in order.
macro_rules! fields {
    ($($type:ident { $($field:ident),* })*) => {$(
        impl Answer for $type {
            fn put(&self, to: &mut Vec<u64>) {
                let $type { $($field),* } = self;
                $($field.put(to);)*
            }

            fn take(from: &mut Numbers<'_>) -> Option<$type> {
                $(let $field = Answer::take(from)?;)*
                Some($type { $($field),* })
            }
        }
    )*};
}

fields! {
    Victim { id, role, run_status, wakeups_owed }
    Standing { owned, held, free, own_free, lent, alone, share_milli, programs, allotted, until_change, frame, most_out, division, is_even, is_grouped, may_take_turns }
    InForce { weight, cores, paused_until }
    Times { on_core, for_core }
    Reading { run_ns, steal_ns }
    Sample { is_busy, busy_ns, clock_ns, progress }
}

impl Answer for WorkerId {
    fn put(&self, to: &mut Vec<u64>) {
        self.0.put(to);
    }

    fn take(from: &mut Numbers<'_>) -> Option<WorkerId> {
        u32::take(from).map(WorkerId)
    }
}

impl Answer for [u64; 3] {
    fn put(&self, to: &mut Vec<u64>) {
        to.extend(self);
    }

    fn take(from: &mut Numbers<'_>) -> Option<[u64; 3]> {
        Some([from.next()?, from.next()?, from.next()?])
    }
}

impl Answer for CoreSet {
    fn put(&self, to: &mut Vec<u64>) {
        self.len().put(to);
        self.iter().for_each(|core| core.put(to));
    }

    fn take(from: &mut Numbers<'_>) -> Option<CoreSet> {
        let cores = usize::take(from)?;
        (0..cores).map(|_| usize::take(from)).collect()
    }
}
