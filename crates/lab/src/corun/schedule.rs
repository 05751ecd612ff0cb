//! What runs when.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use comity_console::Failure;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

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

/// What has been measured so far of a plan: by contestant, then by program. A signal may have it told at any time.
pub struct Record(Mutex<Vec<Vec<Samples>>>);

impl Record {
    /// All of it.
    pub fn lock(&self) -> MutexGuard<'_, Vec<Vec<Samples>>> {
        comity_os::lock(&self.0)
    }

    /// Counted rounds that have been run.
    pub fn rounds(&self) -> usize {
        self.lock().iter().flatten().map(|own| own.solo.len() + own.one_core.len() + own.corun.len()).sum()
    }

    fn note(&self, contestant: usize, program: usize, round: &Round, note: impl FnOnce(&mut Samples)) {
        let samples = &mut self.lock()[contestant][program];
        samples.note_wrong(round);
        note(samples);
    }
}

/// That of a plan of which nothing has been run.
pub fn empty_record(plan: &Plan) -> Record {
    let samples = plan.contestants.iter().map(|_| plan.programs.iter().map(|_| Samples::default()).collect());
    Record(Mutex::new(samples.collect()))
}

/// Counted rounds of a plan, alone, on one core and together.
pub fn rounds(plan: &Plan) -> usize {
    let per_program: usize =
        blocks(plan.rounds).iter().map(|rounds| 2 * rounds + rounds.min(&MAX_ONE_CORE_ROUNDS)).sum();
    per_program * plan.programs.len() * plan.contestants.len()
}

/// Measures every program under every contestant.
pub fn measure(plan: &Plan, record: &Record) -> Result<(), Failure> {
    let blocks = blocks(plan.rounds);
    let bar = bar(plan);
    for (nth, rounds) in blocks.iter().copied().enumerate() {
        // Each block begins with another contestant, so that none is always first.
        for turn in 0..plan.contestants.len() {
            let turn = (turn + nth) % plan.contestants.len();
            measure_block(plan, turn, rounds, record, &bar)?;
            if bar.is_hidden() {
                let (done, all) = (record.rounds(), self::rounds(plan));
                let names: Vec<String> = plan.programs.iter().map(|program| program.to_string()).collect();
                let (names, contestant) = (names.join(" + "), &plan.contestants[turn]);
                let line =
                    format!("{done} of {all} rounds: {contestant}, block {} of {}, {names}", nth + 1, blocks.len());
                // Who started this may have gone, and the measurement goes on.
                let _ = writeln!(io::stderr(), "{line}");
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn measure_block(plan: &Plan, nth: usize, rounds: usize, record: &Record, bar: &ProgressBar) -> Result<(), Failure> {
    let contestant = &plan.contestants[nth];
    let launch = |program| Launch {
        program,
        contestant,
        workers: contestant.workers(plan.workers),
        core: None,
        grouping: plan.grouping,
    };
    for (place, program) in plan.programs.iter().enumerate() {
        bar.set_message(format!("{contestant}: {program} alone"));
        solo(launch(program), rounds, plan.timeout, |round| {
            record.note(nth, place, &round, |samples| samples.solo.push(round.clone()));
            bar.inc(1);
        })?;
        bar.set_message(format!("{contestant}: {program} on one core"));
        let one_core = Launch { workers: 1, core: Some(plan.one_core), ..launch(program) };
        solo(one_core, rounds.min(MAX_ONE_CORE_ROUNDS), plan.timeout, |round| {
            record.note(nth, place, &round, |samples| samples.one_core.push(round.clone()));
            bar.inc(1);
        })?;
    }
    bar.set_message(format!("{contestant}: together"));
    let launches: Vec<Launch<'_>> = plan.programs.iter().map(launch).collect();
    together(&launches, rounds, plan.timeout, |program, round, is_counted| {
        record.note(nth, program, &round, |samples| match is_counted {
            true => samples.corun.push(round.clone()),
            false => samples.uncounted_s.push(round.seconds),
        });
        bar.inc(is_counted.into());
    })
}

fn solo(launch: Launch<'_>, rounds: usize, timeout: Duration, mut note: impl FnMut(Round)) -> Result<(), Failure> {
    let mut stage = Stage::open(&[launch], timeout)?;
    stage.go(Some(rounds))?;
    for _ in 0..rounds {
        note(stage.next_round()?.1);
    }
    stage.close()
}

/// All start their first round together, and none stops before all have had theirs: counted rounds overlap fully.
fn together(
    launches: &[Launch<'_>],
    rounds: usize,
    timeout: Duration,
    mut note: impl FnMut(usize, Round, bool),
) -> Result<(), Failure> {
    let mut stage = Stage::open(launches, timeout)?;
    stage.go(None)?;
    let mut counted = vec![0; launches.len()];
    while counted.iter().any(|counted| *counted < rounds) {
        let (program, round) = stage.next_round()?;
        let is_counted = counted[program] < rounds;
        counted[program] += usize::from(is_counted);
        note(program, round, is_counted);
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
fn bar(plan: &Plan) -> ProgressBar {
    let bar = ProgressBar::new(rounds(plan) as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} rounds, {elapsed}{to_go}\n{wide_msg}");
    // Before the first round there is nothing to estimate from.
    let to_go = |state: &ProgressState, text: &mut dyn fmt::Write| {
        let _ = if state.pos() > 0 { write!(text, ", {:#} to go", HumanDuration(state.eta())) } else { Ok(()) };
    };
    bar.with_style(style.expect("the template is well formed").with_key("to_go", to_go))
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
