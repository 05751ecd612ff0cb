//! The two levels of A-STEAL §1: a job scheduler allots processors to jobs for a quantum at a time, and each job's
//! thread scheduler runs the job on them.
//!
//! A job's desire (the number of processors that it requests) comes from its policy's coordinator, and
//! `comity_policy::allotment` divides the processors. Real programs use the same code for both.
//!
//! This machine does not use `comity_protocol::quantum`. Without a job scheduler, that code decides which cores a
//! program claims, takes back and releases in the core table, and which workers it wakes. Here the job scheduler
//! decides, and a job holds the processors that it was allotted. The [`Account`] therefore describes only the result
//! of a quantum, and of the coordinator's [`Orders`] only the desire is read.

pub mod job;

use comity_policy::allotment::{Claim, deq, scattered};
use comity_policy::{Account, Coordinator, Orders, Policy};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Binomial, Distribution};

use crate::availability::Profile;
use crate::program::Program;
use crate::quanta::job::{Cycles, Deques, Job};

/// A thread scheduler: the rules by which a job runs on its processors and reports to the job scheduler.
#[derive(Clone, Copy, Debug)]
pub struct ThreadScheduler {
    /// The policy of the thieves and, with feedback, of the coordinator.
    pub policy: Policy,
    /// The number of deques.
    pub deques: Deques,
    /// The job's reports to the job scheduler.
    pub feedback: Feedback,
}

/// The way in which a job reports to the job scheduler the number of processors that it can use.
#[derive(Clone, Copy, Debug)]
pub enum Feedback {
    /// No report: the job takes what it is given.
    None,
    /// The desire that the policy's coordinator derives from the counted cycles.
    Counted,
    /// The desire that the policy's coordinator derives from a random sample of the quantum's cycles. This is the
    /// estimate that A-STEAL §9 asks for.
    Sampled {
        /// The number of sampled cycles, at least one.
        cycles: u32,
    },
    /// The desire that another coordinator derives from the counted cycles.
    Other(fn() -> Box<dyn Coordinator>),
}

impl ThreadScheduler {
    /// Creates A-STEAL with its δ and ρ in hundredths.
    ///
    /// # Panics
    /// Panics if the policy does not accept these values.
    pub fn a_steal(delta_percent: u32, rho_percent: u32) -> ThreadScheduler {
        let policy = format!("a-steal:delta_percent={delta_percent},rho_percent={rho_percent}");
        let policy = policy.parse().unwrap_or_else(|error| panic!("{error}"));
        ThreadScheduler { policy, deques: Deques::PerAllotted, feedback: Feedback::Counted }
    }

    /// Creates ABP: a deque for each processor of the machine, and no feedback.
    pub fn abp() -> ThreadScheduler {
        let policy = Policy::of(&comity_policy::policies::abp::DEFINITION);
        ThreadScheduler { policy, deques: Deques::PerProcessor, feedback: Feedback::None }
    }

    /// Creates ABP whose processes keep the strand in which they are interrupted (A-STEAL's reference 4).
    pub fn abp_per_process() -> ThreadScheduler {
        ThreadScheduler { deques: Deques::PerProcess, ..ThreadScheduler::abp() }
    }

    /// Creates ABP with mugging (A-STEAL §9): a deque for each allotted processor, and no feedback.
    pub fn abp_mug() -> ThreadScheduler {
        let policy = Policy::of(&comity_policy::policies::abp_mug::DEFINITION);
        ThreadScheduler { policy, deques: Deques::PerAllotted, feedback: Feedback::None }
    }

    /// Creates a job that begins with the next quantum, on a machine of `processors`.
    ///
    /// # Panics
    /// Panics if the scheduler has feedback, but its policy has no coordinator.
    pub fn submit(&self, program: Box<dyn Program>, processors: u32, mut random: ChaCha8Rng) -> Client {
        let coordinator = || self.policy.coordinator().unwrap_or_else(|| panic!("{} has no feedback", self.policy));
        let feedback: Option<Box<dyn Coordinator>> = match self.feedback {
            Feedback::None => None,
            Feedback::Counted => Some(coordinator()),
            Feedback::Sampled { cycles } => {
                let mut seed = <ChaCha8Rng as rand::SeedableRng>::Seed::default();
                random.fill_bytes(&mut seed);
                let random = rand::SeedableRng::from_seed(seed);
                Some(Box::new(Sampled { cycles, coordinator: coordinator(), random }))
            }
            Feedback::Other(coordinator) => Some(coordinator()),
        };
        let job = Job::new(program, self.policy, self.deques, processors, random);
        Client { job, feedback, last: None }
    }
}

/// A coordinator that derives the desire from a random sample of the quantum's cycles.
struct Sampled {
    cycles: u32,
    coordinator: Box<dyn Coordinator>,
    random: ChaCha8Rng,
}

impl Coordinator for Sampled {
    fn quantum(&mut self, account: &Account) -> Orders {
        let Account { usage_ns, allotted_ns, .. } = *account;
        if allotted_ns == 0 {
            return self.coordinator.quantum(account);
        }
        // The number of sampled cycles that were used. Each sample is drawn from all cycles.
        let part = usage_ns as f64 / allotted_ns as f64;
        let used = Binomial::new(self.cycles.into(), part).expect("a part of a whole").sample(&mut self.random);
        let allotted_ns = u64::from(self.cycles);
        self.coordinator.quantum(&Account { usage_ns: used, allotted_ns, ..*account })
    }
}

/// A job, with the coordinator that reports its desire to the job scheduler.
pub struct Client {
    /// The job.
    pub job: Job,
    feedback: Option<Box<dyn Coordinator>>,
    last: Option<Quantum>,
}

/// A quantum of a job that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantum {
    /// d_q, the reported desire.
    pub desire: u32,
    /// a_q, the allotment.
    pub allotment: u32,
    /// The cycles of the job's processors.
    pub cycles: Cycles,
}

impl Client {
    /// Returns d_q, the desire for the next quantum, at most `processors`.
    pub fn desire(&mut self, processors: u32, length: u64) -> u32 {
        let Some(feedback) = &mut self.feedback else { return processors };
        let last = self.last;
        // The units of the account are cycles here.
        let account = Account {
            first: last.is_none(),
            workers: processors,
            usable: processors,
            usage_ns: last.map_or(0, |last| last.cycles.usage()),
            allotted_ns: last.map_or(0, |last| length * u64::from(last.allotment)),
            allotment: last.map_or(0, |last| last.allotment),
            ..Account::default()
        };
        feedback.quantum(&account).desire
    }

    /// Runs one quantum.
    pub fn run(&mut self, from: u64, length: u64, desire: u32, allotment: u32) -> Quantum {
        let cycles = self.job.run(from, from + length, allotment);
        let quantum = Quantum { desire, allotment, cycles };
        self.last = Some(quantum);
        quantum
    }
}

/// Runs a job alone for at most `at_most` steps, in quanta of `length` steps. The allotment is a_q = min(d_q, p_q)
/// (§1), and `profile` has the availability p_q. Calls `see` with each quantum. Returns the step at which the job
/// ended.
pub fn run_alone(
    client: &mut Client,
    processors: u32,
    profile: &Profile,
    length: u64,
    at_most: u64,
    mut see: impl FnMut(Quantum),
) -> Option<u64> {
    for nth in 0..at_most.div_ceil(length) {
        let desire = client.desire(processors, length);
        let allotment = desire.min(profile.in_quantum(nth)).min(processors);
        see(client.run(nth * length, length, desire, allotment));
        if client.job.ended_at().is_some() {
            break;
        }
    }
    client.job.ended_at()
}

/// Divides `processors` among jobs by dynamic equipartitioning: equal shares, but no job gets more than its desire.
/// Jobs without feedback request all processors; if no job has feedback, this is equipartitioning.
pub fn allot(processors: u32, desires: &[u32], turn: u64) -> Vec<u32> {
    let claim = |(program, desire): (usize, &u32)| Claim { program: program as u64, weight: 1, desire: *desire };
    let claims: Vec<Claim> = desires.iter().enumerate().map(claim).collect();
    deq(processors, &claims, scattered(turn))
}

/// A machine on which jobs begin and end at different times.
pub struct Server {
    /// P, the number of processors.
    pub processors: u32,
    /// L, the steps of a quantum.
    pub length: u64,
    clients: Vec<(u64, Client)>,
    /// The number of allotted processors (`allotted`) and of the machine's processors (`had`) in the last quantum.
    allotted: u64,
    had: u32,
    /// The number of quanta that are over.
    quanta: u64,
}

impl Server {
    /// Creates a machine without jobs.
    pub fn new(processors: u32, length: u64) -> Server {
        Server { processors, length, clients: Vec::new(), allotted: 0, had: processors, quanta: 0 }
    }

    /// The step at which the next quantum begins.
    pub fn now(&self) -> u64 {
        self.quanta * self.length
    }

    /// The number of jobs that have not ended.
    pub fn jobs(&self) -> usize {
        self.clients.len()
    }

    /// Adds a job, which runs from the next quantum on. The caller chooses its name.
    pub fn admit(&mut self, name: u64, client: Client) {
        self.clients.push((name, client));
    }

    /// Skips the quanta that begin before `at`. There must be no jobs. Returns the time after that.
    ///
    /// # Panics
    /// Panics if there are jobs.
    pub fn skip_to(&mut self, at: u64) -> u64 {
        assert!(self.clients.is_empty(), "jobs would miss their quanta");
        self.quanta = self.quanta.max(at.div_ceil(self.length));
        self.now()
    }

    /// Removes the jobs for whose names `dies` returns true, with all their unfinished work. Returns their names.
    pub fn kill(&mut self, mut dies: impl FnMut(u64) -> bool) -> Vec<u64> {
        self.clients.extract_if(.., |(name, _)| dies(*name)).map(|(name, _)| name).collect()
    }

    /// Runs one quantum of all jobs on `processors` processors. With `equally`, ignores the desire of each job. Calls
    /// `ended` for each job that ended, with the job's name and the step of its end. Returns the cycles of each job's
    /// processors.
    pub fn quantum(&mut self, processors: u32, equally: bool, mut ended: impl FnMut(u64, u64)) -> Vec<(u64, Cycles)> {
        let (all, length, now) = (self.processors, self.length, self.now());
        let desires = self.clients.iter_mut().map(|(_, client)| {
            let desire = client.desire(all, length);
            if equally { all } else { desire }
        });
        let desires: Vec<u32> = desires.collect();
        let allotments = allot(processors, &desires, self.quanta);
        self.had = processors;
        self.allotted = allotments.iter().map(|allotment| u64::from(*allotment)).sum();
        let mut each = Vec::with_capacity(desires.len());
        let mut seats = desires.iter().zip(allotments);
        self.clients.retain_mut(|(name, client)| {
            let (desire, allotment) = seats.next().expect("one for each job");
            each.push((*name, client.run(now, length, *desire, allotment).cycles));
            let end = client.job.ended_at();
            if let Some(end) = end {
                ended(*name, end);
            }
            end.is_none()
        });
        self.quanta += 1;
        each
    }

    /// Checks the invariants of the machine and its jobs. The error is a sentence that names the violated invariant.
    pub fn check(&self) -> Result<(), String> {
        if self.allotted > self.had.into() {
            return Err(format!("{} processors are allotted, but the machine had {}", self.allotted, self.had));
        }
        let check = |(name, client): &(u64, Client)| client.job.check().map_err(|what| format!("job {name}: {what}"));
        self.clients.iter().try_for_each(check)
    }
}
