//! What runs when.

use std::time::Duration;

use comity_console::Failure;
use indicatif::{ProgressBar, ProgressStyle};

use super::Grouping;
use super::program::Program;
use super::stage::{Launch, Stage};
use crate::contestant::Contestant;
use crate::json::Round;

/// Into how many blocks the rounds are divided at most. More would follow a drift of the machine more closely, but
/// each block prepares every program anew.
const MAX_BLOCKS: usize = 3;

/// How many rounds of a block a program runs on one core at most. They take the longest, vary the least, and only
/// scale the bound.
const MAX_ONE_CORE_ROUNDS: usize = 2;

/// Everything that a co-run is asked to do.
pub struct Plan {
    /// The programs that run together.
    pub programs: Vec<Program>,
    /// Each runs all programs.
    pub contestants: Vec<Contestant>,
    /// Workers of each program.
    pub workers: u16,
    /// Counted rounds, alone and together.
    pub rounds: usize,
    /// The programs' task groups, also when they run alone.
    pub grouping: Grouping,
    /// For one round, or for preparing.
    pub timeout: Duration,
    /// Where one-core rounds run.
    pub one_core: usize,
}

/// What one program did under one contestant.
#[derive(Default)]
pub struct Samples {
    /// Rounds alone.
    pub solo: Vec<Round>,
    /// Rounds alone, with one worker on one core.
    pub one_core: Vec<Round>,
    /// Counted rounds together.
    pub corun: Vec<Round>,
    /// Seconds of the rounds that ran on together, uncounted.
    pub uncounted_s: Vec<f64>,
    /// What was wrong with the first wrong result.
    pub wrong: Option<String>,
}

/// The sizes of the blocks that `rounds` are divided into.
pub fn blocks(rounds: usize) -> Vec<usize> {
    let blocks = rounds.clamp(1, MAX_BLOCKS);
    (0..blocks).map(|nth| rounds * (nth + 1) / blocks - rounds * nth / blocks).collect()
}

/// Measures every program under every contestant: by contestant, then by program.
pub fn measure(plan: &Plan) -> Result<Vec<Vec<Samples>>, Failure> {
    let mut samples: Vec<Vec<Samples>> =
        plan.contestants.iter().map(|_| plan.programs.iter().map(|_| Samples::default()).collect()).collect();
    let blocks = blocks(plan.rounds);
    let bar = bar(plan, &blocks);
    for (nth, rounds) in blocks.iter().copied().enumerate() {
        // Each block begins with another contestant, so that none is always first.
        for turn in 0..plan.contestants.len() {
            let turn = (turn + nth) % plan.contestants.len();
            measure_block(plan, &plan.contestants[turn], rounds, &mut samples[turn], &bar)?;
        }
    }
    bar.finish_and_clear();
    Ok(samples)
}

fn measure_block(
    plan: &Plan,
    contestant: &Contestant,
    rounds: usize,
    samples: &mut [Samples],
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let launch = |program| Launch {
        program,
        contestant,
        workers: contestant.workers(plan.workers),
        core: None,
        grouping: plan.grouping,
    };
    for (program, samples) in plan.programs.iter().zip(samples.iter_mut()) {
        bar.set_message(format!("{contestant}: {program} alone"));
        let alone = solo(launch(program), rounds, plan.timeout, bar)?;
        bar.set_message(format!("{contestant}: {program} on one core"));
        let one_core = Launch { workers: 1, core: Some(plan.one_core), ..launch(program) };
        let one_core = solo(one_core, rounds.min(MAX_ONE_CORE_ROUNDS), plan.timeout, bar)?;
        for round in alone.iter().chain(&one_core) {
            samples.note_wrong(round);
        }
        samples.solo.extend(alone);
        samples.one_core.extend(one_core);
    }
    bar.set_message(format!("{contestant}: together"));
    let launches: Vec<Launch<'_>> = plan.programs.iter().map(launch).collect();
    together(&launches, rounds, plan.timeout, samples, bar)
}

fn solo(launch: Launch<'_>, rounds: usize, timeout: Duration, bar: &ProgressBar) -> Result<Vec<Round>, Failure> {
    let mut stage = Stage::open(&[launch], timeout)?;
    stage.go(Some(rounds))?;
    let mut done = Vec::with_capacity(rounds);
    while done.len() < rounds {
        done.push(stage.next_round()?.1);
        bar.inc(1);
    }
    stage.close()?;
    Ok(done)
}

/// All start their first round together, and none stops before all have had theirs: counted rounds overlap fully.
fn together(
    launches: &[Launch<'_>],
    rounds: usize,
    timeout: Duration,
    samples: &mut [Samples],
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let mut stage = Stage::open(launches, timeout)?;
    stage.go(None)?;
    let mut counted = vec![0; launches.len()];
    while counted.iter().any(|counted| *counted < rounds) {
        let (program, round) = stage.next_round()?;
        samples[program].note_wrong(&round);
        if counted[program] < rounds {
            counted[program] += 1;
            samples[program].corun.push(round);
            bar.inc(1);
        } else {
            samples[program].uncounted_s.push(round.seconds);
        }
    }
    stage.close()
}

impl Samples {
    fn note_wrong(&mut self, round: &Round) {
        if !round.verified && self.wrong.is_none() {
            self.wrong = Some(round.detail.clone());
        }
    }
}

/// Counts the counted rounds. It draws only when a round ends and only on a terminal, so it takes no core from anyone.
fn bar(plan: &Plan, blocks: &[usize]) -> ProgressBar {
    let per_program: usize = blocks.iter().map(|rounds| 2 * rounds + rounds.min(&MAX_ONE_CORE_ROUNDS)).sum();
    let bar = ProgressBar::new((per_program * plan.programs.len() * plan.contestants.len()) as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} rounds, {elapsed}, {eta} to go\n{wide_msg}");
    bar.with_style(style.expect("the template is well formed"))
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn every_round_is_in_one_of_three_even_blocks() {
        assert_eq!(blocks(1), [1]);
        assert_eq!(blocks(2), [1, 1]);
        assert_eq!(blocks(12), [4, 4, 4]);
        for rounds in 1..100 {
            let blocks = blocks(rounds);
            assert_eq!(blocks.iter().sum::<usize>(), rounds);
            assert!(blocks.iter().max().unwrap() - blocks.iter().min().unwrap() <= 1);
        }
    }
}
