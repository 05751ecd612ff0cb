//! One job on the machine of A-STEAL §3: a program, its deques, and the processors that it was allotted for a quantum.
//!
//! Time goes in steps. In each step a processor does one cycle: it works, tries to steal, or mugs. Reallocation costs
//! nothing, as in the paper. The thieves are the catalog's own: this file is their second shell.
//!
//! Processors that work are passed over until a strand ends; those that steal are asked step by step, since each attempt may
//! find something else. What comes of it is the same as when every processor is looked at in every step
//! (`tests/stepping.rs`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU64;
use std::ops::AddAssign;

use comity_policy::{Action, Event, Policy, SleepRefusal, Thief, Victim, WorkerId};
use comity_policy::{Role, RunStatus};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::program::{Program, Strand};

/// How many deques a job has, and what becomes of one whose processor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deques {
    /// One for each allotted processor. That of a processor that goes can be mugged (A-STEAL).
    PerAllotted,
    /// One for each processor of the machine, for ever. Each quantum seats the allotted processors on some of them, drawn at
    /// random; thieves look at all (ABP).
    PerProcessor,
}

/// What the processors of a job did, in processor cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycles {
    /// Working.
    pub work: u64,
    /// Trying to steal, with success or without.
    pub steal: u64,
    /// Mugging.
    pub mug: u64,
}

impl Cycles {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.work + self.steal + self.mug
    }

    /// The nonsteal usage (§2).
    pub fn usage(&self) -> u64 {
        self.work + self.mug
    }

    /// Cycles that bring the job no further.
    pub fn waste(&self) -> u64 {
        self.steal + self.mug
    }
}

impl AddAssign for Cycles {
    fn add_assign(&mut self, other: Cycles) {
        self.work += other.work;
        self.steal += other.steal;
        self.mug += other.mug;
    }
}

/// A deque, and the thief that its processor is when it is empty.
struct Worker {
    /// The strand that is run; it ends at a time that `ends` knows.
    running: Option<u32>,
    /// Ready strands, the oldest first.
    ready: Ready,
    thief: Box<dyn Thief>,
    /// What the thief has not been told yet.
    event: Event,
}

type Ready = VecDeque<Strand>;

/// See the module.
pub struct Job {
    program: Box<dyn Program>,
    deques: Deques,
    policy: Policy,
    random: ChaCha8Rng,
    workers: Vec<Worker>,
    /// Which of them have something to steal: most attempts look no further.
    rich: Vec<bool>,
    /// The workers that have a processor: the first so many of this order.
    seats: Vec<u32>,
    seated: usize,
    /// The queues of workers that have lost their processor for good.
    muggable: Vec<Ready>,
    /// Ends of the running strands: time, order, worker.
    ends: BinaryHeap<Reverse<(u64, u64, u32)>>,
    order: u64,
    /// Workers that are thieves, in the order in which they became such.
    thieves: Vec<u32>,
    spent: Cycles,
    created: u64,
    done: u64,
    ended_at: Option<u64>,
    /// Room for what a strand makes ready.
    made_ready: Vec<Strand>,
}

/// Actions without a cycle that a thief may take in a row: one more counts as a failed steal.
const FREE_ACTIONS: u32 = 16;

const EMPTY: Event = Event::DequeEmpty { wakeups_owed: 0 };

impl Job {
    /// `program` under the thieves of `policy`, on a machine of `processors`. `random` draws all that is left to chance.
    ///
    /// # Panics
    /// If there are no processors.
    pub fn new(
        mut program: Box<dyn Program>,
        policy: Policy,
        deques: Deques,
        processors: u32,
        random: ChaCha8Rng,
    ) -> Job {
        assert!(processors > 0, "a machine has processors");
        let root = program.root();
        let mut job = Job {
            program,
            deques,
            policy,
            random,
            workers: Vec::new(),
            rich: Vec::new(),
            seats: Vec::new(),
            seated: 0,
            muggable: Vec::new(),
            ends: BinaryHeap::new(),
            order: 0,
            thieves: Vec::new(),
            spent: Cycles::default(),
            created: 1,
            done: 0,
            ended_at: None,
            made_ready: Vec::new(),
        };
        let workers = match deques {
            Deques::PerAllotted => 1,
            Deques::PerProcessor => processors,
        };
        job.hire(workers);
        job.seats = (0..workers).collect();
        job.workers[0].ready.push_back(root);
        job.note(0);
        job
    }

    /// What the processors have done so far.
    pub fn spent(&self) -> Cycles {
        self.spent
    }

    /// How many strands have ended and cycles of thieves there were: what was looked at.
    pub fn events(&self) -> u64 {
        self.done + self.spent.waste()
    }

    /// When the last strand ended.
    pub fn ended_at(&self) -> Option<u64> {
        self.ended_at
    }

    /// Runs the steps from `from` to before `to` on `allotment` processors, and returns what these did until then, or until
    /// the job ended.
    pub fn run(&mut self, from: u64, to: u64, allotment: u32) -> Cycles {
        self.seat(from, allotment);
        let mut cycles = Cycles::default();
        let mut now = from;
        while self.ended_at.is_none() {
            let next_end = self.ends.peek().map_or(to, |Reverse((end, ..))| *end);
            if self.thieves.is_empty() {
                now = next_end;
            }
            if now >= to && next_end > to {
                now = to;
                break;
            }
            while let Some(Reverse((end, _, worker))) = self.ends.peek().copied()
                && end <= now
            {
                self.ends.pop();
                self.finish(worker, now);
            }
            if now >= to || self.ended_at.is_some() {
                break;
            }
            self.step(now, &mut cycles);
            now += 1;
        }
        let now = self.ended_at.unwrap_or(now.min(to));
        self.unseat(now);
        cycles.work = self.seated as u64 * (now - from) - cycles.waste();
        self.spent += cycles;
        cycles
    }

    // ---- Between quanta. ----

    /// Brings the number of workers to `count`.
    fn hire(&mut self, count: u32) {
        let seed = self.random.random();
        for me in self.workers.len() as u32..count {
            let thief = self.policy.thief(WorkerId(me), count, seed);
            self.workers.push(Worker { running: None, ready: Ready::new(), thief, event: EMPTY });
            self.rich.push(false);
        }
    }

    fn seat(&mut self, now: u64, allotment: u32) {
        match self.deques {
            Deques::PerAllotted => self.resize(allotment),
            Deques::PerProcessor => {
                for seat in 0..allotment as usize {
                    let drawn = self.random.random_range(seat..self.seats.len());
                    self.seats.swap(seat, drawn);
                }
            }
        }
        self.seated = allotment as usize;
        for nth in 0..self.seated {
            self.take_next(self.seats[nth], now);
        }
    }

    /// As many workers as processors. Which processors go, the paper leaves unsaid: drawn at random.
    fn resize(&mut self, allotment: u32) {
        if self.workers.len() == allotment as usize {
            return;
        }
        while self.workers.len() > allotment as usize {
            let leaves = self.random.random_range(0..self.workers.len());
            let ready = self.workers.swap_remove(leaves).ready;
            self.rich.swap_remove(leaves);
            if !ready.is_empty() {
                self.muggable.push(ready);
            }
        }
        // All that stay have other victims now.
        let seed = self.random.random();
        for (me, worker) in self.workers.iter_mut().enumerate() {
            worker.thief = self.policy.thief(WorkerId(me as u32), allotment, seed);
            worker.event = EMPTY;
        }
        self.hire(allotment);
        self.seats = (0..allotment).collect();
    }

    /// The quantum is over. A strand that is interrupted is the newest of its queue.
    fn unseat(&mut self, now: u64) {
        let mut ends = std::mem::take(&mut self.ends);
        for Reverse((end, _, worker)) in ends.drain() {
            let interrupted = &mut self.workers[worker as usize];
            let id = interrupted.running.take().expect("it runs");
            let length = NonZeroU64::new(end - now).expect("it is not done");
            interrupted.ready.push_back(Strand { id, length });
            self.note(worker);
        }
        self.ends = ends;
        self.thieves.clear();
    }

    // ---- Within a quantum. ----

    /// Notes whether a worker has something to steal.
    fn note(&mut self, worker: u32) {
        self.rich[worker as usize] = !self.workers[worker as usize].ready.is_empty();
    }

    fn start(&mut self, worker: u32, strand: Strand, now: u64) {
        self.workers[worker as usize].running = Some(strand.id);
        self.order += 1;
        self.ends.push(Reverse((now + strand.length.get(), self.order, worker)));
    }

    /// The newest of its own strands, or else it becomes a thief.
    fn take_next(&mut self, worker: u32, now: u64) {
        match self.workers[worker as usize].ready.pop_back() {
            Some(strand) => {
                self.note(worker);
                self.start(worker, strand, now);
            }
            None => self.thieves.push(worker),
        }
    }

    /// The strand that `worker` runs is done.
    fn finish(&mut self, worker: u32, now: u64) {
        let finished = &mut self.workers[worker as usize];
        let strand = finished.running.take().expect("it ran");
        finished.event = EMPTY;
        self.program.done(strand, &mut self.made_ready);
        self.done += 1;
        self.created += self.made_ready.len() as u64;
        finished.ready.extend(self.made_ready.drain(..));
        if self.done == self.created {
            self.ended_at = Some(now);
        }
        self.take_next(worker, now);
    }

    /// One step of every thief.
    fn step(&mut self, now: u64, cycles: &mut Cycles) {
        let mut thieves = std::mem::take(&mut self.thieves);
        thieves.retain(|thief| !self.act(*thief, now, cycles));
        self.thieves = thieves;
    }

    /// One cycle of a thief. True: it has found work, and begins in the next step.
    fn act(&mut self, me: u32, now: u64, cycles: &mut Cycles) -> bool {
        let mut event = self.workers[me as usize].event;
        for _ in 0..FREE_ACTIONS {
            event = match self.workers[me as usize].thief.next(event) {
                Action::StealFrom(victim) => {
                    cycles.steal += 1;
                    match self.steal(victim) {
                        Some(strand) => return self.begin(me, strand, now, Event::StealSucceeded(victim)),
                        None => return self.wait(me, Event::StealFailed(victim)),
                    }
                }
                Action::Mug => match self.muggable.pop() {
                    Some(mut ready) => {
                        cycles.mug += 1;
                        let strand = ready.pop_back().expect("an empty queue is not muggable");
                        self.workers[me as usize].ready = ready;
                        self.note(me);
                        return self.begin(me, strand, now, Event::Mugged(WorkerId(me)));
                    }
                    // The paper's structures tell at once: no cycle.
                    None => Event::NothingToMug,
                },
                Action::Pause { .. } => {
                    cycles.steal += 1;
                    return self.wait(me, Event::Paused { anyone_busy: true, core_is_wanted: false });
                }
                // A processor is the job's for the whole quantum.
                Action::YieldCore | Action::YieldTo(_) => Event::Yielded,
                Action::Inspect(victim) => Event::Seen(self.inspect(victim)),
                Action::Count => {
                    let busy = self.workers.iter().filter(|worker| worker.running.is_some()).count() as u32;
                    Event::Counted { busy, thieves: self.workers.len() as u32 - busy, sleepers: 0 }
                }
                // Nobody sleeps on this machine, and nobody owes a wake-up.
                Action::ClaimWakeup { .. } => Event::WakeupClaimed(None),
                Action::Wake { .. } => Event::PeerWoken(None),
                Action::Sleep => Event::SleepRefused(SleepRefusal::WorkArrived),
                Action::Run { wakeups_owed } => Event::DequeEmpty { wakeups_owed },
            };
        }
        cycles.steal += 1;
        self.wait(me, event)
    }

    /// It has found nothing in this step.
    fn wait(&mut self, me: u32, event: Event) -> bool {
        self.workers[me as usize].event = event;
        false
    }

    /// Tells the thief, which agrees to run what it has found: whatever it answers, a processor with a strand works.
    fn begin(&mut self, me: u32, strand: Strand, now: u64, found: Event) -> bool {
        let worker = &mut self.workers[me as usize];
        let _ = worker.thief.next(found);
        worker.event = EMPTY;
        self.start(me, strand, now + 1);
        true
    }

    /// The oldest strand of `victim`.
    fn steal(&mut self, victim: WorkerId) -> Option<Strand> {
        if !self.rich[victim.index()] {
            return None;
        }
        let stolen = self.workers[victim.index()].ready.pop_front();
        self.note(victim.0);
        stolen
    }

    fn inspect(&self, victim: WorkerId) -> Victim {
        let worker = &self.workers[victim.index()];
        let role = match (worker.running, worker.ready.is_empty()) {
            (None, true) => Role::Thief,
            (_, true) => Role::Poor,
            (_, false) => Role::Rich,
        };
        Victim { id: victim, role, run_status: RunStatus::Unknown, wakeups_owed: 0 }
    }

    /// What must hold at any time; the sentence says what does not.
    ///
    /// Looks at every queue: for tests, and now and then in long runs.
    pub fn check(&self) -> Result<(), String> {
        let queues = || self.workers.iter().map(|worker| &worker.ready).chain(&self.muggable);
        let running = self.workers.iter().filter(|worker| worker.running.is_some()).count() as u64;
        let queued: u64 = queues().map(|ready| ready.len() as u64).sum();
        if self.created != self.done + running + queued {
            let Job { created, done, .. } = self;
            return Err(format!("{created} strands were created, {done} are done, {running} run, {queued} wait"));
        }
        if self.ended_at.is_none() && running + queued == 0 {
            return Err("the job has not ended, and nothing is left".into());
        }
        let is_wrong = |(worker, rich): (&Worker, &bool)| worker.ready.is_empty() == *rich;
        if let Some(wrong) = self.workers.iter().zip(&self.rich).position(is_wrong) {
            return Err(format!("whether worker {wrong} has something to steal is not what is noted"));
        }
        if let Some(empty) = self.muggable.iter().position(Ready::is_empty) {
            return Err(format!("queue {empty} of the muggable ones is empty"));
        }
        Ok(())
    }
}
