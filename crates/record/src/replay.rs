//! Records held again, by the protocol as it is now.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use comity_policy::catalog::Row;
use comity_policy::{Policy, Share, Sharing, Thief, WorkerId};
use comity_protocol::CoreSet;
use comity_protocol::activation::{Activation, Pool};
use comity_protocol::dialogue::{Crew, Dialogue, Hands, Take};
use comity_protocol::platform::Platform;
use comity_protocol::quantum::Coordination;
use comity_protocol::sleep::{Sleep, Work};

use crate::crew::{hands, methods, pool, work};
use crate::tape::{self, Cut, replaying, says};
use crate::{Heard, Recorded, Script, advised, number_words};

/// How a driver holds a dialogue to its end: with the thief, the pool, the worker and its hands. Returns the wake-ups
/// that it owes.
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
    let row = Row::of(policy);
    let (waking, counts, batch, backs) = (row.waking, row.counts_roles, row.batch, row.steal_backs);
    let shares = match row.share {
        Share::Time => "time".to_owned(),
        Share::Cores(sharing) => {
            let quantum = Sharing::of(policy).map(|(_, quantum)| quantum);
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
        if ["worker ", "coordinator ", "member "].iter().any(|begin| line.starts_with(begin)) {
            lives.push(Vec::new());
        }
        lives.last_mut().expect("a record begins with a life").push(line.to_owned());
    }
    lives
}

/// Where a record is filed in the repository.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("records").join(name)
}

/// Of each group of lives, by the words of their first line that name it, the one with most in it that those chosen
/// before have not. Up to so many turns or visits.
pub fn choose(record: &str, group: usize, turns: usize) -> String {
    let mut groups: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for life in lives(record) {
        let name = life[0].split(' ').take(group).collect();
        groups.entry(name).or_default().push(cut(life, turns));
    }
    let mut known = BTreeSet::new();
    let mut chosen = String::new();
    for (name, lives) in groups {
        // The same calls with other numbers are nothing new. But whether a task waits decides what comes next, in each
        // group for itself.
        let kinds = |life: &[String]| -> BTreeSet<String> {
            let kind = |line: &String| match line.split_once(" =") {
                Some((call, answer)) if call.ends_with("_has_task") => format!("{name:?} {call}{answer}"),
                Some((call, _)) => call.replace(|c: char| c.is_ascii_digit(), ""),
                None => line.replace(|c: char| c.is_ascii_digit(), ""),
            };
            life.iter().map(kind).collect()
        };
        // What a thief is told is rarer, and says more; so does a task that waits.
        let weight = |kind: &String| match () {
            () if ["turn StealMissed", "turn Woken(Timeout)"].iter().any(|rare| kind.starts_with(rare)) => 64,
            () if kind.starts_with("turn ") || kind.contains("_has_task") => 8,
            () => 1,
        };
        let news = |life: &Vec<String>| kinds(life).difference(&known).map(weight).sum::<u32>();
        let best = lives.into_iter().max_by_key(news);
        let best = best.expect("a group has a life");
        known.extend(kinds(&best));
        best.iter().for_each(|line| chosen.extend([line, "\n"]));
    }
    chosen
}

fn cut(mut life: Vec<String>, turns: usize) -> Vec<String> {
    let is_end = |line: &String| ["turn ", "next ", "over"].iter().any(|begin| line.starts_with(begin));
    let mut ends = life.iter().enumerate().filter(|(_, line)| is_end(line)).map(|(nth, _)| nth + 1);
    if let Some(end) = ends.nth(turns - 1) {
        life.truncate(end);
        life.push(tape::CUT.to_owned());
    }
    life
}

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Answers of thieves' policies.
    pub turns: usize,
    /// Visits of coordinators.
    pub visits: usize,
    /// Steps on the table.
    pub steps: usize,
    /// Lines in all.
    pub lines: usize,
}

impl AddAssign for Compared {
    fn add_assign(&mut self, other: Compared) {
        self.turns += other.turns;
        self.visits += other.visits;
        self.steps += other.steps;
        self.lines += other.lines;
    }
}

/// Holds all lives of a record again.
///
/// # Panics
/// At the first call that is another than the record's, or where a word of the driver's answers otherwise.
pub fn hold_all_again(driver: &impl Driver, record: &str) -> Compared {
    let mut sum = Compared::default();
    lives(record).into_iter().for_each(|life| sum += hold_again(driver, life));
    sum
}

/// Holds all lives of a record again, of which each is a member's of the table. Returns how many steps there were.
///
/// # Panics
/// As [`hold_all_again`].
pub fn take_steps_again(record: &str) -> usize {
    let steps = |life: Vec<String>| again(life, |_, lines| member(lines)).steps;
    lives(record).into_iter().map(steps).sum()
}

fn hold_again(driver: &impl Driver, life: Vec<String>) -> Compared {
    again(life, |first, lines| match first[..] {
        ["worker", policy, me, workers, seed] => {
            let policy = policy.parse().expect("a policy");
            worker(driver, lines, &policy, WorkerId(number(me)), number(workers), number(seed));
        }
        ["coordinator", policy, length, clock, population] => {
            coordinator(lines, &policy.parse().expect("a policy"), number(length), number(clock), number(population));
        }
        ["member", _] => member(lines),
        _ => panic!("a life does not begin with {first:?}"),
    })
}

/// Has a life held again, of which are given the words of the first line, and the lines after that.
fn again(life: Vec<String>, hold: impl FnOnce(Vec<&str>, Vec<String>)) -> Compared {
    let count = |begin: &str| life.iter().filter(|line| line.starts_with(begin)).count();
    let compared =
        Compared { turns: count("turn "), visits: count("next "), steps: count("over"), lines: life.len() - 1 };
    let (first, lines) = life.split_first().expect("it has a first line");
    let held = catch_unwind(AssertUnwindSafe(|| hold(first.split(' ').collect(), lines.to_vec())));
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
    let advisor = advised(policy.coordinator().expect("the policy's programs have a coordinator"));
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

fn member(lines: Vec<String>) {
    replaying(lines, || {
        while let Some(line) = tape::next_line() {
            crate::step(&Script, &line, || unreachable!("the script answers"));
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
        let row = Row::of(policy);
        number_words();
        let sleep = Sleep::new(Recorded(platform.clone()), workers, row.waking, row.counts_roles);
        let activation = Sharing::of(policy).map(|(sharing, _)| {
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

    fn wake(&mut self, sleeper: Option<WorkerId>, appoint: bool) -> Option<WorkerId> {
        says(format_args!("wake_peer {sleeper:?} {appoint}"));
        self.crew.sleep().wake_peer(self.me, sleeper, appoint)
    }
}
