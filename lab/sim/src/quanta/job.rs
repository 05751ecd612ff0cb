//! One job on the machine of A-STEAL §3: a program, its deques, and the processors that it is allotted for a quantum.
//!
//! Time passes in steps. In each step a processor does one cycle: it works, tries to steal, or mugs. Reallocation
//! costs nothing, as in the paper. The thieves are those of the policy catalog. A thief's *spell* lasts from its first
//! cycle without a strand until it begins a strand, and consists of a dialogue of `comity_protocol::dialogue`. This
//! file drives the dialogue: it carries out each effect, and decides which effects take a cycle.
//!
//! Processors that work are skipped until a strand ends. Processors that steal are handled in every step, because each
//! attempt may have another result. The outcome is the same as if every processor was handled in every step
//! (`tests/stepping.rs`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU64;
use std::ops::AddAssign;

use comity_policy::{Policy, Role, RunStatus, Thief, Victim, WorkerId};
use comity_protocol::dialogue::{Dialogue, Effect, Outcome, Surroundings, Take};
use comity_protocol::sleep::Roles;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::program::{Program, Strand};

/// The number of deques of a job, and the fate of a deque that loses its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deques {
    /// A deque for each allotted processor. The deque of a processor that leaves can be mugged (A-STEAL).
    PerAllotted,
    /// A deque for each processor of the machine. Each quantum assigns the allotted processors to deques at random,
    /// and thieves look at all deques (ABP).
    PerProcessor,
    /// A deque for each process, with as many processes as processors. The same as `PerProcessor`, except that a
    /// process without a processor keeps the strand that was interrupted, so no thief can take it (Arora, Blumofe and
    /// Plaxton, A-STEAL's reference 4).
    PerProcess,
}

/// Counts of what the processors of a job did, in processor cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycles {
    /// Cycles spent working.
    pub work: u64,
    /// Cycles spent on attempts to steal, successful or not.
    pub steal: u64,
    /// Cycles spent mugging.
    pub mug: u64,
}

impl Cycles {
    /// The sum of all cycles.
    pub fn total(&self) -> u64 {
        self.work + self.steal + self.mug
    }

    /// The nonsteal usage of A-STEAL §2: the cycles spent working or mugging.
    pub fn usage(&self) -> u64 {
        self.work + self.mug
    }

    /// Cycles that do not advance the job.
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

/// A worker: its deque, and the activity of its processor.
#[derive(Default)]
struct Worker {
    /// The strand that runs. The time at which it ends is in `Job::ends`.
    running: Option<u32>,
    /// The interrupted strand that only this worker can continue. See [`Deques::PerProcess`].
    kept: Option<Strand>,
    /// The ready strands, the oldest first.
    ready: Ready,
    wakeups_owed: u32,
}

impl Worker {
    /// True if the worker runs a strand, or has a strand that it can run.
    fn has_task(&self) -> bool {
        self.running.is_some() || self.kept.is_some() || !self.ready.is_empty()
    }
}

type Ready = VecDeque<Strand>;

/// The thief of a worker, and the thief's current dialogue.
struct Spell {
    thief: Box<dyn Thief>,
    /// The dialogue, from the first cycle of the worker as a thief until it begins a strand.
    dialogue: Option<Dialogue>,
    /// The outcome that the dialogue has not received yet.
    outcome: Outcome,
}

impl Spell {
    fn of(thief: Box<dyn Thief>) -> Spell {
        Spell { thief, dialogue: None, outcome: Outcome::Done }
    }
}

/// The workers of a job with their deques, and the queues of workers that have lost their processors. These are the
/// surroundings of a thief.
#[derive(Default)]
struct Queues {
    workers: Vec<Worker>,
    /// True for each worker that has something to steal. With it, most attempts need not look at the queues.
    rich: Vec<bool>,
    /// The queues of workers that have lost their processor for good.
    muggable: Vec<Ready>,
}

impl Queues {
    /// Adds a worker.
    fn hire(&mut self) {
        self.workers.push(Worker::default());
        self.rich.push(false);
    }

    /// Removes a worker that has lost its processor for good.
    fn dismiss(&mut self, worker: usize) {
        self.rich.swap_remove(worker);
        let ready = self.workers.swap_remove(worker).ready;
        if !ready.is_empty() {
            self.muggable.push(ready);
        }
    }

    /// Notes whether a worker has something to steal.
    fn note(&mut self, worker: u32) {
        self.rich[worker as usize] = !self.workers[worker as usize].ready.is_empty();
    }

    /// Takes the oldest strand of `victim`.
    fn steal(&mut self, victim: WorkerId) -> Option<Strand> {
        if !self.rich[victim.index()] {
            return None;
        }
        let stolen = self.workers[victim.index()].ready.pop_front();
        self.note(victim.0);
        stolen
    }

    /// Takes over a muggable queue and returns its oldest strand, with which a thief of a real program begins, too.
    fn mug(&mut self, me: u32) -> Strand {
        let mut ready = self.muggable.pop().expect("the dialogue was told of it");
        let strand = ready.pop_front().expect("an empty queue is not muggable");
        self.workers[me as usize].ready = ready;
        self.note(me);
        strand
    }

    fn claim_wakeup(&mut self, from: WorkerId) -> Outcome {
        let owed = &mut self.workers[from.index()].wakeups_owed;
        let claimed = *owed > 0;
        *owed = owed.saturating_sub(1);
        if claimed { Outcome::Took(Take::Taken) } else { Outcome::Took(Take::Nothing) }
    }

    fn inspect(&self, victim: WorkerId) -> Victim {
        let worker = &self.workers[victim.index()];
        let role = match (worker.has_task(), worker.ready.is_empty()) {
            (false, _) => Role::Thief,
            (true, true) => Role::Poor,
            (true, false) => Role::Rich,
        };
        let run_status = match (role, worker.running) {
            (Role::Thief | Role::Sleeper, _) => RunStatus::Unknown,
            (Role::Rich | Role::Poor, Some(_)) => RunStatus::Running,
            (Role::Rich | Role::Poor, None) => RunStatus::Preempted,
        };
        Victim { id: victim, role, run_status, wakeups_owed: worker.wakeups_owed }
    }

    /// Carries out an effect that takes no cycle. Inlined, like [`Dialogue::next`], so that the effect that
    /// [`Dialogue::next`] returns need not be written to memory.
    #[inline(always)]
    fn without_cycle(&mut self, effect: Effect) -> Outcome {
        match effect {
            // A yield has no effect, because a processor belongs to the job for the whole quantum.
            Effect::Yield(_) | Effect::Step(_) => Outcome::Done,
            // No task comes from outside, and nothing is accelerated.
            Effect::TakeInjected | Effect::Accelerate { .. } => Outcome::Took(Take::Nothing),
            Effect::Inspect(victim) => Outcome::Seen(self.inspect(victim)),
            Effect::ClaimWakeup(from) => self.claim_wakeup(from),
            Effect::Wake { .. } => Outcome::Woke(None),
            effect => unreachable!("{effect:?} takes a cycle, ends a spell, or waits"),
        }
    }
}

/// A processor belongs to the job for the whole quantum, so no worker rests.
impl Surroundings for Queues {
    fn workers(&self) -> u32 {
        self.workers.len() as u32
    }

    /// A job that has not ended has a strand that runs, or a strand that was interrupted.
    fn any_busy(&self) -> bool {
        true
    }

    fn roles(&self) -> Roles {
        let busy = self.workers.iter().filter(|worker| worker.has_task()).count() as u32;
        Roles { busy, thieves: self.workers() - busy, sleepers: 0 }
    }

    /// A worker that has lost its processor for good has no number any more. A muggable queue therefore has the number
    /// after the last worker's number.
    fn next_without_core(&self, _: WorkerId, last: Option<WorkerId>) -> Option<WorkerId> {
        (last.is_none() && !self.muggable.is_empty()).then_some(WorkerId(self.workers()))
    }
}

/// A job: a program, its workers with their deques, and what they do in each step.
pub struct Job {
    program: Box<dyn Program>,
    deques: Deques,
    policy: Policy,
    random: ChaCha8Rng,
    queues: Queues,
    /// The thief of each worker.
    spells: Vec<Spell>,
    /// The workers, of which the first `seated` have a processor. With [`Deques::PerProcessor`] and [`Deques::PerProcess`] the
    /// order is random.
    seats: Vec<u32>,
    seated: usize,
    /// Ends of the running strands: time, order, worker.
    ends: BinaryHeap<Reverse<(u64, u64, u32)>>,
    order: u64,
    /// The workers that are thieves, in the order in which they became thieves.
    thieves: Vec<u32>,
    spent: Cycles,
    created: u64,
    done: u64,
    ended_at: Option<u64>,
    /// A buffer for the strands that a strand makes ready.
    made_ready: Vec<Strand>,
}

/// The maximum number of effects without a cycle that a thief may have in a row. After this number of effects, the
/// thief's cycle counts as a failed steal.
const FREE_EFFECTS: u32 = 16;

impl Job {
    /// Creates a job that runs `program` with the thieves of `policy`, on a machine of `processors`. All random choices
    /// are drawn from `random`.
    ///
    /// # Panics
    /// Panics if `processors` is zero.
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
            queues: Queues::default(),
            spells: Vec::new(),
            seats: Vec::new(),
            seated: 0,
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
            Deques::PerProcessor | Deques::PerProcess => processors,
        };
        job.hire(workers);
        job.seats = (0..workers).collect();
        job.queues.workers[0].ready.push_back(root);
        job.queues.note(0);
        job
    }

    /// The cycles of the job's processors so far.
    pub fn spent(&self) -> Cycles {
        self.spent
    }

    /// The number of strands that have ended plus the number of cycles of thieves: the events of the simulation.
    pub fn events(&self) -> u64 {
        self.done + self.spent.waste()
    }

    /// The step at which the last strand ended.
    pub fn ended_at(&self) -> Option<u64> {
        self.ended_at
    }

    /// Runs the steps from `from` to before `to` on `allotment` processors. Returns the cycles of the processors
    /// until `to`, or until the job ended.
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

    /// Adds workers until there are `count`.
    fn hire(&mut self, count: u32) {
        let seed = self.random.random();
        for me in self.queues.workers()..count {
            self.queues.hire();
            self.spells.push(Spell::of(self.policy.thief(WorkerId(me), count, seed)));
        }
    }

    fn seat(&mut self, now: u64, allotment: u32) {
        match self.deques {
            Deques::PerAllotted => self.resize(allotment),
            Deques::PerProcessor | Deques::PerProcess => {
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

    /// Adjusts the number of workers to the allotment. The paper does not say which processors leave, so they are drawn
    /// at random.
    fn resize(&mut self, allotment: u32) {
        if self.queues.workers() == allotment {
            return;
        }
        while self.queues.workers() > allotment {
            let leaves = self.random.random_range(0..self.spells.len());
            self.spells.swap_remove(leaves);
            self.queues.dismiss(leaves);
        }
        // A thief is created for a number of workers, so all workers that stay get new thieves.
        let seed = self.random.random();
        for (me, spell) in self.spells.iter_mut().enumerate() {
            *spell = Spell::of(self.policy.thief(WorkerId(me as u32), allotment, seed));
            self.queues.workers[me].wakeups_owed = 0;
        }
        self.hire(allotment);
        self.seats = (0..allotment).collect();
    }

    /// Ends the quantum. An interrupted strand becomes the newest strand of its worker's queue, or stays with its worker.
    fn unseat(&mut self, now: u64) {
        let mut ends = std::mem::take(&mut self.ends);
        for Reverse((end, _, worker)) in ends.drain() {
            let interrupted = &mut self.queues.workers[worker as usize];
            let id = interrupted.running.take().expect("the worker runs a strand");
            let length = NonZeroU64::new(end - now).expect("the strand has not ended");
            let strand = Strand { id, length };
            if self.deques == Deques::PerProcess {
                interrupted.kept = Some(strand);
            } else {
                interrupted.ready.push_back(strand);
                self.queues.note(worker);
            }
        }
        self.ends = ends;
        self.thieves.clear();
    }

    fn start(&mut self, worker: u32, strand: Strand, now: u64) {
        self.queues.workers[worker as usize].running = Some(strand.id);
        self.order += 1;
        self.ends.push(Reverse((now + strand.length.get(), self.order, worker)));
    }

    /// Makes the worker continue its interrupted strand, take the newest strand of its own queue, or become a thief if
    /// the queue is empty.
    fn take_next(&mut self, worker: u32, now: u64) {
        let own = &mut self.queues.workers[worker as usize];
        match own.kept.take().or_else(|| own.ready.pop_back()) {
            Some(strand) => {
                self.queues.note(worker);
                self.start(worker, strand, now);
            }
            None => self.thieves.push(worker),
        }
    }

    /// Ends the strand that `worker` runs.
    fn finish(&mut self, worker: u32, now: u64) {
        let finished = &mut self.queues.workers[worker as usize];
        let strand = finished.running.take().expect("the worker runs a strand");
        self.program.done(strand, &mut self.made_ready);
        self.done += 1;
        self.created += self.made_ready.len() as u64;
        finished.ready.extend(self.made_ready.drain(..));
        if self.done == self.created {
            self.ended_at = Some(now);
        }
        self.take_next(worker, now);
    }

    /// Runs one step of every thief.
    fn step(&mut self, now: u64, cycles: &mut Cycles) {
        let thieves = std::mem::take(&mut self.thieves).into_iter();
        self.thieves = thieves.filter(|thief| !self.act(*thief, now, cycles)).collect();
    }

    /// Runs one cycle of a thief. Returns true if the thief has found work, which it begins in the next step.
    fn act(&mut self, me: u32, now: u64, cycles: &mut Cycles) -> bool {
        let queues = &mut self.queues;
        let Spell { thief, dialogue, outcome: untold } = &mut self.spells[me as usize];
        let spell = dialogue.get_or_insert_with(|| {
            let owed = std::mem::take(&mut queues.workers[me as usize].wakeups_owed);
            Dialogue::begin(WorkerId(me), owed, queues)
        });
        let mut outcome = *untold;
        for _ in 0..FREE_EFFECTS {
            outcome = match spell.next(&mut **thief, queues, outcome) {
                Effect::StealFrom(victim) => {
                    cycles.steal += 1;
                    if let Some(strand) = queues.steal(victim) {
                        self.begin(me, strand, now + 1);
                        return true;
                    }
                    *untold = Outcome::Took(Take::Nothing);
                    return false;
                }
                // A thief mugs only if there is a muggable queue. In the paper, a thief learns without a cycle whether
                // there is such a queue.
                Effect::Mug(_) => {
                    cycles.mug += 1;
                    let strand = queues.mug(me);
                    self.begin(me, strand, now + 1);
                    return true;
                }
                Effect::Pause { .. } => {
                    cycles.steal += 1;
                    *untold = Outcome::Done;
                    return false;
                }
                effect => queues.without_cycle(effect),
            };
        }
        cycles.steal += 1;
        *untold = outcome;
        false
    }

    /// Makes the thief begin this strand at the step `at`. The rest of the thief's dialogue takes no cycle, and the
    /// dialogue itself bounds the number of effects.
    #[cold]
    fn begin(&mut self, me: u32, strand: Strand, at: u64) {
        let Spell { thief, dialogue, outcome: untold } = &mut self.spells[me as usize];
        let mut spell = dialogue.take().expect("a thief is in a dialogue");
        *untold = Outcome::Done;
        let mut outcome = Outcome::Took(Take::Taken);
        let wakeups_owed = loop {
            match spell.next(&mut **thief, &self.queues, outcome) {
                Effect::Begin { wakeups_owed } => break wakeups_owed,
                effect => outcome = self.queues.without_cycle(effect),
            }
        };
        spell.finish(&self.queues);
        self.queues.workers[me as usize].wakeups_owed = wakeups_owed;
        self.start(me, strand, at);
    }

    /// Checks the invariants of the job. The error is a sentence that names the violated invariant.
    ///
    /// The check looks at every queue, so it is meant for tests, and for occasional use in long runs.
    pub fn check(&self) -> Result<(), String> {
        let Queues { workers, rich, muggable } = &self.queues;
        let queues = || workers.iter().map(|worker| &worker.ready).chain(muggable);
        let running = workers.iter().filter(|worker| worker.running.is_some() || worker.kept.is_some()).count() as u64;
        let queued: u64 = queues().map(|ready| ready.len() as u64).sum();
        if self.created != self.done + running + queued {
            let Job { created, done, .. } = self;
            return Err(format!(
                "{created} strands were created, {done} are done, {running} run or are kept, {queued} wait"
            ));
        }
        if self.ended_at.is_none() && running + queued == 0 {
            return Err("the job has not ended, but has no strand left".into());
        }
        let is_wrong = |(worker, rich): (&Worker, &bool)| worker.ready.is_empty() == *rich;
        if let Some(wrong) = workers.iter().zip(rich).position(is_wrong) {
            return Err(format!("worker {wrong}: the note about strands to steal is wrong"));
        }
        if let Some(empty) = muggable.iter().position(Ready::is_empty) {
            return Err(format!("muggable queue {empty} is empty"));
        }
        Ok(())
    }
}
