//! The history of a command while it was in the table: the cores that it used, held and lent, and the cost of sharing
//! cores.

use std::time::Duration;

use comity_protocol::Look;
use comity_table::Program;

use super::tokens::JobsAccount;

/// The maximum number of stretches. If there are more, neighbours are merged in pairs, so that a long run needs no
/// more memory.
const STRETCHES: usize = 128;

/// The values from one look of the coordinator to a later look. Times are sums over cores or threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stretch {
    /// The length of the stretch.
    pub elapsed: Duration,
    /// The processor time that the command used.
    pub used: Duration,
    /// The time for which the command held cores.
    pub held: Duration,
    /// The time for which the command was entitled to cores.
    pub owned: Duration,
    /// The time for which threads of the command waited for a core, also for a core that another of them used.
    pub waited: Duration,
    /// The estimated time that the command would have saved if it had run alone.
    pub delayed: Duration,
}

impl Stretch {
    fn of(look: &Look, usable: u32, owned: u32, held: Duration) -> Stretch {
        // Alone, the command would have used the time for which its threads were able to run, but at most the time of
        // all usable cores.
        let alone = look.able.min(look.elapsed * usable).as_secs_f64();
        let used = look.used.as_secs_f64();
        let lacking = if used < alone { 1.0 - used / alone } else { 0.0 };
        Stretch {
            elapsed: look.elapsed,
            used: look.used,
            held,
            owned: look.elapsed * owned,
            waited: look.able.saturating_sub(look.used),
            delayed: look.elapsed.mul_f64(lacking),
        }
    }

    fn add(&mut self, other: &Stretch) {
        self.elapsed += other.elapsed;
        self.used += other.used;
        self.held += other.held;
        self.owned += other.owned;
        self.waited += other.waited;
        self.delayed += other.delayed;
    }

    /// Returns the time of the command's own cores that the command did not hold.
    pub fn lent(&self) -> Duration {
        self.owned.saturating_sub(self.held)
    }
}

/// The whole history, and the command's entry in the table at the end.
#[derive(Debug, Default)]
pub struct History {
    stretches: Vec<Stretch>,
    /// The length that a stretch must have before the next look begins a new stretch.
    width: Duration,
    /// The processor time that the command was due.
    pub due: Duration,
    /// The command's entry in the table before it left.
    pub account: Option<Program>,
    /// The record of the jobserver.
    pub jobs: Option<JobsAccount>,
}

impl History {
    /// Adds a look at a command that may use `usable` cores and is entitled to `owned` cores. `held` is the core time
    /// that it has held since the previous look.
    pub fn note(&mut self, look: &Look, usable: u32, owned: u32, held: Duration) {
        let seen = Stretch::of(look, usable, owned, held);
        match self.stretches.last_mut() {
            Some(last) if last.elapsed < self.width => last.add(&seen),
            _ => self.stretches.push(seen),
        }
        if self.stretches.len() > STRETCHES {
            self.stretches = self.stretches.chunks(2).map(sum).collect();
            self.width = self.whole().elapsed / self.stretches.len() as u32;
        }
    }

    /// Returns the stretches, in order.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Returns the sum of all stretches.
    pub fn whole(&self) -> Stretch {
        sum(&self.stretches)
    }
}

fn sum(stretches: &[Stretch]) -> Stretch {
    stretches.iter().fold(Stretch::default(), |mut sum, stretch| {
        sum.add(stretch);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_millis(10);

    fn look(used_ms: u64, able_ms: u64) -> Look {
        let [used, able] = [used_ms, able_ms].map(Duration::from_millis);
        Look { elapsed: LOOK, used, able, ..Look::default() }
    }

    #[test]
    fn what_delays_is_what_it_would_have_used_alone() {
        let delayed = |used_ms, able_ms, usable| Stretch::of(&look(used_ms, able_ms), usable, 0, LOOK).delayed;
        // The cases: one thread with half of its time, and sixteen threads with one core of two.
        assert_eq!(delayed(5, 10, 2), LOOK / 2);
        assert_eq!(delayed(10, 160, 2), LOOK / 2);
        // The cases: all cores were used, a thread waited for something else, and nothing ran.
        assert_eq!([delayed(20, 160, 2), delayed(3, 3, 2), delayed(0, 0, 2)], [Duration::ZERO; 3]);
        // The case: the threads waited for a core all the time.
        assert_eq!(delayed(0, 10, 2), LOOK);
    }

    #[test]
    fn nothing_is_lost_however_many_looks_there_are() {
        let mut history = History::default();
        let looks = 10 * STRETCHES as u32 + 7;
        for _ in 0..looks {
            history.note(&look(5, 10), 2, 1, LOOK / 2);
        }
        assert!((STRETCHES / 4..=STRETCHES).contains(&history.stretches().len()));
        let whole = history.whole();
        assert_eq!((whole.elapsed, whole.used, whole.lent()), (LOOK * looks, LOOK * looks / 2, LOOK * looks / 2));
        let [first, .., before_last, _] = history.stretches() else { panic!("several") };
        assert_eq!(first.elapsed, before_last.elapsed);
    }
}
