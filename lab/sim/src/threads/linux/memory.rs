//! The memory of a socket, whose bandwidth the socket's cores share.
//!
//! When a program runs alone, its strands wait for memory for a part of their time. If the cores of a socket demand
//! more than the socket's memory serves, the waits of all these cores take longer by the same factor. This is the
//! smallest factor with which the memory can serve the demand. The model is the sloped part of a roofline (Williams,
//! Waterman and Patterson, 2009) that several cores share.
//!
//! A core uses its own socket's memory. With [`Linux::first_touch`](super::Linux::first_touch), it uses the memory of
//! the socket on which its program began.

use super::super::kernel::WHOLE;

/// The memory demand of a core's thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Demand {
    /// The part of its time in which the thread waits for memory when its program runs alone, in thousandths.
    pub(in super::super) part: u64,
    /// The speed of the core if memory had no limits, in thousandths.
    pub(in super::super) speed: u64,
    /// The socket whose memory the thread uses.
    pub(in super::super) of: usize,
}

/// The memories of all sockets.
pub(super) struct Memory {
    /// The number of cores, in thousandths, that a socket's memory can serve if these cores only wait for memory.
    capacity: u64,
    /// The demand of each core's thread.
    demands: Vec<Demand>,
    per_socket: usize,
    /// True if cores use memories of other sockets, too.
    crosses: bool,
    /// The factor by which waits for the memory of each socket take longer, in thousandths.
    factors: Vec<u64>,
}

/// The sockets whose factor changes, with the new factor.
pub(in super::super) type Changed = [Option<(usize, u64)>; 2];

impl Memory {
    pub(super) fn new(capacity: u64, processors: usize, per_socket: usize, crosses: bool) -> Memory {
        Memory {
            capacity,
            demands: vec![Demand::default(); processors],
            per_socket,
            crosses,
            factors: vec![WHOLE; processors / per_socket],
        }
    }

    pub(super) fn demand(&self, core: usize) -> Demand {
        self.demands[core]
    }

    /// Returns the speed of a core with the limits of memory, in thousandths of its speed without these limits.
    pub(super) fn speed(&self, core: usize) -> u64 {
        let Demand { part, of, .. } = self.demands[core];
        speed(part, self.factors[of])
    }

    /// Notes the core's demand. Returns the factors that change.
    pub(super) fn note(&mut self, core: usize, demand: Demand) -> Changed {
        let before = std::mem::replace(&mut self.demands[core], demand);
        let changed = |socket: usize| {
            let factor = self.factor(socket);
            (factor != self.factors[socket]).then_some((socket, factor))
        };
        let is_asked = |demand: &Demand| demand.part > 0;
        let first = is_asked(&before).then(|| changed(before.of)).flatten();
        let second = Some(demand).filter(is_asked).filter(|demand| !is_asked(&before) || demand.of != before.of);
        [first, second.and_then(|demand| changed(demand.of))]
    }

    pub(super) fn set_factor(&mut self, socket: usize, factor: u64) {
        self.factors[socket] = factor;
    }

    /// Returns the smallest factor with which the demand for a socket's memory does not exceed the memory's capacity.
    fn factor(&self, socket: usize) -> u64 {
        let near =
            if self.crosses { 0..self.demands.len() } else { socket * self.per_socket..(socket + 1) * self.per_socket };
        let demands = self.demands[near].iter().filter(|demand| demand.part > 0 && demand.of == socket);
        let fits = |factor: u64| {
            let asked = demands.clone().map(|demand| demand.part * demand.speed * speed(demand.part, factor));
            asked.sum::<u64>() <= self.capacity * WHOLE * WHOLE
        };
        if fits(WHOLE) {
            return WHOLE;
        }
        // For threads that only wait, the factor is demand / capacity. The search begins with twice this factor.
        let all: u64 = demands.clone().map(|demand| demand.part * demand.speed).sum();
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

    /// Checks that the noted demand and factor are correct.
    pub(super) fn check(&self, core: usize, demand: Demand) -> Result<(), String> {
        if self.demands[core] != demand {
            return Err(format!(
                "core {core} needs memory bandwidth {demand:?}, but {:?} is noted",
                self.demands[core]
            ));
        }
        let (factor, noted) = (self.factor(demand.of), self.factors[demand.of]);
        if factor != noted {
            return Err(format!(
                "memory makes core {core} take {factor} thousandths of the time, but {noted} is noted"
            ));
        }
        Ok(())
    }
}

/// Returns the speed of a thread that waits for `part` thousandths of its time, if its waits take `factor` thousandths
/// of their time alone.
fn speed(part: u64, factor: u64) -> u64 {
    WHOLE * WHOLE / (WHOLE - part + part * factor / WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(part: u64, of: usize) -> Demand {
        Demand { part, speed: WHOLE, of }
    }

    fn note(memory: &mut Memory, core: usize, demand: Demand) {
        for (socket, factor) in memory.note(core, demand).into_iter().flatten() {
            memory.set_factor(socket, factor);
        }
    }

    /// Makes the first `cores` cores use the first socket's memory for `part` thousandths of their time.
    fn with(memory: &mut Memory, cores: usize, part: u64) {
        (0..cores).for_each(|core| note(memory, core, asking(part, 0)));
    }

    #[test]
    fn cores_that_only_wait_share_what_there_is() {
        let mut memory = Memory::new(2_000, 16, 8, false);
        with(&mut memory, 2, 1_000);
        assert_eq!(memory.speed(0), 1_000);
        with(&mut memory, 8, 1_000);
        assert_eq!((memory.speed(0), memory.speed(7)), (250, 250));
        assert_eq!(memory.factor(1), 1_000);
    }

    #[test]
    fn what_waits_less_is_slowed_less() {
        let mut memory = Memory::new(2_000, 8, 8, false);
        with(&mut memory, 8, 500);
        // Eight cores that wait half of their time demand as much memory as four cores that only wait. At half their
        // speed, they demand as much as two such cores.
        assert!((498..=500).contains(&memory.speed(0)), "{}", memory.speed(0));
        assert!(matches!(memory.note(7, Demand::default()), [Some((0, ..3_000)), None]));
        assert_eq!(memory.speed(7), 1_000);
    }

    #[test]
    fn cores_of_two_sockets_share_the_memory_that_both_ask() {
        let mut memory = Memory::new(2_000, 16, 8, true);
        with(&mut memory, 16, 1_000);
        assert_eq!((memory.speed(0), memory.speed(15), memory.factor(1)), (125, 125, 1_000));
        // A core that changes to the second memory does not share it, and leaves more of the first to the other cores.
        note(&mut memory, 15, asking(1_000, 1));
        assert_eq!((memory.speed(15), memory.speed(0)), (1_000, 133));
        memory.check(15, asking(1_000, 1)).unwrap();
    }

    #[test]
    fn what_is_not_as_noted_is_noticed() {
        let mut memory = Memory::new(1_000, 2, 2, false);
        with(&mut memory, 2, 1_000);
        memory.check(0, asking(1_000, 0)).unwrap();
        assert!(memory.check(0, asking(999, 0)).unwrap_err().contains("needs memory bandwidth"));
        memory.set_factor(0, 1_500);
        assert!(memory.check(1, asking(1_000, 0)).unwrap_err().contains("1500 is noted"));
    }
}
