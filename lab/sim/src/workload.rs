//! What ran on parallel machines, or might have: the source of practical availability profiles (A-STEAL §3).

pub mod lublin;
pub mod swf;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::availability::Profile;

/// A rigid job: so many processors for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rigid {
    /// Seconds from the log's beginning to its submission.
    pub submitted: u64,
    /// Seconds that it waited.
    pub waited: u64,
    /// Seconds that it ran.
    pub ran: u64,
    /// Processors that it had.
    pub processors: u32,
}

impl Rigid {
    /// Seconds from the log's beginning to its start.
    pub fn started(&self) -> u64 {
        self.submitted.saturating_add(self.waited)
    }
}

/// Has each job wait for its processors, first come, first served: for workloads that say when jobs come, and not
/// when they start. In the order of submission.
///
/// # Panics
/// If a job wants more processors than the machine has.
pub fn first_come_first_served(jobs: &mut [Rigid], machine: u32) {
    jobs.sort_by_key(|job| job.submitted);
    let mut ends: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
    let (mut free, mut now) = (machine, 0);
    for job in jobs {
        assert!(job.processors <= machine, "a job of {} processors on a machine of {machine}", job.processors);
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

/// p_q as the paper has it: the machine's processors less those that were in use when the quantum began. There are
/// as many quanta of `seconds` as the log is long. At least one: where a log uses all processors of the machine, or
/// more than it has, the job under test could not run.
///
/// # Panics
/// If `seconds` is zero.
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
        // 3 in use; 3 and 5, which is all; 3 and 1; 1; 1; none.
        assert_eq!(seen, [5, 1, 4, 7, 7, 5]);
    }

    #[test]
    fn no_job_overtakes_and_none_waits_without_need() {
        let mut jobs = [job(0, 10, 6), job(1, 10, 4), job(2, 5, 1), job(30, 1, 8)];
        first_come_first_served(&mut jobs, 8);
        assert_eq!(jobs.map(|job| job.waited), [0, 9, 8, 0]);
    }
}
