//! The two levels of A-STEAL §1: a job scheduler allots processors to jobs for a quantum at a time, and each job's
//! thread scheduler runs the job on them.
//!
//! What a job desires is decided by its policy's coordinator, and how processors are shared out by
//! `comity_policy::allotment`: both are what runs on threads too. `comity_protocol::quantum` is not driven here,
//! for none of its decisions comes up. It decides what a program claims, takes back and releases in a table without
//! a job scheduler, and which workers it wakes. The paper has that scheduler, and a job holds what it was allotted.
//! So an account has what a quantum brought, and of the orders only the desire is read.

pub mod job;

use comity_policy::allotment::{Claim, deq, scattered};
use comity_policy::{Account, Coordinator, Orders, Policy};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Binomial, Distribution};

use crate::availability::Profile;
use crate::program::Program;
use crate::quanta::job::{Cycles, Deques, Job};

/// A thread scheduler: how a job runs on its processors, and what it tells the job scheduler.
#[derive(Clone, Copy, Debug)]
pub struct ThreadScheduler {
    /// The policy of the thieves and, with feedback, of the coordinator.
    pub policy: Policy,
    /// How many deques there are.
    pub deques: Deques,
    /// What the job scheduler is told.
    pub feedback: Feedback,
}

/// What a job tells the job scheduler of the processors that it can use.
#[derive(Clone, Copy, Debug)]
pub enum Feedback {
    /// Nothing: the job takes what it is given.
    None,
    /// What the policy's coordinator makes of the cycles that were counted.
    Counted,
    /// What it makes of so many cycles of the quantum, drawn at random: the estimate that A-STEAL §9 asks for.
    Sampled {
        /// How many cycles are sampled, at least one.
        cycles: u32,
    },
    /// What another coordinator makes of them.
    Other(fn() -> Box<dyn Coordinator>),
}

impl ThreadScheduler {
    /// A-STEAL with its δ and ρ in hundredths.
    ///
    /// # Panics
    /// If the policy does not take these values.
    pub fn a_steal(delta_percent: u32, rho_percent: u32) -> ThreadScheduler {
        let policy = format!("a-steal:delta_percent={delta_percent},rho_percent={rho_percent}");
        let policy = policy.parse().unwrap_or_else(|error| panic!("{error}"));
        ThreadScheduler { policy, deques: Deques::PerAllotted, feedback: Feedback::Counted }
    }

    /// ABP: a deque for each processor of the machine, and no feedback.
    pub fn abp() -> ThreadScheduler {
        let policy = Policy::of(&comity_policy::policies::abp::ROW);
        ThreadScheduler { policy, deques: Deques::PerProcessor, feedback: Feedback::None }
    }

    /// ABP with mugging (A-STEAL §9): a deque for each allotted processor, and no feedback.
    pub fn abp_mug() -> ThreadScheduler {
        let policy = Policy::of(&comity_policy::policies::abp_mug::ROW);
        ThreadScheduler { policy, deques: Deques::PerAllotted, feedback: Feedback::None }
    }

    /// A job that begins with the next quantum, on a machine of `processors`.
    ///
    /// # Panics
    /// If the job is to give feedback under a policy that has none.
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

/// Sees a few of the quantum's cycles only.
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
        // How many of so many cycles, each drawn from all, were used.
        let part = usage_ns as f64 / allotted_ns as f64;
        let used = Binomial::new(self.cycles.into(), part).expect("a part of a whole").sample(&mut self.random);
        let allotted_ns = u64::from(self.cycles);
        self.coordinator.quantum(&Account { usage_ns: used, allotted_ns, ..*account })
    }
}

/// A job, and what it tells the job scheduler.
pub struct Client {
    /// The job.
    pub job: Job,
    feedback: Option<Box<dyn Coordinator>>,
    last: Option<Quantum>,
}

/// A quantum of a job that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantum {
    /// d_q, as it was reported.
    pub desire: u32,
    /// a_q.
    pub allotment: u32,
    /// What the processors did.
    pub cycles: Cycles,
}

impl Client {
    /// d_q, the desire for the next quantum, of `processors` at the most.
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

/// Runs a job alone, on what `profile` says is available in each quantum of `length` steps, a_q = min(d_q, p_q)
/// (§1), for at most so many steps. Calls `see` with each quantum. The time at which the job ended.
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

/// Dynamic equipartitioning of `processors` among jobs that desire so many: equal shares, and none more than it
/// desires. Jobs without feedback desire all: for them it is equipartitioning.
pub fn allot(processors: u32, desires: &[u32], turn: u64) -> Vec<u32> {
    let claim = |(program, desire): (usize, &u32)| Claim { program: program as u64, weight: 1, desire: *desire };
    let claims: Vec<Claim> = desires.iter().enumerate().map(claim).collect();
    deq(processors, &claims, scattered(turn))
}

/// A machine with many jobs that come and go.
pub struct Server {
    /// P.
    pub processors: u32,
    /// L.
    pub length: u64,
    clients: Vec<(u64, Client)>,
    /// In the last quantum, of so many.
    allotted: u64,
    had: u32,
    /// Quanta that are over.
    quanta: u64,
}

impl Server {
    /// A machine without jobs.
    pub fn new(processors: u32, length: u64) -> Server {
        Server { processors, length, clients: Vec::new(), allotted: 0, had: processors, quanta: 0 }
    }

    /// When the next quantum begins.
    pub fn now(&self) -> u64 {
        self.quanta * self.length
    }

    /// The jobs that have not ended.
    pub fn jobs(&self) -> usize {
        self.clients.len()
    }

    /// A job, by a name of the caller's, that takes part from the next quantum on.
    pub fn admit(&mut self, name: u64, client: Client) {
        self.clients.push((name, client));
    }

    /// Lets the quanta pass that begin before `at`, in which there are no jobs; the time then.
    ///
    /// # Panics
    /// If there are jobs.
    pub fn skip_to(&mut self, at: u64) -> u64 {
        assert!(self.clients.is_empty(), "jobs would miss their quanta");
        self.quanta = self.quanta.max(at.div_ceil(self.length));
        self.now()
    }

    /// Takes out the jobs with names for which `dies` is true, with all that they have not done; their names.
    pub fn kill(&mut self, mut dies: impl FnMut(u64) -> bool) -> Vec<u64> {
        self.clients.extract_if(.., |(name, _)| dies(*name)).map(|(name, _)| name).collect()
    }

    /// One quantum of all jobs, on `processors` of the machine's; `equally`: whatever they desire. Calls `ended`
    /// with the name of each job that ended, and when; returns what the processors of each did.
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

    /// What must hold at any time; the sentence says what does not.
    pub fn check(&self) -> Result<(), String> {
        if self.allotted > self.had.into() {
            return Err(format!("{} processors are allotted, and the machine had {}", self.allotted, self.had));
        }
        let check = |(name, client): &(u64, Client)| client.job.check().map_err(|what| format!("job {name}: {what}"));
        self.clients.iter().try_for_each(check)
    }
}
