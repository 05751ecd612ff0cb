//! What a quantum asks of the table, the program and its pools.

use std::ops::{Deref, DerefMut};
use std::thread;

use comity_policy::allotment::Proposal;
use comity_policy::{Account, Coordinator, Mode, Orders, Room, WorkerId};
use comity_protocol::observer::{Process, Sample, Times, Workers};
use comity_protocol::orders::InForce;
use comity_protocol::quantum::{Coordination, Pools, Program, Staff, Visit};
use comity_protocol::steal_time::Reading;
use comity_protocol::{CoreSet, Standing};

use crate::crew::methods;
use crate::tape::{aside, closes, opens, says, turn};
use crate::{Recorded, Script};

/// A pool's books while their lock is held; what gives it back is in the record.
pub struct Locked<S>(S);

impl<S> Deref for Locked<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S> DerefMut for Locked<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.0
    }
}

impl<S> Drop for Locked<S> {
    fn drop(&mut self) {
        if !thread::panicking() {
            says(format_args!("given back"));
        }
    }
}

macro_rules! program {
    ($how:ident) => {
        methods! { & $how self:
            staffs() -> usize;
            owned() -> CoreSet;
            held() -> CoreSet;
            in_force() -> InForce;
        }
        methods! { &mut $how self:
            round(desire: u32, awake: u32) -> Standing;
            heed();
            watch(now: u64) -> Option<u64>;
            correct(correction: u32);
            propose(proposal: Proposal);
            stand(alone: bool, mode: Mode, room: Room, usable: u32);
            close(closed: bool);
            divide();
        }
    };
}

impl<T: Program> Program for Recorded<T> {
    type Staff<'a>
        = Locked<T::Staff<'a>>
    where
        Self: 'a;

    fn staff(&mut self, nth: usize) -> Locked<T::Staff<'_>> {
        says(format_args!("staff {nth}"));
        Locked(aside(|| self.0.staff(nth)))
    }

    program!(driver);
}

impl Program for Script {
    type Staff<'a> = Locked<Script>;

    fn staff(&mut self, nth: usize) -> Locked<Script> {
        says(format_args!("staff {nth}"));
        Locked(Script)
    }

    program!(script);
}

macro_rules! staff {
    ($how:ident) => {
        methods! { & $how self:
            retired() -> u32;
            queued() -> u64;
            most() -> u32;
            held() -> CoreSet;
        }
        methods! { &mut $how self:
            claim(own_only: bool) -> bool;
            take_back() -> bool;
            release(core: usize);
            employ();
        }
    };
}

impl<S: Staff> Staff for Locked<S> {
    staff!(driver);
}

/// Never asked: what is between is.
impl Staff for Script {
    staff!(script);
}

macro_rules! process {
    ($how:ident) => {
        methods! { & $how self:
            pools() -> usize;
            id(nth: usize) -> u64;
        }
        methods! { &mut $how self:
            held_ns() -> u64;
            clock_ns() -> u64;
            idle_ns() -> Option<u64>;
            stolen() -> Option<Reading>;
            first_thread() -> Option<Times>;
            first_thread_is_blocked() -> Option<bool>;
            granted_ns(lasted_ns: u64) -> Option<u64>;
            busy_ns() -> u64;
            ended() -> Times;
        }
    };
}

impl<T: Process> Process for Recorded<T> {
    type Workers<'a>
        = Locked<T::Workers<'a>>
    where
        Self: 'a;

    fn workers(&mut self, nth: usize) -> Locked<T::Workers<'_>> {
        says(format_args!("workers {nth}"));
        Locked(aside(|| self.0.workers(nth)))
    }

    process!(driver);
}

impl Process for Script {
    type Workers<'a> = Locked<Script>;

    fn workers(&mut self, nth: usize) -> Locked<Script> {
        says(format_args!("workers {nth}"));
        Locked(Script)
    }

    process!(script);
}

macro_rules! workers {
    ($how:ident) => {
        methods! { & $how self:
            workers() -> u32;
            awake() -> u32;
            retired() -> u32;
            most() -> u32;
            queued() -> u64;
            lends() -> bool;
            is_awake(worker: WorkerId) -> bool;
            sample(worker: WorkerId, is_awake: bool) -> Sample;
            times(worker: WorkerId) -> Option<Times>;
            is_blocked(worker: WorkerId) -> Option<bool>;
        }
        methods! { &mut $how self:
            note_losses();
            set_off_core(workers: u32);
        }
    };
}

impl<W: Workers> Workers for Locked<W> {
    workers!(driver);
}

impl Workers for Script {
    workers!(script);
}

macro_rules! pools {
    ($how:ident) => {
        methods! { & $how self:
            has_work() -> bool;
            keeps_core() -> bool;
            population() -> usize;
            has_its_place() -> bool;
        }
        methods! { &mut $how self:
            usable() -> u32;
            rung(nth: usize) -> bool;
            want_nothing();
            leave_off(nth: usize);
            reopen(nth: usize);
        }
    };
}

impl<T: Pools> Pools for Recorded<T> {
    pools!(driver);
}

impl Pools for Script {
    pools!(script);
}

/// What a coordinator's thread has its coordination do.
impl Recorded<Coordination> {
    /// As [`Coordination::begin`].
    pub fn begin<P: Pools>(&mut self, pools: &mut P, now: u64) {
        self.visits(format_args!("begin {now}"), |coordination| coordination.begin(pools, now));
    }

    /// As [`Coordination::come_by`].
    pub fn come_by<P: Pools>(&mut self, pools: &mut P, now: u64) -> Visit {
        self.visits(format_args!("come_by {now}"), |coordination| {
            let visit = coordination.come_by(pools, now);
            says(format_args!("visit {visit:?}"));
            visit
        })
    }

    /// As [`Coordination::leave_off`].
    pub fn leave_off<P: Pools>(&mut self, pools: &mut P) {
        self.visits(format_args!("leave_off"), |coordination| coordination.leave_off(pools));
    }

    /// As [`Coordination::look_by`].
    pub fn look_by(&mut self, at: u64) {
        self.visits(format_args!("look_by {at}"), |coordination| coordination.look_by(at));
    }

    fn visits<R>(&mut self, line: std::fmt::Arguments<'_>, visit: impl FnOnce(&mut Coordination) -> R) -> R {
        opens(line);
        let outcome = visit(&mut self.0);
        says(format_args!("next {} after {}", self.0.next(), self.0.looked()));
        turn();
        closes();
        outcome
    }
}

/// A policy's coordinator with accounts and orders that are in the record.
struct Advised(Box<dyn Coordinator>);

impl Coordinator for Advised {
    fn quantum(&mut self, account: &Account) -> Orders {
        let orders = self.0.quantum(account);
        says(format_args!("account {account:?} {orders:?}"));
        orders
    }
}

/// The same coordinator; its accounts and orders are in the record.
pub fn advised(coordinator: Box<dyn Coordinator>) -> Box<dyn Coordinator> {
    Box::new(Advised(coordinator))
}
