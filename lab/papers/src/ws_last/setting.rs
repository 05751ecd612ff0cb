//! The machine of WS-LAST (§4), and what is run on it: scatter-gather under two answers to where an unblocked task
//! goes.
//!
//! What the paper leaves unsaid (what things cost on its machine) is chosen here, once for all experiments;
//! `docs/papers/ws-last.md` says how, and how the outcomes depend on it.

use comity_policy::Policy;
use comity_sim::network::Network;
use comity_sim::threads::{Costs, Host};
use serde::{Deserialize, Serialize};

use crate::Runner;
use crate::vary::Vary;

/// The CPUs of the paper's machine.
pub const CPUS: u32 = 8;

/// T: §4 fixes it to a second in all experiments but the third.
pub const T: u64 = 1_000_000_000;

/// Which of the two algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Variant {
    /// WS-CUR: an unblocked task goes to the worker of the task that unblocked it.
    Cur,
    /// WS-LAST: it goes to the worker that it last ran on.
    Last,
}

impl Variant {
    /// Both, as the paper has them.
    pub const ALL: [Variant; 2] = [Variant::Cur, Variant::Last];

    /// The paper's name.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Cur => "WS-CUR",
            Variant::Last => "WS-LAST",
        }
    }

    /// The policy, as `--policy` takes it.
    pub fn policy(self) -> &'static str {
        match self {
            Variant::Cur => "ws-last:place=current",
            Variant::Last => "ws-last",
        }
    }
}

/// One data point: what is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// n.
    pub workers: u32,
    /// w = T/d, in nanoseconds.
    pub work: u64,
    /// The algorithm.
    pub variant: Variant,
}

/// What came of it: the measurement with the median time on all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// m.
    pub rounds: u32,
    /// The running time on one CPU, in nanoseconds.
    pub on_one: u64,
    /// The running time on all CPUs, in nanoseconds.
    pub on_all: u64,
    /// Attempts to steal on all.
    pub attempts: u64,
}

/// A point and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// What came of it.
    #[serde(flatten)]
    pub measured: Measured,
}

impl Outcome {
    /// The running time on one CPU over that on all.
    pub fn speedup(&self) -> f64 {
        self.measured.on_one as f64 / self.measured.on_all as f64
    }

    /// Attempts to steal in a second, of all CPUs together.
    pub fn steal_rate(&self) -> f64 {
        self.measured.attempts as f64 / self.seconds()
    }

    /// The running time on all CPUs.
    pub fn seconds(&self) -> f64 {
        self.measured.on_all as f64 / 1e9
    }

    /// The running time of a round, in nanoseconds.
    pub fn round(&self) -> f64 {
        self.measured.on_all as f64 / f64::from(self.measured.rounds)
    }
}

/// What all four experiments are simulated with.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The seed of all that is drawn.
    pub seed: u64,
    /// The policy of a variant, unless a test breaks it.
    pub policy: fn(Variant) -> &'static str,
    /// What things cost on the paper's machine.
    pub costs: Costs,
    /// What sending or receiving a message costs, in nanoseconds.
    pub message: u64,
    /// One round of so many only, for a quick look.
    pub one_in: u32,
    /// Of so many running times the median is taken.
    pub measurements: u64,
    /// True if the experiments run on this machine's threads.
    pub real: bool,
}

impl Setting {
    /// "The median of 9 consecutive measurements" on the machine of §4, with the costs that
    /// `claims.toml` fits.
    pub fn new(seed: u64) -> Setting {
        let costs = Costs {
            queue: 150,
            removal: 1_000,
            handover: 5_000,
            steal: 1_000,
            yield_core: 5_000,
            switch_task: 100,
            ..Costs::default()
        };
        Setting { seed, policy: Variant::policy, costs, message: 50, one_in: 1, measurements: 9, real: false }
    }

    /// m. The paper has as many rounds as make seconds. Here as many as make two seconds of work, but from 50 to
    /// 500: all but the first few are alike, and both times are of as many.
    fn rounds(&self, point: Point) -> u32 {
        let rounds = 2 * T / (u64::from(point.workers) * point.work);
        (rounds.clamp(50, 500) as u32 / self.one_in).max(5)
    }

    /// One running time in nanoseconds, and the attempts to steal.
    fn time(&self, point: Point, cpus: u32, seed: u64) -> (u64, u64) {
        let policy: Policy = (self.policy)(point.variant).parse().expect("it is in the catalog");
        let mut host = Host::new(cpus as usize, self.costs, seed);
        let program = Network::scatter_gather(point.workers as usize, self.rounds(point), point.work, self.message);
        let number = host.submit_network(0, program, policy, cpus, seed);
        host.run(u64::MAX, u64::MAX).expect("what must hold does");
        let fate = host.fate(number);
        (fate.ended.expect("scatter-gather ends"), fate.counts.attempts)
    }

    fn measure(&self, point: Point) -> Measured {
        let first = self.seed.wrapping_mul(self.measurements);
        let mut times: Vec<(u64, u64)> =
            (0..self.measurements).map(|nth| self.time(point, CPUS, first.wrapping_add(nth))).collect();
        times.sort_unstable();
        let (on_all, attempts) = times[times.len() / 2];
        // There nothing is drawn.
        let (on_one, _) = self.time(point, 1, first);
        Measured { rounds: self.rounds(point), on_one, on_all, attempts }
    }

    /// Simulates the points of an experiment.
    ///
    /// # Errors
    /// If not all of the runs are done.
    pub fn simulate<R: Runner>(&self, name: &str, points: &[Point], runner: &R) -> Result<Vec<Outcome>, R::Stop> {
        let measured = runner.run(name, points.len(), |nth| self.measure(points[nth]))?;
        Ok(points.iter().zip(measured).map(|(point, measured)| Outcome { point: *point, measured }).collect())
    }
}

impl Vary for Setting {
    fn usual(seed: u64) -> Result<Setting, String> {
        Ok(Setting::new(seed))
    }

    fn vary(&mut self, text: &str) -> Result<(), String> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let cost = match key {
            "queue" => &mut self.costs.queue,
            "handover" => &mut self.costs.handover,
            "steal" => &mut self.costs.steal,
            "removal" => &mut self.costs.removal,
            "yield" => &mut self.costs.yield_core,
            "switch" => &mut self.costs.switch_task,
            "message" => &mut self.message,
            _ => {
                return Err(format!(
                    "'{text}' is none of queue, handover, steal, removal, yield, switch or message=NANOSECONDS"
                ));
            }
        };
        let least = u64::from(matches!(key, "steal" | "yield" | "message"));
        let wrong = || format!("'{value}' is no whole number of nanoseconds from {least} to 1000000");
        *cost = value.parse().ok().filter(|cost| (least..=1_000_000).contains(cost)).ok_or_else(wrong)?;
        Ok(())
    }
}

/// Every combination, under both algorithms.
pub(super) fn grid(workers: &[u32], works: &[u64]) -> Vec<Point> {
    let of = |variant: Variant| {
        workers
            .iter()
            .flat_map(move |workers| works.iter().map(move |work| Point { workers: *workers, work: *work, variant }))
    };
    Variant::ALL.into_iter().flat_map(of).collect()
}

/// That of so many workers and so much work.
///
/// # Panics
/// If there is none.
pub(super) fn at(outcomes: &[Outcome], variant: Variant, workers: u32, work: u64) -> &Outcome {
    let point = Point { workers, work, variant };
    outcomes.iter().find(|outcome| outcome.point == point).expect("the experiment has that point")
}
