//! The order in which programs and backends run.

use std::sync::Mutex;
use std::time::Duration;

use comity_console::Failure;
use serde::{Deserialize, Serialize};

use super::Grouping;
use super::program::Program;
use super::stage::{Launch, Stage};
use crate::backend::Backend;
use crate::filing::Filing;
use crate::progress::Progress;
use crate::trial::Round;

/// The largest number of blocks into which the rounds are divided. With more blocks, a drift of the machine would
/// affect the backends more equally, but each block prepares every program again.
const MAX_BLOCKS: usize = 3;

/// The largest number of one-core rounds of a program in a block. Few are enough: they take the longest, vary the
/// least, and only the bound depends on them.
const MAX_ONE_CORE_ROUNDS: usize = 2;

/// The parameters of a co-run.
pub struct Plan {
    /// The programs that run together.
    pub programs: Vec<Program>,
    /// The backends, each of which runs all programs.
    pub backends: Vec<Backend>,
    /// Workers of each program.
    pub workers: u16,
    /// Counted rounds, alone and together.
    pub rounds: usize,
    /// Uncounted rounds that each program runs alone before all run together.
    pub lead_in: usize,
    /// The task groups of the programs. They also apply when a program runs alone.
    pub grouping: Grouping,
    /// The longest time of one round, or of preparing a program.
    pub timeout: Duration,
    /// The core on which one-core rounds run.
    pub one_core: usize,
}

/// The measurements of one program under one backend.
#[derive(Default, Serialize, Deserialize)]
pub struct Samples {
    /// The rounds alone.
    pub solo: Vec<Round>,
    /// The rounds alone, with one worker on one core.
    pub one_core: Vec<Round>,
    /// The counted rounds together.
    pub corun: Vec<Round>,
    /// Seconds of each uncounted round together.
    pub uncounted_s: Vec<f64>,
    /// A description of the first wrong result.
    pub wrong: Option<String>,
}

/// Returns the sizes of the blocks into which `rounds` are divided.
pub fn blocks(rounds: usize) -> Vec<usize> {
    let blocks = rounds.clamp(1, MAX_BLOCKS);
    (0..blocks).map(|nth| rounds * (nth + 1) / blocks - rounds * nth / blocks).collect()
}

/// The measurements of a plan so far, by backend, then by block. The lock is necessary because they are reported when
/// a signal ends the command.
pub struct Measurements(Mutex<Vec<Vec<Block>>>);

/// The rounds of one backend in one block.
struct Block {
    /// The measurements, by program.
    samples: Vec<Samples>,
    /// True if the whole block was read from a file.
    is_filed: bool,
}

impl Measurements {
    /// Makes the measurements of a plan of which no round has been run.
    pub fn empty(plan: &Plan) -> Measurements {
        let block = |_| Block { samples: plan.programs.iter().map(|_| Samples::default()).collect(), is_filed: false };
        let backend = |_| (0..blocks(plan.rounds).len()).map(block).collect();
        Measurements(Mutex::new(plan.backends.iter().map(backend).collect()))
    }

    /// Returns the measurements by backend, then by program.
    pub fn samples(&self) -> Vec<Vec<Samples>> {
        let merged = |blocks: &Vec<Block>| {
            let mut all: Vec<Samples> = Vec::new();
            for block in blocks {
                all.resize_with(block.samples.len(), Samples::default);
                all.iter_mut().zip(&block.samples).for_each(|(all, own)| all.extend(own));
            }
            all
        };
        comity_os::lock(&self.0).iter().map(merged).collect()
    }

    /// Returns the number of counted rounds that have been run.
    pub fn rounds(&self) -> usize {
        self.samples().iter().flatten().map(|own| own.solo.len() + own.one_core.len() + own.corun.len()).sum()
    }

    /// Adds the measurements of a block that an earlier command wrote to a file.
    pub fn take(&self, place: Place, samples: Vec<Samples>) -> Result<(), &'static str> {
        let block = &mut comity_os::lock(&self.0)[place.backend][place.block];
        if samples.len() != block.samples.len() {
            return Err("a line has a different number of programs");
        }
        *block = Block { samples, is_filed: true };
        Ok(())
    }

    fn is_filed(&self, place: Place) -> bool {
        comity_os::lock(&self.0)[place.backend][place.block].is_filed
    }

    fn note(&self, place: Place, program: usize, round: &Round, note: impl FnOnce(&mut Samples)) {
        let samples = &mut comity_os::lock(&self.0)[place.backend][place.block].samples[program];
        samples.note_wrong(round);
        note(samples);
    }

    fn file(&self, filing: &Filing, place: Place, first: usize, plan: &Plan) -> Result<(), Failure> {
        let samples = &comity_os::lock(&self.0)[place.backend][place.block].samples;
        filing.note(first + place.number(plan), samples)
    }
}

/// The place of a block: a backend and a part of the rounds.
#[derive(Clone, Copy)]
pub struct Place {
    /// The index of the backend.
    pub backend: usize,
    /// The index of the block among the backend's blocks.
    pub block: usize,
}

impl Place {
    /// Returns all blocks of a plan, in the order of their numbers.
    pub fn all(plan: &Plan) -> impl Iterator<Item = Place> {
        let backends = plan.backends.len();
        let place = move |number| Place { block: number / backends, backend: number % backends };
        (0..backends * blocks(plan.rounds).len()).map(place)
    }

    fn number(self, plan: &Plan) -> usize {
        self.block * plan.backends.len() + self.backend
    }
}

/// Returns the number of counted rounds of a plan: alone, on one core and together.
pub fn rounds(plan: &Plan) -> usize {
    let per_program: usize =
        blocks(plan.rounds).iter().map(|rounds| 2 * rounds + rounds.min(&MAX_ONE_CORE_ROUNDS)).sum();
    per_program * plan.programs.len() * plan.backends.len()
}

/// Measures every program under every backend. Skips the blocks that were read from the file. Writes each measured
/// block to the file, with its number plus `filed.1`.
pub fn measure(plan: &Plan, measurements: &Measurements, filed: Option<(&Filing, usize)>) -> Result<(), Failure> {
    let blocks = blocks(plan.rounds);
    let progress = Progress::new(rounds(plan), measurements.rounds(), "rounds");
    for (nth, rounds) in blocks.iter().copied().enumerate() {
        // The first backend changes from block to block, so that no backend is always first.
        for turn in 0..plan.backends.len() {
            let place = Place { backend: (turn + nth) % plan.backends.len(), block: nth };
            if measurements.is_filed(place) {
                continue;
            }
            measure_block(plan, place, rounds, measurements, &progress)?;
            if let Some((filing, first)) = filed {
                measurements.file(filing, place, first, plan)?;
            }
            let names: Vec<String> = plan.programs.iter().map(|program| program.to_string()).collect();
            let backend = &plan.backends[place.backend];
            let block = format!("block {} of {}", nth + 1, blocks.len());
            progress.end_of_block(format!("{backend}, {block}, {}", names.join(" + ")));
        }
    }
    progress.end();
    Ok(())
}

fn measure_block(
    plan: &Plan,
    place: Place,
    rounds: usize,
    measurements: &Measurements,
    progress: &Progress,
) -> Result<(), Failure> {
    let backend = &plan.backends[place.backend];
    let launch = |program| Launch {
        program,
        backend,
        workers: backend.workers(plan.workers),
        core: None,
        grouping: plan.grouping,
    };
    for (nth, program) in plan.programs.iter().enumerate() {
        progress.doing(|| format!("{backend}: {program} alone"));
        solo(launch(program), rounds, plan.timeout, |round| {
            measurements.note(place, nth, &round, |samples| samples.solo.push(round.clone()));
            progress.inc();
        })?;
        progress.doing(|| format!("{backend}: {program} on one core"));
        let one_core = Launch { workers: 1, core: Some(plan.one_core), ..launch(program) };
        solo(one_core, rounds.min(MAX_ONE_CORE_ROUNDS), plan.timeout, |round| {
            measurements.note(place, nth, &round, |samples| samples.one_core.push(round.clone()));
            progress.inc();
        })?;
    }
    progress.doing(|| format!("{backend}: lead-in, each program alone"));
    let launches: Vec<Launch<'_>> = plan.programs.iter().map(launch).collect();
    let mut stage = Stage::open(&launches, plan.timeout)?;
    for nth in 0..launches.len() {
        stage.rounds_of(nth, plan.lead_in, |round| measurements.note(place, nth, &round, |_uncounted| {}))?;
    }
    progress.doing(|| format!("{backend}: together"));
    together(stage, launches.len(), rounds, |program, round, is_counted| {
        measurements.note(place, program, &round, |samples| match is_counted {
            true => samples.corun.push(round.clone()),
            false => samples.uncounted_s.push(round.seconds),
        });
        if is_counted {
            progress.inc();
        }
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

/// Runs the rounds together. All programs start their first round together, and all continue until each has run its
/// counted rounds. Therefore all programs run during each counted round.
fn together(
    mut stage: Stage,
    programs: usize,
    rounds: usize,
    mut note: impl FnMut(usize, Round, bool),
) -> Result<(), Failure> {
    stage.go(None)?;
    let mut counted = vec![0; programs];
    while counted.iter().any(|counted| *counted < rounds) {
        let (program, round) = stage.next_round()?;
        let is_counted = counted[program] < rounds;
        counted[program] += usize::from(is_counted);
        note(program, round, is_counted);
    }
    stage.close()
}

impl Samples {
    /// Appends the measurements of the next block.
    fn extend(&mut self, next: &Samples) {
        self.solo.extend_from_slice(&next.solo);
        self.one_core.extend_from_slice(&next.one_core);
        self.corun.extend_from_slice(&next.corun);
        self.uncounted_s.extend_from_slice(&next.uncounted_s);
        self.wrong = self.wrong.take().or_else(|| next.wrong.clone());
    }

    fn note_wrong(&mut self, round: &Round) {
        if !round.verified && self.wrong.is_none() {
            self.wrong = Some(round.detail.clone());
        }
    }
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
