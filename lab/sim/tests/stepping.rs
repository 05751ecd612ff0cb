//! Compares the job of `comity_sim::quanta::job` with a job that looks at every processor in every step.

use std::collections::VecDeque;

use comity_policy::{Action, Event, Policy, Thief, WorkerId};
use comity_sim::program::{Fork, ForkJoin, Program};
use comity_sim::quanta::job::{Cycles, Deques, Job};
use comity_sim::random::stream;
use proptest::prelude::*;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A running strand: its identifier, the steps that are left, and its number in the order of all starts.
type Running = (u32, u64, u64);

struct Worker {
    running: Option<Running>,
    /// The interrupted strand that only this worker can continue.
    kept: Option<(u32, u64)>,
    ready: VecDeque<(u32, u64)>,
    thief: Box<dyn Thief>,
    event: Event,
}

/// A job that follows the paper's description literally, which is slow.
struct Slow {
    program: ForkJoin,
    policy: Policy,
    deques: Deques,
    random: ChaCha8Rng,
    workers: Vec<Worker>,
    order_of_seats: Vec<usize>,
    muggable: Vec<VecDeque<(u32, u64)>>,
    started: u64,
    left: u64,
}

const EMPTY: Event = Event::DequeEmpty { wakeups_owed: 0 };

impl Slow {
    fn new(mut program: ForkJoin, policy: Policy, deques: Deques, processors: u32, random: ChaCha8Rng) -> Slow {
        let root = program.root();
        let workers = if deques == Deques::PerAllotted { 1 } else { processors };
        let mut job = Slow {
            left: program.work(),
            program,
            policy,
            deques,
            random,
            workers: Vec::new(),
            order_of_seats: (0..workers as usize).collect(),
            muggable: Vec::new(),
            started: 0,
        };
        job.hire(workers);
        job.workers[0].ready.push_back((root.id, root.length.get()));
        job
    }

    fn hire(&mut self, count: u32) {
        let seed = self.random.random();
        for me in self.workers.len() as u32..count {
            let thief = self.policy.thief(WorkerId(me), count, seed);
            self.workers.push(Worker { running: None, kept: None, ready: VecDeque::new(), thief, event: EMPTY });
        }
    }

    fn seats(&mut self, allotment: usize) -> Vec<usize> {
        if self.deques != Deques::PerAllotted {
            for seat in 0..allotment {
                let drawn = self.random.random_range(seat..self.order_of_seats.len());
                self.order_of_seats.swap(seat, drawn);
            }
            return self.order_of_seats[..allotment].to_vec();
        }
        if self.workers.len() != allotment {
            while self.workers.len() > allotment {
                let leaves = self.random.random_range(0..self.workers.len());
                let worker = self.workers.swap_remove(leaves);
                if !worker.ready.is_empty() {
                    self.muggable.push(worker.ready);
                }
            }
            let seed = self.random.random();
            for (me, worker) in self.workers.iter_mut().enumerate() {
                worker.thief = self.policy.thief(WorkerId(me as u32), allotment as u32, seed);
                worker.event = EMPTY;
            }
            self.hire(allotment as u32);
        }
        (0..allotment).collect()
    }

    /// Runs each allotted processor step by step. Returns the cycles, and the step at which the job ended, if it did.
    fn run(&mut self, from: u64, to: u64, allotment: u32) -> (Cycles, Option<u64>) {
        let seats = self.seats(allotment as usize);
        let (mut cycles, mut thieves) = (Cycles::default(), Vec::new());
        for worker in &seats {
            self.next_or_steal(*worker, &mut thieves);
        }
        for now in from..=to {
            let mut finished: Vec<(u64, usize)> = Vec::new();
            for worker in &seats {
                if let Some((_, 0, started)) = self.workers[*worker].running {
                    finished.push((started, *worker));
                }
            }
            finished.sort_unstable();
            for (_, worker) in finished {
                let (id, ..) = self.workers[worker].running.take().unwrap();
                let mut ready = Vec::new();
                self.program.done(id, &mut ready);
                let ready = ready.into_iter().map(|strand| (strand.id, strand.length.get()));
                self.workers[worker].ready.extend(ready);
                self.workers[worker].event = EMPTY;
                self.next_or_steal(worker, &mut thieves);
            }
            if self.left == 0 {
                return (cycles, Some(now));
            }
            if now == to {
                break;
            }
            // A thief that finds a strand now works from the next step on.
            let works: Vec<usize> =
                seats.iter().copied().filter(|worker| self.workers[*worker].running.is_some()).collect();
            thieves.retain(|thief| !self.steal_or_mug(*thief, &mut cycles));
            for worker in works {
                self.workers[worker].running.as_mut().unwrap().1 -= 1;
                cycles.work += 1;
                self.left -= 1;
            }
        }
        for worker in seats {
            if let Some((id, left, _)) = self.workers[worker].running.take() {
                if self.deques == Deques::PerProcess {
                    self.workers[worker].kept = Some((id, left));
                } else {
                    self.workers[worker].ready.push_back((id, left));
                }
            }
        }
        (cycles, None)
    }

    fn run_next(&mut self, worker: usize, (id, length): (u32, u64)) {
        self.started += 1;
        self.workers[worker].running = Some((id, length, self.started));
    }

    fn next_or_steal(&mut self, worker: usize, thieves: &mut Vec<usize>) {
        let own = &mut self.workers[worker];
        match own.kept.take().or_else(|| own.ready.pop_back()) {
            Some(next) => self.run_next(worker, next),
            None => thieves.push(worker),
        }
    }

    fn steal_or_mug(&mut self, me: usize, cycles: &mut Cycles) -> bool {
        let mut event = self.workers[me].event;
        loop {
            let (found, next) = match self.workers[me].thief.next(event) {
                Action::StealFrom(victim) => {
                    cycles.steal += 1;
                    let Some(stolen) = self.workers[victim.index()].ready.pop_front() else {
                        self.workers[me].event = Event::StealFailed(victim);
                        return false;
                    };
                    (Event::StealSucceeded(victim), stolen)
                }
                Action::Mug => {
                    let Some(mut queue) = self.muggable.pop() else {
                        event = Event::NothingToMug;
                        continue;
                    };
                    cycles.mug += 1;
                    let oldest = queue.pop_front().unwrap();
                    self.workers[me].ready = queue;
                    (Event::Mugged(WorkerId(me as u32)), oldest)
                }
                Action::YieldCore => {
                    event = Event::Yielded;
                    continue;
                }
                other => panic!("{other:?} is not in these policies"),
            };
            self.run_next(me, next);
            assert!(matches!(self.workers[me].thief.next(found), Action::Run { .. }));
            self.workers[me].event = EMPTY;
            return true;
        }
    }
}

proptest! {
    #[test]
    fn skipping_over_work_changes_nothing(
        (serial, parallel, width, iterations) in (1..40u64, 1..40u64, 1..40u32, 1..6u32),
        fork in prop_oneof![Just(Fork::AtOnce), Just(Fork::Tree)],
        (policy, deques) in prop_oneof![
            Just(("a-steal", Deques::PerAllotted)),
            Just(("abp", Deques::PerProcessor)),
            Just(("abp", Deques::PerProcess)),
            Just(("abp-mug", Deques::PerAllotted)),
        ],
        processors in 1..12u32,
        length in 1..30u64,
        seed: u64,
    ) {
        let program = ForkJoin::new(serial, parallel, width, iterations, fork);
        let work = program.work();
        let policy: Policy = policy.parse().unwrap();
        let mut slow = Slow::new(program.clone(), policy, deques, processors, stream(seed, 0));
        let mut fast = Job::new(Box::new(program), policy, deques, processors, stream(seed, 0));
        let mut allotments = stream(seed, 1);
        for quantum in 0.. {
            let allotment = allotments.random_range(0..=processors);
            let (from, to) = (quantum * length, (quantum + 1) * length);
            let (cycles, ended_at) = slow.run(from, to, allotment);
            prop_assert_eq!((fast.run(from, to, allotment), fast.ended_at()), (cycles, ended_at), "in quantum {}", quantum);
            prop_assert_eq!(fast.check(), Ok(()));
            if ended_at.is_some() {
                break;
            }
        }
        prop_assert_eq!(fast.spent().work, work);
    }
}
