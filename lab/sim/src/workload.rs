//! Jobs of parallel machines, from a log or a model: the source of practical availability profiles (A-STEAL §3).

pub mod lublin;
pub mod swf;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::availability::Profile;

/// A rigid job, which uses a fixed number of processors for a fixed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rigid {
    /// Seconds from the log's beginning to the job's submission.
    pub submitted: u64,
    /// Seconds that the job waited for its processors.
    pub waited: u64,
    /// Seconds that the job ran.
    pub ran: u64,
    /// The number of processors that the job had.
    pub processors: u32,
}

impl Rigid {
    /// Returns the seconds from the log's beginning to the job's start.
    pub fn started(&self) -> u64 {
        self.submitted.saturating_add(self.waited)
    }
}

/// Sorts the jobs by submission, and computes how long each job waits for its processors if jobs are served in this
/// order. Used for workloads that have submission times but no start times.
///
/// # Panics
/// Panics if a job needs more processors than the machine has.
pub fn first_come_first_served(jobs: &mut [Rigid], machine: u32) {
    jobs.sort_by_key(|job| job.submitted);
    let mut ends: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
    let (mut free, mut now) = (machine, 0);
    for job in jobs {
        assert!(job.processors <= machine, "a job needs {} processors, but the machine has {machine}", job.processors);
        now = now.max(job.submitted);
        while let Some(Reverse((end, processors))) = ends.peek().copied()
            && (end <= now || free < job.processors)
        {
            ends.pop();
            now = now.max(end);
            free += processors;
        }
        free -= job.processors;
        job.waited = now - job.submitted;
        ends.push(Reverse((now + job.ran, job.processors)));
    }
}

/// Returns the availability p_q as the paper defines it: the number of the machine's processors that are not in use
/// when quantum q begins. A quantum lasts `seconds`, and the profile is as long as the log. A value is at least 1,
/// even where the jobs of the log use all processors or more, because with 0 the job under test could not run.
///
/// # Panics
/// Panics if `seconds` is zero.
pub fn availability(jobs: &[Rigid], machine: u32, seconds: u64) -> Profile {
    let mut changes: Vec<(u64, i64)> = Vec::with_capacity(2 * jobs.len());
    for job in jobs.iter().filter(|job| job.ran > 0) {
        changes.push((job.started(), i64::from(job.processors)));
        changes.push((job.started().saturating_add(job.ran), -i64::from(job.processors)));
    }
    changes.sort_unstable();
    let first = changes.first().map_or(0, |(at, _)| *at);
    let last = changes.last().map_or(0, |(at, _)| *at);
    let mut changes: VecDeque<(u64, i64)> = changes.into();
    let mut in_use = 0;
    let quanta = (last - first) / seconds + 1;
    let available = |quantum: u64| {
        while let Some((at, change)) = changes.front()
            && *at <= first + quantum * seconds
        {
            in_use += change;
            changes.pop_front();
        }
        (i64::from(machine) - in_use).clamp(1, machine.into()) as u32
    };
    Profile::new((0..quanta).map(available).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(submitted: u64, ran: u64, processors: u32) -> Rigid {
        Rigid { submitted, waited: 0, ran, processors }
    }

    #[test]
    fn what_is_not_in_use_when_a_quantum_begins_is_available() {
        let profile = availability(&[job(100, 25, 3), job(110, 5, 5), job(119, 30, 1)], 8, 10);
        let seen: Vec<u32> = (0..6).map(|quantum| profile.in_quantum(quantum)).collect();
        // Processors in use: 3, 3 + 5 = 8 (all), 3 + 1 = 4, 1, 1. The sixth quantum repeats the first quantum.
        assert_eq!(seen, [5, 1, 4, 7, 7, 5]);
    }

    #[test]
    fn no_job_overtakes_and_none_waits_without_need() {
        let mut jobs = [job(0, 10, 6), job(1, 10, 4), job(2, 5, 1), job(30, 1, 8)];
        first_come_first_served(&mut jobs, 8);
        assert_eq!(jobs.map(|job| job.waited), [0, 9, 8, 0]);
    }
}
