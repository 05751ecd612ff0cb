//! Random choice of victims.

use crate::WorkerId;

/// Picks victims uniformly at random among a worker's peers (BWS Algorithm 1, line 6; Algorithm 2, line 10).
///
/// A worker never picks itself, because it cannot steal from itself. Exception: in a pool of one worker, it picks
/// itself. The generator is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). The same seed gives the same sequence.
#[derive(Clone, Debug)]
pub struct Victims {
    me: u32,
    workers: u32,
    state: u64,
}

impl Victims {
    /// Picks among the peers of `me` in a pool of `workers`.
    ///
    /// # Panics
    /// Panics if `me` is not below `workers`.
    pub fn new(me: WorkerId, workers: u32, seed: u64) -> Victims {
        assert!(me.0 < workers, "worker {} is not in a pool of {workers} workers", me.0);
        Victims { me: me.0, workers, state: seed ^ (u64::from(me.0) << 32) }
    }

    /// The number of peers.
    pub fn peers(&self) -> u32 {
        self.workers - 1
    }

    /// Returns the next victim.
    pub fn pick(&mut self) -> WorkerId {
        let peers = u64::from(self.peers());
        if peers == 0 {
            return WorkerId(self.me);
        }
        // A multiplication and a shift replace the slower remainder. The bias is below peers / 2^32.
        let nth = (((self.next() >> 32) * peers) >> 32) as u32;
        WorkerId(if nth >= self.me { nth + 1 } else { nth })
    }

    /// The peer after `peer`, in a circle of all peers. In a pool of one worker, the worker itself.
    pub fn after(&self, peer: WorkerId) -> WorkerId {
        let next = |worker: u32| if worker + 1 == self.workers { 0 } else { worker + 1 };
        let after = next(peer.0);
        WorkerId(if after == self.me { next(after) } else { after })
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_is_picked_about_equally_often_and_never_the_thief_itself() {
        let mut victims = Victims::new(WorkerId(2), 5, 1);
        let mut picked = [0u32; 5];
        for _ in 0..40_000 {
            picked[victims.pick().index()] += 1;
        }
        assert_eq!(picked[2], 0);
        for peer in [0, 1, 3, 4] {
            assert!((9_500..10_500).contains(&picked[peer]), "{picked:?}");
        }
    }

    #[test]
    fn a_worker_alone_is_its_own_victim() {
        let mut victims = Victims::new(WorkerId(0), 1, 1);
        assert_eq!(victims.pick(), WorkerId(0));
        assert_eq!(victims.after(WorkerId(0)), WorkerId(0));
    }

    #[test]
    fn a_circle_goes_through_all_peers_once() {
        for me in 0..4 {
            let victims = Victims::new(WorkerId(me), 4, 1);
            let first = WorkerId((me + 1) % 4);
            let circle: [WorkerId; 3] = [first, victims.after(first), victims.after(victims.after(first))];
            assert_eq!(circle, [1, 2, 3].map(|further| WorkerId((me + further) % 4)));
            assert_eq!(victims.after(circle[2]), first);
        }
    }

    #[test]
    fn workers_of_one_pool_pick_different_sequences() {
        let sequence = |me| {
            let mut victims = Victims::new(WorkerId(me), 64, 9);
            core::array::from_fn::<_, 8, _>(|_| victims.pick())
        };
        assert_ne!(sequence(3), sequence(4));
    }
}
