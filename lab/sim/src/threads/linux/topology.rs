//! Sockets, cores and hardware threads, and their distances.

use super::Linux;

/// The numbering of a machine's processors. The processors of a socket have successive numbers, and so have the
/// hardware threads of a core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Topology {
    processors: usize,
    per_core: usize,
    per_socket: usize,
}

impl Topology {
    pub(super) fn new(linux: &Linux, processors: usize) -> Topology {
        let per_socket = processors / linux.sockets as usize;
        Topology { processors, per_core: linux.threads_per_core as usize, per_socket }
    }

    /// Returns the other hardware thread of the processor's core.
    pub(super) fn sibling(&self, processor: usize) -> Option<usize> {
        (self.per_core == 2).then_some(processor ^ 1)
    }

    /// Returns the processors of the processor's core, of its socket and of the machine, in this order. A range that is
    /// not larger than the range before it is left out.
    pub(super) fn domains(&self, processor: usize) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let sizes = [self.per_core, self.per_socket, self.processors];
        let mut before = 1;
        sizes.into_iter().filter_map(move |size| {
            let first = processor / size * size;
            let is_larger = size > std::mem::replace(&mut before, size);
            is_larger.then_some(first..first + size)
        })
    }

    /// Returns the socket of the processor.
    pub(super) fn socket_of(&self, processor: usize) -> usize {
        processor / self.per_socket
    }

    /// Returns the processors of the same socket, which share the last-level cache.
    pub(super) fn socket(&self, processor: usize) -> std::ops::Range<usize> {
        let first = processor / self.per_socket * self.per_socket;
        first..first + self.per_socket
    }
}

#[cfg(test)]
mod tests {
    use super::super::Version;
    use super::*;

    #[test]
    fn domains_grow_from_the_core_to_the_machine() {
        let linux = Linux { sockets: 2, threads_per_core: 2, ..Linux::new(Version::V2_6_32) };
        let topology = Topology::new(&linux, 16);
        assert_eq!(topology.domains(11).collect::<Vec<_>>(), [10..12, 8..16, 0..16]);
        assert_eq!((topology.sibling(11), topology.sibling(4)), (Some(10), Some(5)));
        assert_eq!((topology.socket(3), topology.socket_of(11)), (0..8, 1));
        let plain = Topology::new(&Linux::new(Version::V6_18), 4);
        assert!(plain.domains(2).eq([(0, 4)].map(|(first, end)| first..end)));
        assert_eq!(plain.sibling(2), None);
    }
}
