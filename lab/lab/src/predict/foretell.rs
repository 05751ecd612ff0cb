//! Simulates rounds of programs, alone and together.

use std::sync::Arc;

use comity_policy::Policy;
use comity_sim::program::{Fork, ForkJoin, Program, Recorded as Unfolding};
use comity_sim::random::stream;
use comity_sim::threads::Host;
use rand::RngExt;

use super::costs::Costs;
use super::programs::Recorded;
use super::twin::Twin;

/// The parameters of the simulation under one policy.
pub struct Run<'a> {
    /// The simulated machine.
    pub twin: &'a Twin,
    /// The costs of operations on the machine.
    pub costs: Costs,
    /// The programs that run together.
    pub programs: &'a [Recorded],
    /// The policy of all programs.
    pub policy: Policy,
    /// Workers of each program.
    pub workers: u32,
    /// Counted rounds per start.
    pub rounds: usize,
    /// The number of simulated runs.
    pub starts: u32,
    /// The seed of the first run. The seed of each further run is larger by 1.
    pub seed: u64,
}

/// The predicted times of rounds in nanoseconds, by program. Every start has the same number of rounds.
#[derive(Debug, PartialEq, Eq)]
pub struct Foretold {
    /// The number of starts.
    pub starts: usize,
    /// Counted rounds alone.
    pub alone: Vec<Vec<u64>>,
    /// Counted rounds together.
    pub together: Vec<Vec<u64>>,
}

/// The number of events between two checks of the simulator's invariants.
const CHECK_EVERY: u64 = 100_000;

/// The maximum length of a run, as a multiple of the time that its work takes on one core. A longer run is assumed
/// not to end.
const MOST_TIMES: u64 = 1_000;

impl Run<'_> {
    /// Simulates all starts. In each start, every program runs alone, then all programs run together.
    ///
    /// # Errors
    /// If a run does not end, or an invariant of the simulator does not hold in it. The error names the run.
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

    /// Returns the times of the counted rounds of programs that run together. Each program continues until all
    /// programs have run their counted rounds.
    fn simulate(&self, programs: &[&Recorded], seed: u64) -> Result<Vec<Vec<u64>>, String> {
        let mut host = Host::new(self.twin.cores, self.costs.host, seed);
        host.use_linux(self.twin.linux);
        let tick = 1_000_000_000 / u64::from(self.twin.linux.hz);
        let mut work = 0;
        let plain = Policy::plain();
        let mut running: Vec<Running> = Vec::new();
        for (nth, Recorded { graph, .. }) in (0..).zip(programs) {
            let mut random = stream(seed, nth);
            // The programs begin at different, random times within one tick, because real orders arrive one after the
            // other.
            let came = random.random_range(0..tick);
            let own = random.random();
            let program = Unfolding::with_joins(Arc::clone(graph), self.costs.join, own);
            work += program.work();
            let number = host.submit(came, Box::new(program), self.policy, self.workers, own);
            let check = graph.about.check_ns.filter(|check| *check > 0).map(|check| {
                work += check;
                let check = ForkJoin::new(check, 1, 1, 1, Fork::AtOnce);
                // The check of a round runs on one thread, because in a real co-run the thread that submits the round
                // checks it.
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
            "{} did not complete their rounds within {MOST_TIMES} times the time of their work on one core",
            names.join(" + ")
        ))
    }
}

/// A program of a simulated run.
struct Running {
    came: u64,
    number: u32,
    /// The program that checks the results, and runs between two rounds.
    check: Option<u32>,
}

impl Running {
    /// Returns the times of the first `number` rounds.
    fn rounds(&self, host: &Host, number: usize) -> Vec<u64> {
        let ended = host.executions(self.number);
        let next = host.executions(self.check.unwrap_or(self.number));
        let began = std::iter::once(&self.came).chain(next);
        ended.iter().zip(began).take(number).map(|(ended, began)| ended - began).collect()
    }
}
