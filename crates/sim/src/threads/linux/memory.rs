//! The memory of a socket, which serves its cores together so fast and no faster.
//!
//! Of a strand's time alone a part is spent waiting for memory. Where the cores of a socket ask for more than its memory serves, that
//! part takes longer for all by one factor, the least with which they ask for no more: the bound that a roofline has at its slope
//! (Williams, Waterman and Patterson, 2009), for cores that share it.

use super::super::kernel::WHOLE;

/// What a core's thread asks of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Demand {
    /// The part of its time alone that it waits for memory, in thousandths.
    pub(in super::super) part: u64,
    /// How fast its core is otherwise, in thousandths.
    pub(in super::super) speed: u64,
}

/// The memories of all sockets.
pub(super) struct Memory {
    /// How many cores one serves that do nothing but wait for it, in thousandths.
    capacity: u64,
    /// Of each core.
    demands: Vec<Demand>,
    per_socket: usize,
    /// By which factor waiting takes longer on each socket, in thousandths.
    factors: Vec<u64>,
}

impl Memory {
    pub(super) fn new(capacity: u64, processors: usize, per_socket: usize) -> Memory {
        Memory {
            capacity,
            demands: vec![Demand::default(); processors],
            per_socket,
            factors: vec![WHOLE; processors / per_socket],
        }
    }

    pub(super) fn demand(&self, core: usize) -> Demand {
        self.demands[core]
    }

    /// What memory leaves of a core's speed, in thousandths.
    pub(super) fn speed(&self, core: usize) -> u64 {
        speed(self.demands[core].part, self.factors[core / self.per_socket])
    }

    /// From now on the core asks for that. The factor of its socket, if that is another from now on.
    pub(super) fn note(&mut self, core: usize, demand: Demand) -> Option<u64> {
        self.demands[core] = demand;
        let factor = self.factor(core / self.per_socket);
        (factor != self.factors[core / self.per_socket]).then_some(factor)
    }

    pub(super) fn set_factor(&mut self, core: usize, factor: u64) {
        self.factors[core / self.per_socket] = factor;
    }

    /// The least factor with which the socket's cores ask for no more than there is.
    fn factor(&self, socket: usize) -> u64 {
        let demands = &self.demands[socket * self.per_socket..][..self.per_socket];
        let fits = |factor: u64| {
            let asked = demands.iter().map(|demand| demand.part * demand.speed * speed(demand.part, factor));
            asked.sum::<u64>() <= self.capacity * WHOLE * WHOLE
        };
        if fits(WHOLE) {
            return WHOLE;
        }
        // Waiting for memory alone, all would be as much slower as they ask for more; then they fit.
        let all: u64 = demands.iter().map(|demand| demand.part * demand.speed).sum();
        let (mut too_low, mut enough) = (WHOLE, 2 * all / self.capacity + 1);
        while !fits(enough) {
            enough *= 2;
        }
        while too_low + 1 < enough {
            let middle = too_low.midpoint(enough);
            *(if fits(middle) { &mut enough } else { &mut too_low }) = middle;
        }
        enough
    }

    /// Whether what is noted is what there is.
    pub(super) fn check(&self, core: usize, demand: Demand) -> Result<(), String> {
        if self.demands[core] != demand {
            return Err(format!("core {core} asks memory for {demand:?}, and {:?} is noted", self.demands[core]));
        }
        let (factor, noted) = (self.factor(core / self.per_socket), self.factors[core / self.per_socket]);
        if factor != noted {
            return Err(format!("memory makes core {core} wait {factor} thousandths as long, and {noted} is noted"));
        }
        Ok(())
    }
}

/// The speed of what waits for so many thousandths of its time, if these take so many thousandths as long.
fn speed(part: u64, factor: u64) -> u64 {
    WHOLE * WHOLE / (WHOLE - part + part * factor / WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(part: u64) -> Demand {
        Demand { part, speed: WHOLE }
    }

    /// Has this many cores of the first socket ask for that.
    fn with(memory: &mut Memory, cores: usize, part: u64) {
        for core in 0..cores {
            if let Some(factor) = memory.note(core, asking(part)) {
                memory.set_factor(core, factor);
            }
        }
    }

    #[test]
    fn cores_that_only_wait_share_what_there_is() {
        let mut memory = Memory::new(2_000, 16, 8);
        with(&mut memory, 2, 1_000);
        assert_eq!(memory.speed(0), 1_000);
        with(&mut memory, 8, 1_000);
        assert_eq!((memory.speed(0), memory.speed(7)), (250, 250));
        assert_eq!(memory.factor(1), 1_000);
    }

    #[test]
    fn what_waits_less_is_slowed_less() {
        let mut memory = Memory::new(2_000, 8, 8);
        with(&mut memory, 8, 500);
        // 8 cores that wait for half of their time ask for 4: at half their speed for 2.
        assert!((498..=500).contains(&memory.speed(0)), "{}", memory.speed(0));
        assert_eq!(memory.note(7, Demand::default()).map(|factor| factor < 3_000), Some(true));
        assert_eq!(memory.speed(7), 1_000);
    }

    #[test]
    fn what_is_not_as_noted_is_noticed() {
        let mut memory = Memory::new(1_000, 2, 2);
        with(&mut memory, 2, 1_000);
        memory.check(0, asking(1_000)).unwrap();
        assert!(memory.check(0, asking(999)).unwrap_err().contains("asks memory"));
        memory.set_factor(0, 1_500);
        assert!(memory.check(1, asking(1_000)).unwrap_err().contains("1500 is noted"));
    }
}
