//! Simulated rounds, alone and together.

use std::sync::Arc;

use comity_policy::Policy;
use comity_sim::program::{Fork, ForkJoin, Program, Recorded as Unfolding};
use comity_sim::random::stream;
use comity_sim::threads::Host;
use rand::RngExt;

use super::costs::Costs;
use super::programs::Recorded;
use super::twin::Twin;

/// What is simulated under one policy.
pub struct Run<'a> {
    /// The machine.
    pub twin: &'a Twin,
    /// What things cost on it.
    pub costs: Costs,
    /// Those that run together.
    pub programs: &'a [Recorded],
    /// The policy of all programs.
    pub policy: Policy,
    /// Workers of each program.
    pub workers: u32,
    /// Counted rounds of a start.
    pub rounds: usize,
    /// Simulated runs.
    pub starts: u32,
    /// Of the first of them.
    pub seed: u64,
}

/// Nanoseconds of rounds, by program. Of each start there are as many.
#[derive(Debug, PartialEq, Eq)]
pub struct Foretold {
    /// How many starts.
    pub starts: usize,
    /// Counted rounds alone.
    pub alone: Vec<Vec<u64>>,
    /// Counted rounds together.
    pub together: Vec<Vec<u64>>,
}

/// Everything that must hold is looked at after one event in so many.
const CHECK_EVERY: u64 = 100_000;

/// A run that takes so many times as long as its work on one core would not end.
const MOST_TIMES: u64 = 1_000;

impl Run<'_> {
    /// Simulates all starts, each alone and together.
    ///
    /// # Errors
    /// Says which run did not end, or what did not hold in it.
    pub fn foretell(&self) -> Result<Foretold, String> {
        let none = || self.programs.iter().map(|_| Vec::new()).collect();
        let mut foretold = Foretold { starts: self.starts as usize, alone: none(), together: none() };
        for nth in 0..self.starts {
            let seed = self.seed.wrapping_add(nth.into());
            let note = |what: String| format!("{}, seed {seed}: {what}", self.policy);
            for (program, own) in self.programs.iter().enumerate() {
                let rounds = self.simulate(&[own], seed).map_err(note)?;
                foretold.alone[program].extend(rounds.into_iter().flatten());
            }
            let all: Vec<&Recorded> = self.programs.iter().collect();
            let rounds = self.simulate(&all, seed).map_err(note)?;
            rounds.into_iter().enumerate().for_each(|(program, rounds)| foretold.together[program].extend(rounds));
        }
        Ok(foretold)
    }

    /// The counted rounds of programs that run together, and go on until all have had theirs.
    fn simulate(&self, programs: &[&Recorded], seed: u64) -> Result<Vec<Vec<u64>>, String> {
        let mut host = Host::new(self.twin.cores, self.costs.host, seed);
        host.use_linux(self.twin.linux);
        let tick = 1_000_000_000 / u64::from(self.twin.linux.hz);
        let mut work = 0;
        let plain = Policy::plain();
        let mut running: Vec<Running> = Vec::new();
        for (nth, Recorded { graph, .. }) in (0..).zip(programs) {
            let mut random = stream(seed, nth);
            // One order to begin follows the other, at any time between two ticks.
            let came = random.random_range(0..tick);
            let own = random.random();
            let program = Unfolding::with_joins(Arc::clone(graph), self.costs.join, own);
            work += program.work();
            let number = host.submit(came, Box::new(program), self.policy, self.workers, own);
            let check = graph.about.check_ns.filter(|check| *check > 0).map(|check| {
                work += check;
                let check = ForkJoin::new(check, 1, 1, 1, Fork::AtOnce);
                // The thread that has handed in the round.
                host.submit(came, Box::new(check), plain, 1, own)
            });
            match check {
                Some(check) => host.alternate(number, check),
                None => host.repeat(number),
            }
            running.push(Running { came, number, check });
        }
        let step = work.max(tick);
        for nth in 1..=MOST_TIMES * self.rounds as u64 {
            host.run(nth.saturating_mul(step), CHECK_EVERY)?;
            if running.iter().all(|program| host.executions(program.number).len() >= self.rounds) {
                return Ok(running.iter().map(|program| program.rounds(&host, self.rounds)).collect());
            }
        }
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        Err(format!(
            "{} did not end their rounds in {MOST_TIMES} times the time that their work takes on one core",
            names.join(" + ")
        ))
    }
}

/// A program of a simulated run.
struct Running {
    came: u64,
    number: u32,
    /// What checks its results, and runs between two rounds.
    check: Option<u32>,
}

impl Running {
    /// How long the first rounds took.
    fn rounds(&self, host: &Host, number: usize) -> Vec<u64> {
        let ended = host.executions(self.number);
        let next = host.executions(self.check.unwrap_or(self.number));
        let began = std::iter::once(&self.came).chain(next);
        ended.iter().zip(began).take(number).map(|(ended, began)| ended - began).collect()
    }
}
