//! Compares the two simulated machines: they run the same policy and program, with unit costs.
//!
//! A unit is a step of A-STEAL's machine, and [`UNIT`] nanoseconds of a host with a core for each worker. An
//! instruction costs one unit. An attempt to steal costs one unit, including everything that the policy does before
//! it. Nothing else costs anything.
//!
//! # Where the two machines agree exactly
//!
//! On both machines, a thief whose attempt starts at `t` begins the strand that it finds at `t + 1`. It looks at its
//! victim at different times:
//!
//! - on A-STEAL's machine at `t`, after all strands that end at `t`
//! - on the host at the end of the attempt, at `t + 1`
//!
//! The machines can differ only if a strand ends at `t + 1` before the thief looks. Therefore a serial strand is a
//! little longer on the host than its units ([`Units::late`]). The addition is larger than all earlier delays together,
//! so all looks at `t + 1` come before the end of the strand.
//!
//! One difference remains: on the host, the owner of a queue may take its last strand between `t` and the look. In the
//! programs below this cannot happen. Then time, work and attempts are equal on both machines. Each thief receives the
//! same events, because the seeds of the thieves are the same.
//!
//! On a host all workers begin as thieves, and the first look finds the root. A thief's first attempt on the host
//! therefore does not follow its policy ([`First`]), and the comparison begins after that attempt.

use std::sync::{Arc, Mutex};

use comity_policy::definition::Definition;
use comity_policy::policies::{a_steal, abp, abp_mug, plain};
use comity_policy::{Action, Event, Policy, Thief, WorkerId};
use comity_sim::program::{Fork, ForkJoin, Program, Strand};
use comity_sim::quanta::job::{Deques, Job};
use comity_sim::random::stream;
use comity_sim::threads::{Costs, Host};
use proptest::prelude::*;
use rand::RngExt;

/// Nanoseconds of a unit on the host.
const UNIT: u64 = 1 << 32;

/// An upper bound of the nanoseconds by which a thief is late relative to its units. The delay comes from yields and
/// looks whose time is not part of [`Costs::steal`].
const DRIFT: u64 = 1 << 14;

/// A time in nanoseconds that is longer than any turn and any run.
const FOR_EVER: u64 = 1 << 60;

/// A policy for A-STEAL's machine, and its variant for a host, which has another first attempt. `beside` is the time of
/// an attempt on the host in addition to the steal, in ns: for a yield, a look for a queue, or both.
struct Same {
    policy: &'static Definition,
    on_a_host: &'static Definition,
    beside: u64,
}

/// A thief that first looks once for a task from outside the pool, and then follows its policy.
struct First {
    policy: Box<dyn Thief>,
    looks: bool,
}

impl Thief for First {
    fn next(&mut self, event: Event) -> Action {
        if !self.looks {
            return self.policy.next(event);
        }
        match event {
            // A worker that steals from itself only looks for a task from outside the pool. Worker 0 does so first.
            Event::DequeEmpty { .. } => Action::StealFrom(WorkerId(0)),
            Event::Injected => {
                self.looks = false;
                Action::Run { wakeups_owed: 0 }
            }
            _ => {
                self.looks = false;
                self.policy.next(Event::DequeEmpty { wakeups_owed: 0 })
            }
        }
    }
}

fn first(policy: Box<dyn Thief>) -> Box<dyn Thief> {
    Box::new(First { policy, looks: true })
}

static ABP: Definition = abp::DEFINITION;
static ABP_ON_A_HOST: Definition =
    Definition { rest: |victims, values| first((abp::DEFINITION.rest)(victims, values)), ..abp::DEFINITION };
static ABP_MUG: Definition = abp_mug::DEFINITION;
static ABP_MUG_ON_A_HOST: Definition =
    Definition { rest: |victims, values| first((abp_mug::DEFINITION.rest)(victims, values)), ..abp_mug::DEFINITION };
static A_STEAL: Definition = a_steal::DEFINITION;
static A_STEAL_ON_A_HOST: Definition =
    Definition { rest: |victims, values| first((a_steal::DEFINITION.rest)(victims, values)), ..a_steal::DEFINITION };
static PLAIN: Definition = plain::DEFINITION;
static PLAIN_ON_A_HOST: Definition =
    Definition { rest: |victims, values| first((plain::DEFINITION.rest)(victims, values)), ..plain::DEFINITION };

/// The policies under which thieves never sleep, and `plain`. In the programs below, the thieves of `plain` find
/// something before they sleep.
static ALL: [Same; 4] = [
    Same { policy: &ABP, on_a_host: &ABP_ON_A_HOST, beside: 1 },
    Same { policy: &ABP_MUG, on_a_host: &ABP_MUG_ON_A_HOST, beside: 2 },
    Same { policy: &A_STEAL, on_a_host: &A_STEAL_ON_A_HOST, beside: 1 },
    // The thieves of `plain` yield after a round.
    Same { policy: &PLAIN, on_a_host: &PLAIN_ON_A_HOST, beside: 0 },
];

/// The number of instructions of the last strand, which follows all others.
const LAST: u64 = 1;

/// A program of phases. In each phase the oldest strand, which is stolen first, is `longer` units longer than the
/// others.
#[derive(Clone, Debug)]
struct Phases {
    program: ForkJoin,
    longer: u64,
}

impl From<ForkJoin> for Phases {
    fn from(program: ForkJoin) -> Phases {
        Phases { program, longer: 0 }
    }
}

/// A program in units of `unit` nanoseconds, which ends with a serial strand.
struct Units {
    program: ForkJoin,
    unit: u64,
    /// The additional length of the next serial strand, in nanoseconds: the sum of all additions before it, plus
    /// [`DRIFT`].
    late: u64,
    /// The units by which the oldest strand of a parallel phase is longer than the others.
    longer: u64,
    /// The number of strands that are ready or run.
    left: u64,
    is_last: bool,
}

impl Units {
    fn new(Phases { program, longer }: &Phases, unit: u64) -> Units {
        let (program, longer, late) = (program.clone(), *longer, if unit == 1 { 0 } else { DRIFT });
        Units { program, unit, late, longer, left: 1, is_last: false }
    }

    /// Scales a strand to nanoseconds. Serial strands have the number 0.
    fn scaled(&mut self, strand: Strand) -> Strand {
        let late = if strand.id == 0 { self.late } else { 0 };
        self.late += late;
        let length = strand.length.get() * self.unit + late;
        Strand { length: length.try_into().unwrap(), ..strand }
    }
}

impl Program for Units {
    fn root(&mut self) -> Strand {
        let root = self.program.root();
        self.scaled(root)
    }

    fn done(&mut self, strand: u32, ready: &mut Vec<Strand>) {
        if self.is_last {
            return;
        }
        let from = ready.len();
        self.program.done(strand, ready);
        self.left = self.left + (ready.len() - from) as u64 - 1;
        if ready.len() > from + 1 {
            ready[from].length = ready[from].length.checked_add(self.longer).unwrap();
        }
        for made in &mut ready[from..] {
            *made = self.scaled(*made);
        }
        if self.left == 0 {
            self.is_last = true;
            let last = self.scaled(Strand { id: 0, length: LAST.try_into().unwrap() });
            ready.push(last);
        }
    }

    fn work(&self) -> u64 {
        (self.program.work() + LAST) * self.unit
    }

    fn critical_path(&self) -> u64 {
        (self.program.critical_path() + LAST) * self.unit
    }
}

/// The outcome of a run, in units.
#[derive(Debug, PartialEq)]
struct Run {
    time: u64,
    work: u64,
    attempts: u64,
}

fn on_quanta(same: &Same, program: &Phases, processors: u32, seed: u64) -> Run {
    let program = Units::new(program, 1);
    // There is a deque for each processor, and the job has all processors. So the thieves keep their seeds, and no
    // queue is mugged.
    let (policy, random) = (Policy::of(same.policy), stream(seed, 0));
    let mut job = Job::new(Box::new(program), policy, Deques::PerProcessor, processors, random);
    let cycles = job.run(0, FOR_EVER, processors);
    let time = job.ended_at().expect("it ends");
    // Every cycle of every processor is counted once.
    assert_eq!((cycles.total(), cycles.mug), (time * u64::from(processors), 0));
    Run { time, work: cycles.work, attempts: cycles.steal }
}

fn on_threads(same: &Same, program: &Phases, processors: u32, seed: u64) -> Run {
    let costs = Costs {
        steal: UNIT - same.beside,
        mug: 1,
        yield_core: 1,
        wake_latency: 0,
        switch: 0,
        slice: FOR_EVER,
        ..Costs::default()
    };
    let mut host = Host::new(processors as usize, costs, 1);
    host.without_table();
    // On A-STEAL's machine, the job draws this seed for its thieves.
    let seed = stream(seed, 0).random();
    let program = Units::new(program, UNIT);
    host.submit(0, Box::new(program), Policy::of(same.on_a_host), processors, seed);
    host.run(u64::MAX, 100_000).unwrap();
    let fate = host.fate(0);
    let ended = fate.ended.expect("it ends");
    // Every nanosecond of every core is counted once.
    assert_eq!(fate.spent.total(), ended * u64::from(processors), "{fate:?}");
    assert_eq!(fate.counts.sleeps, 0);
    // All workers but worker 0 have tried once to steal from worker 0 before the comparison begins.
    let first = u64::from(processors) - 1;
    let in_units = |nanoseconds: u64| (nanoseconds + UNIT / 2) / UNIT;
    Run { time: in_units(ended - costs.steal), work: in_units(fate.spent.work), attempts: fate.counts.attempts - first }
}

fn agree(program: impl Into<Phases>, processors: u32, seed: u64) -> Result<(), TestCaseError> {
    let program = &program.into();
    for same in &ALL {
        let quanta = on_quanta(same, program, processors, seed);
        let threads = on_threads(same, program, processors, seed);
        prop_assert_eq!(&quanta, &threads, "{} with {} processors, {:?}", same.policy.name, processors, program);
    }
    Ok(())
}

fn forks() -> impl Strategy<Value = Fork> {
    prop_oneof![Just(Fork::AtOnce), Just(Fork::Tree)]
}

proptest! {
    /// Checks that one processor never steals: time is work.
    #[test]
    fn alone_a_processor_takes_as_long_as_the_work_on_both(
        (serial, parallel, width, iterations, fork) in (1..30u64, 1..30u64, 1..40u32, 1..6u32, forks()),
        seed: u64,
    ) {
        let program = ForkJoin::new(serial, parallel, width, iterations, fork);
        agree(program.clone(), 1, seed)?;
        prop_assert_eq!(on_quanta(&ALL[0], &program.clone().into(), 1, seed).time, program.work() + LAST);
    }

    /// Checks that all but one processor try to steal in every unit: time is the critical path.
    #[test]
    fn a_chain_takes_its_length_on_both((serial, parallel) in (1..14u64, 1..14u64), processors in 2..12u32, seed: u64) {
        let program = ForkJoin::new(serial, parallel, 1, 1, Fork::AtOnce);
        agree(program.clone(), processors, seed)?;
        let length = serial + parallel + LAST;
        let chain = Run { time: length, work: length, attempts: length * u64::from(processors - 1) };
        prop_assert_eq!(on_quanta(&ALL[0], &program.into(), processors, seed), chain);
    }

    /// Checks programs with one strand for each processor, all in one deque. Each thief finds a strand when it first
    /// draws the owner of that deque as its victim. The strands are long enough that all strands have begun before a
    /// strand ends: the probability that a thief draws 40 P times in vain is about e⁻⁴⁰.
    #[test]
    fn as_many_strands_as_processors_are_found_after_as_many_attempts_on_both(
        serial in 1..20u64,
        processors in 2..12u32,
        seed: u64,
    ) {
        let parallel = 40 * u64::from(processors);
        agree(ForkJoin::new(serial, parallel, processors, 1, Fork::AtOnce), processors, seed)?;
    }

    /// Checks two processors: each has one victim, so nothing is random. The owner ends a strand every w₂ units, and
    /// the thief every w₂ + 1 units. Two ends are one unit apart only after 2w₂ − 1 strands, and a phase has fewer
    /// strands.
    #[test]
    fn two_processors_share_phases_alike_on_both(
        (serial, parallel) in (1..12u64, 2..12u64),
        width in 2..12u32,
        iterations in 1..8u32,
        seed: u64,
    ) {
        let width = width.min(2 * parallel as u32 - 2);
        agree(ForkJoin::new(serial, parallel, width, iterations, Fork::AtOnce), 2, seed)?;
    }

    /// Checks phases of three strands. The owner begins the newest strand, and the thief begins the oldest strand,
    /// which is the longest. Then the owner takes the third strand.
    #[test]
    fn a_thief_takes_the_oldest_on_both(
        (serial, parallel, longer) in (1..9u64, 2..9u64, 1..9u64),
        iterations in 1..8u32,
        seed: u64,
    ) {
        let program = ForkJoin::new(serial, parallel, 3, iterations, Fork::AtOnce);
        let time = u64::from(iterations) * (serial + (2 * parallel).max(1 + parallel + longer)) + LAST;
        agree(Phases { program: program.clone(), longer }, 2, seed)?;
        prop_assert_eq!(on_quanta(&ALL[0], &Phases { program, longer }, 2, seed).time, time);
    }
}

/// Checks that the mean times on both machines are close. With more than two processors, thieves that attempt to steal
/// in the same unit have different orders on the two machines. This moves the begin of a strand by at most one unit.
/// Each such strand on the critical path delays the end by one unit. All other differences are random: which thief
/// steals from which victim. The bound is therefore one unit for each strand of the critical path, plus four times the
/// standard error. The attempts need no other check, because P·T = work + attempts on both machines.
#[test]
fn any_program_takes_as_long_on_both_in_the_mean() {
    const SEEDS: u64 = 40;
    for (serial, parallel, width, iterations, fork) in [
        (1, 1, 100, 5, Fork::Tree),
        (5, 50, 64, 3, Fork::Tree),
        (10, 10, 300, 3, Fork::AtOnce),
        (20, 7, 33, 8, Fork::AtOnce),
    ] {
        let program = Phases::from(ForkJoin::new(serial, parallel, width, iterations, fork));
        let forks = if fork == Fork::Tree { width.next_power_of_two().ilog2() } else { 0 };
        let strands = f64::from(iterations * (2 + forks) + 1);
        for processors in [3, 8, 16] {
            // The thieves of `plain` may sleep in these programs, so `plain` is left out.
            for same in &ALL[..3] {
                let runs = |run: fn(&Same, &Phases, u32, u64) -> Run| -> Vec<Run> {
                    (0..SEEDS).map(|seed| run(same, &program, processors, seed)).collect()
                };
                let [quanta, threads] = [runs(on_quanta), runs(on_threads)];
                assert!(quanta.iter().zip(&threads).all(|(quanta, threads)| quanta.work == threads.work));
                let [(one, one_error), (other, other_error)] = [&quanta, &threads].map(|runs| time(runs));
                let bound = strands + 4.0 * one_error.hypot(other_error);
                let setting = format!("{} with {processors} processors, {program:?}", same.policy.name);
                assert!((one - other).abs() <= bound, "{setting}: {one} and {other}, within {bound}");
                for Run { time, work, attempts } in quanta.iter().chain(&threads) {
                    let (total, counted) = (time * u64::from(processors), work + attempts);
                    // The host counts an attempt when it is over.
                    assert!(total.abs_diff(counted) <= u64::from(processors), "{setting}: {total} and {counted}");
                }
            }
        }
    }
}

/// Returns the mean time, and its standard error.
fn time(runs: &[Run]) -> (f64, f64) {
    let count = runs.len() as f64;
    let mean = runs.iter().map(|run| run.time as f64).sum::<f64>() / count;
    let variance = runs.iter().map(|run| (run.time as f64 - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

/// A program that notes which strands end, in order.
struct Noted {
    program: ForkJoin,
    ended: Arc<Mutex<Vec<u32>>>,
}

impl Program for Noted {
    fn root(&mut self) -> Strand {
        self.program.root()
    }

    fn done(&mut self, strand: u32, ready: &mut Vec<Strand>) {
        self.ended.lock().unwrap().push(strand);
        self.program.done(strand, ready);
    }

    fn work(&self) -> u64 {
        self.program.work()
    }

    fn critical_path(&self) -> u64 {
        self.program.critical_path()
    }
}

/// The note that the third program has begun.
const CAME: u32 = u32::MAX;

impl Noted {
    /// Creates a phase of twelve strands of `length` steps. Returns it with the list in which the ends will be noted.
    fn phase(length: u64) -> (Noted, Arc<Mutex<Vec<u32>>>) {
        let ended = Arc::default();
        let program = ForkJoin::new(1, length, 12, 1, Fork::AtOnce);
        (Noted { program, ended: Arc::clone(&ended) }, ended)
    }
}

/// True if the strands ended in the order of a mugger. There are two workers, and the owner of the queue lost its
/// core before these strands ended. The other worker, the mugger, ends its own strand, which is the oldest of all. It
/// then takes over the queue, begins the oldest strand of the queue, and continues with the newest strands. The owner's
/// running strand is the newest of all. Its end is ignored, because it differs: on A-STEAL's machine this strand is in
/// the queue, and on the host the owner's thread continues with it.
fn is_order_of_a_mugger(ended: &[u32]) -> bool {
    let mut waiting = ended.to_vec();
    waiting.sort_unstable();
    let owners = waiting.pop();
    let mut expected: Vec<u32> = waiting.drain(..2).collect();
    expected.extend(waiting.into_iter().rev());
    expected.into_iter().eq(ended.iter().copied().filter(|strand| Some(*strand) != owners))
}

#[test]
fn a_mugger_begins_the_oldest_strand_on_both() {
    let policy = Policy::of(&a_steal::DEFINITION);
    for before in [25, 31, 44] {
        // The processor that leaves is random. Only the runs in which the owner loses its processor count.
        let mut muggings = 0;
        for seed in 0..10 {
            let (program, ended) = Noted::phase(10);
            let mut job = Job::new(Box::new(program), policy, Deques::PerAllotted, 2, stream(seed, 0));
            job.run(0, before, 2);
            let count = ended.lock().unwrap().len();
            let cycles = job.run(before, 1_000, 1);
            assert!(job.ended_at().is_some(), "one processor is left with a queue that was not mugged");
            let ended = &ended.lock().unwrap()[count..];
            if ended.first() == ended.iter().min() {
                assert!(cycles.mug == 1 && is_order_of_a_mugger(ended), "{ended:?}");
                muggings += 1;
            }
        }
        assert!(muggings > 0);

        // The first program has a core, and ends. The third program then takes a core from the second program. It
        // takes the core that the second program only borrowed, on which the queue's owner runs.
        let mut host = Host::new(2, Costs { slice: FOR_EVER, ..Costs::default() }, 1);
        let milliseconds = |count: u64| 1_000_000 * count;
        let serial = |length| ForkJoin::new(milliseconds(length), 1, 1, 1, Fork::AtOnce);
        let (program, ended) = Noted::phase(milliseconds(10));
        host.submit(0, Box::new(serial(20)), policy, 1, 1);
        host.submit(1, Box::new(program), policy, 2, 2);
        let third = Noted { program: serial(1_000), ended: Arc::clone(&ended) };
        host.submit(milliseconds(before), Box::new(Third(third)), policy, 1, 3);
        host.run(milliseconds(300), 1_000).unwrap();
        assert_eq!(host.fate(1).counts.lost, 1);
        let ended = ended.lock().unwrap();
        let came = ended.iter().position(|strand| *strand == CAME).expect("it came");
        assert!(is_order_of_a_mugger(&ended[came + 1..]), "{ended:?}");
    }
}

/// A program that notes its beginning, and has no strand that ends soon.
struct Third(Noted);

impl Program for Third {
    fn root(&mut self) -> Strand {
        self.0.ended.lock().unwrap().push(CAME);
        self.0.root()
    }

    fn done(&mut self, strand: u32, ready: &mut Vec<Strand>) {
        self.0.done(strand, ready);
    }

    fn work(&self) -> u64 {
        self.0.work()
    }

    fn critical_path(&self) -> u64 {
        self.0.critical_path()
    }
}
