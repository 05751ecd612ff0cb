//! Records held again, by the protocol as it is now.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;

use comity_policy::{Policy, Share, Thief, WorkerId};
use comity_protocol::CoreSet;
use comity_protocol::activation::{Activation, Pool};
use comity_protocol::dialogue::{Crew, Dialogue, Hands, Take};
use comity_protocol::platform::Platform;
use comity_protocol::quantum::Coordination;
use comity_protocol::sleep::{Sleep, Work};

use crate::crew::{hands, methods, pool, work};
use crate::tape::{self, Cut, replaying, says};
use crate::{Heard, Recorded, Script, advised, number_words};

/// How a driver holds a dialogue to its end: with the thief, the pool, the worker and its hands. Returns the wake-ups that it owes.
pub trait Driver {
    /// What its words are.
    type Platform: Platform + Clone;

    /// A pool's.
    fn platform(&self) -> Self::Platform;

    /// Holds the dialogue.
    fn hold(
        &self,
        dialogue: &mut Dialogue,
        thief: &mut dyn Thief,
        crew: &Crewed<Self::Platform>,
        me: WorkerId,
        hands: &mut Repeated<'_, Self::Platform>,
    ) -> u32;
}

/// What a policy's pools are told of it, for the first lines of a life.
pub fn row(policy: &Policy) -> String {
    let row = policy.row();
    let (waking, counts, batch, backs) = (row.waking, row.counts_roles, row.batch, row.steal_backs);
    let shares = match row.share {
        Share::Time => "time".to_owned(),
        Share::Cores(sharing) => {
            let quantum = policy.sharing().map(|(_, quantum)| quantum);
            let (placement, sleeper) = (sharing.placement, sharing.sleeper);
            let (own_only, alone) = (sharing.own_only, sharing.plain_alone);
            format!("{placement:?} {sleeper:?} own_only {own_only} plain_alone {alone} {quantum:?}")
        }
    };
    format!("row {waking:?} counts {counts} batch {batch} backs {backs} {:?} {shares}", policy.place())
}

/// The lives of a record: each from its first line on.
pub fn lives(record: &str) -> Vec<Vec<String>> {
    let mut lives: Vec<Vec<String>> = Vec::new();
    for line in record.lines() {
        if line.starts_with("worker ") || line.starts_with("coordinator ") {
            lives.push(Vec::new());
        }
        lives.last_mut().expect("a record begins with a life").push(line.to_owned());
    }
    lives
}

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Answers of thieves' policies.
    pub turns: usize,
    /// Visits of coordinators.
    pub visits: usize,
    /// Calls in all.
    pub calls: usize,
}

/// Holds a life again.
///
/// # Panics
/// At the first call that is another than the record's, or where a word of the driver's answers otherwise.
pub fn hold_again(driver: &impl Driver, life: Vec<String>) -> Compared {
    let count = |begin: &str| life.iter().filter(|line| line.starts_with(begin)).count();
    let visits = count("begin ") + count("come_by ") + count("leave_off") + count("look_by ");
    let compared = Compared { turns: count("turn "), visits, calls: life.len() - 1 };
    let first = life[0].clone();
    let words: Vec<&str> = first.split_ascii_whitespace().collect();
    let rest = life[1..].to_vec();
    let held = catch_unwind(AssertUnwindSafe(|| match words[..] {
        ["worker", policy, me, workers, seed] => {
            worker(
                driver,
                rest,
                &policy.parse().expect("a policy"),
                WorkerId(number(me)),
                number(workers),
                number(seed),
            );
        }
        ["coordinator", policy, length, clock, population] => {
            coordinator(rest, &policy.parse().expect("a policy"), number(length), number(clock), number(population));
        }
        _ => panic!("a life does not begin with {first:?}"),
    }));
    if let Err(payload) = held
        && !payload.is::<Cut>()
    {
        eprintln!("in the life of {first}");
        resume_unwind(payload);
    }
    compared
}

fn number<N: FromStr>(word: &str) -> N {
    word.parse().unwrap_or_else(|_| panic!("{word:?} is a number in a record"))
}

fn worker<D: Driver>(driver: &D, lines: Vec<String>, policy: &Policy, me: WorkerId, workers: u32, seed: u64) {
    let crew = Crewed::new(driver.platform(), policy, workers);
    let mut thief = Heard(policy.thief(me, workers, seed));
    replaying(lines, || {
        says(format_args!("{}", row(policy)));
        while let Some(line) = tape::next_line() {
            let mut dialogue = match line.split_once(' ').unwrap_or((&line, "")) {
                ("search", owed) => {
                    let owed = number(owed);
                    says(format_args!("search {owed}"));
                    Dialogue::begin(me, owed, &crew)
                }
                ("rest", _) => {
                    says(format_args!("rest"));
                    Dialogue::begin_to_rest(me, &crew)
                }
                _ => panic!("no spell begins with {line:?}"),
            };
            let owed = driver.hold(&mut dialogue, &mut thief, &crew, me, &mut Repeated { crew: &crew, me });
            says(format_args!("begins {owed}"));
            dialogue.finish(&crew);
        }
    });
}

fn coordinator(lines: Vec<String>, policy: &Policy, length: u64, clock: u64, population: usize) {
    let advisor = advised(policy.coordinator().expect("a policy whose programs have a coordinator"));
    let mut coordination = Recorded(Coordination::new(advisor, length, clock, population));
    replaying(lines, || {
        says(format_args!("{}", row(policy)));
        while let Some(line) = tape::next_line() {
            match line.split_once(' ').unwrap_or((&line, "")) {
                ("begin", now) => coordination.begin(&mut Script, number(now)),
                ("come_by", now) => drop(coordination.come_by(&mut Script, number(now))),
                ("leave_off", _) => coordination.leave_off(&mut Script),
                ("look_by", at) => coordination.look_by(number(at)),
                _ => panic!("no visit begins with {line:?}"),
            }
        }
    });
}

/// A pool of a driver's words. What is no word is answered by the record.
pub struct Crewed<P: Platform> {
    sleep: Sleep<Recorded<P>>,
    activation: Option<Activation<Recorded<P>, Script>>,
    workers: u32,
}

impl<P: Platform + Clone> Crewed<P> {
    fn new(platform: P, policy: &Policy, workers: u32) -> Crewed<P> {
        let row = policy.row();
        number_words();
        let sleep = Sleep::new(Recorded(platform.clone()), workers, row.waking, row.counts_roles);
        let activation = policy.sharing().map(|(sharing, _)| {
            // What the books say is in the record.
            let activation = Activation::new(&Recorded(platform), sharing, workers, false, CoreSet::EMPTY, workers);
            activation.enter(Script);
            activation
        });
        Crewed { sleep, activation, workers }
    }
}

impl<P: Platform> Work for Crewed<P> {
    work!(script);
}

impl<P: Platform> Pool for Crewed<P> {
    type Platform = Recorded<P>;

    fn sleep(&self) -> &Sleep<Recorded<P>> {
        &self.sleep
    }

    pool!(script);
}

impl<P: Platform> Crew for Crewed<P> {
    type Cores = Script;

    fn workers(&self) -> u32 {
        self.workers
    }

    fn activation(&self) -> Option<&Activation<Recorded<P>, Script>> {
        self.activation.as_ref()
    }
}

/// A worker's hands, to which happens what the record says.
pub struct Repeated<'a, P: Platform> {
    crew: &'a Crewed<P>,
    me: WorkerId,
}

impl<P: Platform> Hands for Repeated<'_, P> {
    hands!(script);

    fn wake(&mut self, whom: Option<WorkerId>, appoint: bool) -> Option<WorkerId> {
        says(format_args!("wake_peer {whom:?} {appoint}"));
        self.crew.sleep().wake_peer(self.me, whom, appoint)
    }
}
