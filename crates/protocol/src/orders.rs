//! What a program is asked from outside, and what then holds of it.
//!
//! ```text
//!   a setter                     the program's slot in the table                its coordinator, at each look
//!   Words::ask ─ one write ▶  weight │ value, tenure │                  ┌─ weight: that, or else its own
//!           ── the bell ──▶   cores  │ value, tenure │ ── Requests ───▶ ├─ cores:  that, or else its own most
//!                             pause  │ until, tenure │   (in_force)     └─ pause:  until then, or not at all
//! ```
//!
//! 1. *Nothing is half-written.* Each property is one word, so a setter that is killed has asked for it or has not.
//! 2. *A request is for one program.* A word holds the low bits of the slot's tenure, which counts the programs that
//!    have had the slot. A program obeys words of its own tenure only, and one that takes the slot counts it up before
//!    it says anything of itself. So the setter that saw a program, and writes after another took its place, asks for
//!    nothing. (It would take 2²⁴ programs in between to be wrong.) Nor does it replace what others asked of the later
//!    program: see [`Words`].
//! 3. *A pause ends by itself.* It is the moment until which it lasts, no later than [`MOST_PAUSE`] from now: a word
//!    that says more, which no setter of ours writes, counts as none.

mod words;

use core::time::Duration;

pub use words::Words;

/// The longest pause.
pub const MOST_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// The most that a program can be asked to count.
pub const MOST_WEIGHT: u32 = 10_000;

/// The clocks of two processes are one, but a lease is rounded up.
const SLACK_NS: u64 = 1_000_000_000;

const TENURE_BITS: u32 = 24;
const TENURE: u64 = (1 << TENURE_BITS) - 1;
const MOST_VALUE: u64 = u64::MAX >> TENURE_BITS;

/// A lease is kept in whole milliseconds: so it has room for 34 years of a machine's life.
const LEASE_UNIT_NS: u64 = 1_000_000;

/// One thing that a program is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To count so much; `None`: as it says itself.
    Weight(Option<u32>),
    /// To use so many cores at most; `None`: as many as it says itself.
    Cores(Option<u32>),
    /// To rest for so long from now on, but for no longer than [`MOST_PAUSE`]; rounded up to whole milliseconds.
    Pause(Duration),
    /// To rest no longer.
    Resume,
}

/// What one property of a program is asked to be, as the word that the table holds. 0: nothing is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestWord(u64);

impl RequestWord {
    /// Asks the program of this tenure for `value`, of which as much counts as there is room for; 0 takes an earlier
    /// request back.
    pub fn new(tenure: u64, value: u64) -> RequestWord {
        RequestWord(value.min(MOST_VALUE) << TENURE_BITS | tenure & TENURE)
    }

    /// Asks it to rest until `until_ns`.
    pub fn pause(tenure: u64, until_ns: u64) -> RequestWord {
        RequestWord::new(tenure, until_ns.div_ceil(LEASE_UNIT_NS))
    }

    /// The word.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// What the program of this tenure is asked for.
    fn value(self, tenure: u64) -> Option<u64> {
        let is_meant = self.0 & TENURE == tenure & TENURE;
        Some(self.0 >> TENURE_BITS).filter(|value| is_meant && *value > 0)
    }
}

/// What a program is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// How much it is to count.
    pub weight: Option<u32>,
    /// The most cores that it is to use.
    pub cores: Option<u32>,
    /// The moment until which it is to rest, in nanoseconds of the machine's monotonic clock.
    pub paused_until: Option<u64>,
}

impl Requests {
    /// What its words say to the program of this tenure: weight, cores, pause.
    pub fn read(words: [u64; 3], tenure: u64) -> Requests {
        let [weight, cores, pause] = words.map(|word| RequestWord(word).value(tenure));
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Requests {
            weight: weight.map(|weight| small(weight).min(MOST_WEIGHT)),
            cores: cores.map(small),
            paused_until: pause.map(|until| until.saturating_mul(LEASE_UNIT_NS)),
        }
    }

    /// The same without what is over, or never was.
    pub fn at(self, now_ns: u64) -> Requests {
        let latest = now_ns.saturating_add(MOST_PAUSE.as_nanos() as u64 + SLACK_NS);
        let lasts = |until: &u64| (now_ns + 1..=latest).contains(until);
        Requests { paused_until: self.paused_until.filter(lasts), ..self }
    }

    /// What holds of a program that counts `own.weight` of its own accord and uses at most `own.cores`.
    pub fn in_force(self, own: Own, now_ns: u64) -> InForce {
        let Requests { weight, cores, paused_until } = self.at(now_ns);
        InForce { weight: weight.unwrap_or(own.weight), cores: cores.or(own.cores), paused_until }
    }
}

/// What a program says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// How much it counts.
    pub weight: u32,
    /// The most cores that it uses; `None`: as many as it can.
    pub cores: Option<u32>,
}

/// How much a program counts that says nothing.
const USUAL_WEIGHT: u32 = 100;

impl Default for Own {
    fn default() -> Own {
        Own { weight: USUAL_WEIGHT, cores: None }
    }
}

impl Default for InForce {
    fn default() -> InForce {
        InForce::of(Own::default())
    }
}

/// What holds of a program until its coordinator looks again. Unless it says otherwise it counts as usual, and uses
/// what it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce {
    /// How much it counts.
    pub weight: u32,
    /// The most cores that it uses; `None`: as many as it can.
    pub cores: Option<u32>,
    /// It rests until then.
    pub paused_until: Option<u64>,
}

impl InForce {
    /// Where nothing is asked.
    pub fn of(own: Own) -> InForce {
        InForce { weight: own.weight, cores: own.cores, paused_until: None }
    }

    /// Of `usable` cores those that it may use at a time: one at least.
    pub fn cap(&self, usable: u32) -> u32 {
        self.cores.map_or(usable, |cores| cores.clamp(1, usable.max(1)))
    }

    /// The most that it may use, whatever is usable.
    pub fn most(&self) -> u32 {
        self.cores.map_or(u32::MAX, |cores| cores.max(1))
    }

    /// So many workers of each of its pools may be awake, where it may use `usable` cores and so many pools have work:
    /// the cores are divided among these.
    pub fn room_of_each(&self, usable: u32, at_work: usize) -> u32 {
        self.cores.map_or(u32::MAX, |_| (usable / at_work.max(1) as u32).max(1))
    }

    /// For how long it is to rest; that is when to look again, if no bell rings before.
    pub fn rests_for(&self, now_ns: u64) -> Option<Duration> {
        let left = self.paused_until?.checked_sub(now_ns).filter(|left| *left > 0)?;
        Some(Duration::from_nanos(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Own = Own { weight: 100, cores: None };
    const DAY: u64 = MOST_PAUSE.as_nanos() as u64;

    fn words(tenure: u64, weight: u64, cores: u64) -> [u64; 3] {
        [RequestWord::new(tenure, weight).to_bits(), RequestWord::new(tenure, cores).to_bits(), 0]
    }

    #[test]
    fn a_word_is_for_one_program_and_nothing_is_asked_by_none() {
        for tenure in [0, 1, 7, TENURE, TENURE + 1, u64::MAX] {
            let asked = Requests::read(words(tenure, 300, 2), tenure);
            assert_eq!(asked, Requests { weight: Some(300), cores: Some(2), paused_until: None });
            assert_eq!(Requests::read(words(tenure, 300, 2), tenure.wrapping_add(1)), Requests::default());
            assert_eq!(Requests::read(words(tenure, 0, 0), tenure), Requests::default(), "taken back");
            assert_eq!(Requests::read([0; 3], tenure), Requests::default());
        }
    }

    #[test]
    fn what_is_asked_goes_before_what_the_program_says_of_itself() {
        let own = Own { weight: 250, cores: Some(3) };
        let asked = Requests { weight: Some(300), cores: Some(2), paused_until: None };
        assert_eq!(asked.in_force(own, 5), InForce { weight: 300, cores: Some(2), paused_until: None });
        assert_eq!(Requests::default().in_force(own, 5), InForce::of(own));
        let most = Requests::read(words(1, u64::MAX, u64::MAX), 1).in_force(OWN, 5);
        assert_eq!((most.weight, most.cap(8)), (MOST_WEIGHT, 8), "nonsense asks for no more than there is");
        for (cores, usable, cap) in [(Some(2), 8, 2), (Some(9), 8, 8), (None, 8, 8), (Some(3), 0, 1), (None, 0, 0)] {
            assert_eq!(InForce { cores, ..InForce::of(OWN) }.cap(usable), cap);
        }
    }

    #[test]
    fn a_pause_runs_out_and_none_is_longer_than_a_day() {
        let until = |until: u64| Requests::read([0, 0, RequestWord::pause(1, until).to_bits()], 1);
        let now = 3 * DAY;
        let rests = |asked: Requests, now| asked.in_force(OWN, now).rests_for(now);
        let minute = 60_000_000_000;
        assert_eq!(rests(until(now + minute), now), Some(Duration::from_secs(60)));
        assert_eq!(rests(until(now + 1), now), Some(Duration::from_millis(1)), "rounded up");
        for over in [now, now - minute, 1] {
            assert_eq!(rests(until(over), now), None);
        }
        assert_eq!(rests(until(now + DAY), now), Some(MOST_PAUSE));
        for never in [now + 2 * DAY, u64::MAX] {
            assert_eq!(rests(until(never), now), None, "no setter writes that");
        }
    }
}
