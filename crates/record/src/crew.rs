//! What the dialogue and the activation ask of a pool, its workers and the table.

use comity_policy::{Action, Event, Thief, WorkerId};
use comity_protocol::CoreSet;
use comity_protocol::activation::{Activation, Cores, Pool};
use comity_protocol::dialogue::{Crew, Hands, Take};
use comity_protocol::sleep::{Sleep, Work};

use crate::Recorded;
use crate::tape::{says, turn};

/// Methods of a trait, each of which is asked: of the driver, or of the script alone.
macro_rules! methods {
    (& $how:ident $self:ident: $($name:ident($($arg:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {$(
        fn $name(&$self $(, $arg: $type)*) $(-> $answer)? {
            let line = format_args!(concat!(stringify!($name) $(, crate::crew::methods!(@blank $arg))*) $(, $arg)*);
            crate::tape::asks(line, || crate::crew::methods!(@$how $self $name $($arg),*))
        }
    )*};
    (&mut $how:ident $self:ident: $($name:ident($($arg:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {$(
        fn $name(&mut $self $(, $arg: $type)*) $(-> $answer)? {
            let line = format_args!(concat!(stringify!($name) $(, crate::crew::methods!(@blank $arg))*) $(, $arg)*);
            crate::tape::asks(line, || crate::crew::methods!(@$how $self $name $($arg),*))
        }
    )*};
    (@blank $arg:ident) => { " {:?}" };
    (@driver $self:ident $name:ident $($arg:ident),*) => { $self.0.$name($($arg),*) };
    (@script $self:ident $name:ident $($arg:ident),*) => { unreachable!("the script answers") };
}
pub(crate) use methods;

/// What is answered by the record alone.
pub struct Script;

macro_rules! work {
    ($how:ident) => {
        methods! { & $how self:
            deques_have_task() -> bool;
            injector_has_task() -> bool;
            has_business(worker: WorkerId) -> bool;
            ring_bells();
            make_way();
        }
    };
}
pub(crate) use work;

impl<T: Work> Work for Recorded<T> {
    work!(driver);
}

macro_rules! pool {
    ($how:ident) => {
        methods! { & $how self:
            confine(worker: WorkerId, cores: Option<CoreSet>) -> bool;
            lead(worker: WorkerId, core: usize, sleeps: bool) -> bool;
            up(me: WorkerId);
            caller_runs() -> bool;
            worker_is_up();
        }
    };
}
pub(crate) use pool;

impl<T: Pool> Pool for Recorded<T> {
    type Platform = T::Platform;

    fn sleep(&self) -> &Sleep<T::Platform> {
        self.0.sleep()
    }

    pool!(driver);
}

impl<T: Crew> Crew for Recorded<T> {
    type Cores = T::Cores;

    fn workers(&self) -> u32 {
        self.0.workers()
    }

    fn activation(&self) -> Option<&Activation<T::Platform, T::Cores>> {
        self.0.activation()
    }
}

macro_rules! cores {
    ($how:ident) => {
        methods! { & $how self:
            held() -> CoreSet;
            held_by_program() -> CoreSet;
            claim(own_only: bool) -> Option<usize>;
            take_back() -> Option<usize>;
            reclaim();
            release(core: Option<usize>) -> Option<usize>;
            pass_on(core: Option<usize>) -> Option<usize>;
            any_free() -> bool;
            want(wants: bool);
            lack(lacks: bool);
            decline();
            is_core_wanted() -> bool;
            note_lost(cores: u32);
        }
    };
}

impl<T: Cores> Cores for Recorded<T> {
    cores!(driver);
}

impl Cores for Script {
    cores!(script);
}

macro_rules! hands {
    ($how:ident) => {
        methods! { &mut $how self:
            steal(victim: WorkerId) -> Take;
            take_injected() -> bool;
            mug(victim: WorkerId) -> bool;
            inspect(victim: WorkerId) -> comity_policy::Victim;
            claim_wakeup(from: WorkerId) -> bool;
            give_way(to: Option<WorkerId>);
            accelerate(candidate: WorkerId, level: comity_policy::Level) -> bool;
            pause(hints: u32);
            wait(at_rest: u32, timeout: Option<std::time::Duration>, is_retired: bool) -> bool;
        }
    };
}
pub(crate) use hands;

impl<T: Hands> Hands for Recorded<T> {
    hands!(driver);

    /// A step of the protocol: what it does to words is in the record too.
    fn wake(&mut self, sleeper: Option<WorkerId>, appoint: bool) -> Option<WorkerId> {
        says(format_args!("wake_peer {sleeper:?} {appoint}"));
        self.0.wake(sleeper, appoint)
    }
}

/// A thief with a conversation that is in the record.
pub struct Heard(pub Box<dyn Thief>);

impl Thief for Heard {
    fn next(&mut self, event: Event) -> Action {
        let action = self.0.next(event);
        says(format_args!("turn {event:?} {action:?}"));
        turn();
        action
    }
}
