//! The machine of WS-LAST (§4) and its runs: scatter-gather under two rules for the worker that gets an unblocked
//! task.
//!
//! The costs on the paper's machine, which the paper does not give, are chosen here once for all experiments.
//! `docs/papers/ws-last.md` gives the reasons, and describes how the outcomes depend on the costs.

use comity_policy::Policy;
use comity_sim::network::Network;
use comity_sim::threads::{Costs, Host};
use serde::{Deserialize, Serialize};

use crate::vary::Vary;
use crate::{Runner, costs};

/// The number of CPUs of the paper's machine.
pub const CPUS: u32 = 8;

/// The work T of a round, in nanoseconds: §4 fixes it to a second in all experiments except the third.
pub const T: u64 = 1_000_000_000;

/// The algorithm: WS-CUR or WS-LAST.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Variant {
    /// WS-CUR: an unblocked task goes to the worker of the task that unblocked it.
    Cur,
    /// WS-LAST: an unblocked task goes to the worker that it last ran on.
    Last,
}

impl Variant {
    /// Both algorithms, in the paper's order.
    pub const ALL: [Variant; 2] = [Variant::Cur, Variant::Last];

    /// Returns the paper's name of the algorithm.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Cur => "WS-CUR",
            Variant::Last => "WS-LAST",
        }
    }

    /// Returns the policy, in the form that `--policy` takes.
    pub fn policy(self) -> &'static str {
        match self {
            Variant::Cur => "ws-last:place=current",
            Variant::Last => "ws-last",
        }
    }
}

/// The way in which tasks block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// The paper's workload: one task sends work to n tasks and waits for all replies.
    #[default]
    ScatterGather,
    /// Tokens circulate in a ring of n tasks. There are half as many tokens as tasks.
    TokenRing,
    /// n clients, each with a server of its own. A client waits for the reply to each request.
    RequestReply,
}

impl Shape {
    fn is_the_papers(&self) -> bool {
        *self == Shape::ScatterGather
    }
}

/// The parameters of one data point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// The number n of workers.
    pub workers: u32,
    /// The work of a message, w = T/d, in nanoseconds.
    pub work: u64,
    /// The algorithm.
    pub variant: Variant,
    /// The workload.
    #[serde(default, skip_serializing_if = "Shape::is_the_papers")]
    pub shape: Shape,
}

impl Point {
    /// Returns a point of the paper's workload.
    pub(super) fn scatter_gather(workers: u32, work: u64, variant: Variant) -> Point {
        Point { workers, work, variant, shape: Shape::ScatterGather }
    }
}

/// The measurement of a point: of several measurements, the one with the median time on all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The number m of rounds.
    pub rounds: u32,
    /// The running time on one CPU, in nanoseconds.
    pub on_one: u64,
    /// The running time on all CPUs, in nanoseconds.
    pub on_all: u64,
    /// The number of attempts to steal on all CPUs.
    pub attempts: u64,
}

/// A data point and its measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// The measurement.
    #[serde(flatten)]
    pub measured: Measured,
}

impl Outcome {
    /// Returns the running time on one CPU / the running time on all CPUs.
    pub fn speedup(&self) -> f64 {
        self.measured.on_one as f64 / self.measured.on_all as f64
    }

    /// Returns the attempts to steal per second, of all CPUs together.
    pub fn steal_rate(&self) -> f64 {
        self.measured.attempts as f64 / self.seconds()
    }

    /// Returns the running time on all CPUs, in seconds.
    pub fn seconds(&self) -> f64 {
        self.measured.on_all as f64 / 1e9
    }

    /// Returns the running time of a round, in nanoseconds.
    pub fn round(&self) -> f64 {
        self.measured.on_all as f64 / f64::from(self.measured.rounds)
    }
}

/// The parameters that all four experiments share.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The policy of each variant. Tests replace it.
    pub policy: fn(Variant) -> &'static str,
    /// The costs of operations on the paper's machine.
    pub costs: Costs,
    /// The cost to send or receive a message, in nanoseconds.
    pub message: u64,
    /// Only one of every `one_in` rounds is done, for a quick look.
    pub one_in: u32,
    /// The number of times that a point is measured. The median is used.
    pub measurements: u64,
    /// True if the experiments run on this machine's threads.
    pub real: bool,
}

impl Setting {
    /// Returns the parameters of §4, "the median of 9 consecutive measurements", with the costs that `claims.toml`
    /// fits.
    pub fn new(seed: u64) -> Setting {
        let costs = costs::ws_last();
        Setting {
            seed,
            policy: Variant::policy,
            costs,
            message: costs::MESSAGE,
            one_in: 1,
            measurements: 9,
            real: false,
        }
    }

    /// Returns the number m of rounds: enough for two seconds of work, but 50 to 500. The paper runs rounds for
    /// longer. Fewer rounds are enough here, because all rounds except the first few are alike, and the runs on one
    /// CPU and on all CPUs have the same rounds.
    fn rounds(&self, point: Point) -> u32 {
        let rounds = 2 * T / (u64::from(point.workers) * point.work);
        (rounds.clamp(50, 500) as u32 / self.one_in).max(5)
    }

    /// Returns one running time in nanoseconds, and the attempts to steal.
    fn time(&self, point: Point, cpus: u32, seed: u64) -> (u64, u64) {
        let policy: Policy = (self.policy)(point.variant).parse().expect("the policy is in the catalog");
        let mut host = Host::new(cpus as usize, self.costs, seed);
        let Point { workers, work, shape, .. } = point;
        let (tasks, rounds) = (workers as usize, self.rounds(point));
        let program = match shape {
            Shape::ScatterGather => Network::scatter_gather(tasks, rounds, work, self.message),
            Shape::TokenRing => Network::token_ring(tasks, tasks / 2, rounds, work, self.message),
            Shape::RequestReply => Network::request_reply(tasks, rounds, work, self.message),
        };
        let number = host.submit_network(0, program, policy, cpus, seed);
        host.run(u64::MAX, u64::MAX).expect("the invariants of the simulator hold");
        let fate = host.fate(number);
        (fate.ended.expect("scatter-gather ends"), fate.counts.attempts)
    }

    fn measure(&self, point: Point) -> Measured {
        let first = self.seed.wrapping_mul(self.measurements);
        let mut times: Vec<(u64, u64)> =
            (0..self.measurements).map(|nth| self.time(point, CPUS, first.wrapping_add(nth))).collect();
        times.sort_unstable();
        let (on_all, attempts) = times[times.len() / 2];
        // One measurement is enough: a run on one CPU does not use random numbers.
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
                    "'{text}' is not one of queue, handover, steal, removal, yield, switch or message=NANOSECONDS"
                ));
            }
        };
        let least = u64::from(matches!(key, "steal" | "yield" | "message"));
        let wrong = || format!("'{value}' is not a whole number of nanoseconds from {least} to 1000000");
        *cost = value.parse().ok().filter(|cost| (least..=1_000_000).contains(cost)).ok_or_else(wrong)?;
        Ok(())
    }
}

/// Returns a point for every combination of a number of workers, a work per message and an algorithm.
pub(super) fn grid(workers: &[u32], works: &[u64]) -> Vec<Point> {
    let of = |variant: Variant| {
        workers
            .iter()
            .flat_map(move |workers| works.iter().map(move |work| Point::scatter_gather(*workers, *work, variant)))
    };
    Variant::ALL.into_iter().flat_map(of).collect()
}

/// Returns the outcome of the point with these parameters.
///
/// # Panics
/// If there is no such point.
pub(super) fn at(outcomes: &[Outcome], variant: Variant, workers: u32, work: u64) -> &Outcome {
    let point = Point::scatter_gather(workers, work, variant);
    outcomes.iter().find(|outcome| outcome.point == point).expect("the experiment has that point")
}
