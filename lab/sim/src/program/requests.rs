//! A server: each worker answers requests, one after the other, without end.

use std::num::NonZeroU64;

use super::{Program, Strand};

/// A server with one task for each worker. Each task waits for a request in a system call, computes the answer, and
/// begins again. No task forks, so nothing is stolen once each worker has a task. The tasks resemble the threads of
/// SPECjbb, which has a thread for each warehouse.
#[derive(Clone, Debug)]
pub struct Requests {
    workers: u32,
    length: NonZeroU64,
    wait: u64,
}

impl Requests {
    /// Creates a server with this many workers. Before each request a worker waits for `wait` nanoseconds, and it
    /// computes the answer for `length` nanoseconds.
    ///
    /// # Panics
    /// Panics if there are no workers, or if an answer takes no time.
    pub fn new(workers: u32, length: u64, wait: u64) -> Requests {
        assert!(workers > 0, "a program has workers");
        Requests { workers, length: NonZeroU64::new(length).expect("an answer takes time"), wait }
    }

    fn request(&self, id: u32) -> Strand {
        Strand { id, length: self.length }
    }
}

impl Program for Requests {
    fn root(&mut self) -> Strand {
        self.request(0)
    }

    fn others(&mut self) -> Vec<Strand> {
        (1..self.workers).map(|id| self.request(id)).collect()
    }

    fn is_endless(&self) -> bool {
        true
    }

    fn done(&mut self, strand: u32, ready: &mut Vec<Strand>) {
        ready.push(self.request(strand));
    }

    fn sleep(&self, _: u32) -> u64 {
        self.wait
    }

    fn work(&self) -> u64 {
        u64::MAX
    }

    fn critical_path(&self) -> u64 {
        u64::MAX
    }

    fn parallelism(&self) -> f64 {
        f64::from(self.workers)
    }
}
