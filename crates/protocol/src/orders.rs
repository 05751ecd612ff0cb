//! The requests that other processes make to a program, and the settings that result from them.
//!
//! ```text
//!   a setter                     the program's slot in the table                its coordinator, at each look
//!   Words::ask ─ one write ▶  weight │ value, tenure │                  ┌─ weight: requested, else own
//!           ── the bell ──▶   cores  │ value, tenure │ ── Requests ───▶ ├─ cores:  requested, else own limit
//!                             pause  │ until, tenure │   (in_force)     └─ pause:  until then, or no pause
//! ```
//!
//! 1. *Nothing is half-written.* Each property is one word, so a setter that is killed has either written its whole
//!    request or nothing.
//! 2. *A request is for one program.* A word holds the low bits of the slot's tenure, which counts the programs that
//!    have had the slot. A program follows only words of its own tenure, and a program that takes the slot increments
//!    the tenure before it publishes anything. So a request to a program that has left the slot has no effect on the
//!    next program there. (After 2²⁴ programs, the tenure would match again.) Such a request does not replace a
//!    request to the next program either: see [`Words`].
//! 3. *A pause ends automatically.* Its word holds the time at which it ends, at most [`MOST_PAUSE`] from now. A word
//!    with a later time, which no setter of Comity writes, is ignored.

mod words;

use core::time::Duration;

pub use words::Words;

/// The maximum length of a pause.
pub const MOST_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// The maximum weight that can be requested for a program.
pub const MOST_WEIGHT: u32 = 10_000;

/// The tolerance in ns for the end of the longest pause, which is rounded up to whole milliseconds.
const SLACK_NS: u64 = 1_000_000_000;

const TENURE_BITS: u32 = 24;
const TENURE: u64 = (1 << TENURE_BITS) - 1;
const MOST_VALUE: u64 = u64::MAX >> TENURE_BITS;

/// The unit of a pause's end in a word. In milliseconds, the word can hold ends up to 34 years after the machine
/// started.
const LEASE_UNIT_NS: u64 = 1_000_000;

/// A request of another process to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Sets the weight. `None`: restores the program's own weight.
    Weight(Option<u32>),
    /// Limits the number of cores. `None`: restores the program's own limit.
    Cores(Option<u32>),
    /// Pauses the program for this long from now, at most [`MOST_PAUSE`], rounded up to whole milliseconds.
    Pause(Duration),
    /// Ends a pause.
    Resume,
}

/// The request for one property of a program, as the word of the table. 0: no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestWord(u64);

impl RequestWord {
    /// Makes a request of `value` to the program of this tenure. A value that is too large for the word is replaced by
    /// the maximum. 0 withdraws an earlier request.
    pub fn new(tenure: u64, value: u64) -> RequestWord {
        RequestWord(value.min(MOST_VALUE) << TENURE_BITS | tenure & TENURE)
    }

    /// Requests that the program of this tenure rests until `until_ns`.
    pub fn pause(tenure: u64, until_ns: u64) -> RequestWord {
        RequestWord::new(tenure, until_ns.div_ceil(LEASE_UNIT_NS))
    }

    /// Encodes the request as a word of the table.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the requested value, if the request is to the program of this tenure.
    fn value(self, tenure: u64) -> Option<u64> {
        let is_meant = self.0 & TENURE == tenure & TENURE;
        Some(self.0 >> TENURE_BITS).filter(|value| is_meant && *value > 0)
    }
}

/// The requests to a program, decoded from the words of its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// The requested weight.
    pub weight: Option<u32>,
    /// The requested maximum number of cores.
    pub cores: Option<u32>,
    /// The requested end of a pause, in ns of the machine's monotonic clock.
    pub paused_until: Option<u64>,
}

impl Requests {
    /// Decodes the words of the program of this tenure: weight, cores, pause.
    pub fn read(words: [u64; 3], tenure: u64) -> Requests {
        let [weight, cores, pause] = words.map(|word| RequestWord(word).value(tenure));
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Requests {
            weight: weight.map(|weight| small(weight).min(MOST_WEIGHT)),
            cores: cores.map(small),
            paused_until: pause.map(|until| until.saturating_mul(LEASE_UNIT_NS)),
        }
    }

    /// Returns the requests, without a pause that is over or is longer than [`MOST_PAUSE`].
    pub fn at(self, now_ns: u64) -> Requests {
        let latest = now_ns.saturating_add(MOST_PAUSE.as_nanos() as u64 + SLACK_NS);
        let lasts = |until: &u64| (now_ns + 1..=latest).contains(until);
        Requests { paused_until: self.paused_until.filter(lasts), ..self }
    }

    /// Returns the settings of a program with these requests and its own settings.
    pub fn in_force(self, own: Own, now_ns: u64) -> InForce {
        let Requests { weight, cores, paused_until } = self.at(now_ns);
        InForce { weight: weight.unwrap_or(own.weight), cores: cores.or(own.cores), paused_until }
    }
}

/// The settings that a program has chosen itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The weight.
    pub weight: u32,
    /// The maximum number of cores. `None`: no limit.
    pub cores: Option<u32>,
}

/// The weight of a program that does not choose one.
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

/// The settings of a program until its coordinator looks again. By default the weight is 100, and there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce {
    /// The weight.
    pub weight: u32,
    /// The maximum number of cores. `None`: no limit.
    pub cores: Option<u32>,
    /// The time at which its pause ends, in ns of the machine's monotonic clock.
    pub paused_until: Option<u64>,
}

impl InForce {
    /// Returns the program's own settings, without any request.
    pub fn of(own: Own) -> InForce {
        InForce { weight: own.weight, cores: own.cores, paused_until: None }
    }

    /// Returns the number of cores that the program may use at a time, out of `usable` cores. It is at least 1.
    pub fn cap(&self, usable: u32) -> u32 {
        self.cores.map_or(usable, |cores| cores.clamp(1, usable.max(1)))
    }

    /// Returns the limit on the number of cores, at least 1. Without a limit, it is `u32::MAX`.
    pub fn most(&self) -> u32 {
        self.cores.map_or(u32::MAX, |cores| cores.max(1))
    }

    /// Returns how many workers of each pool may be awake if the program may use `usable` cores and `at_work` pools
    /// have work. With a limit, the cores are divided among these pools.
    pub fn room_of_each(&self, usable: u32, at_work: usize) -> u32 {
        self.cores.map_or(u32::MAX, |_| (usable / at_work.max(1) as u32).max(1))
    }

    /// Returns how long the pause still lasts. `None`: the program is not paused. Its coordinator looks again after
    /// this time, or when its bell is rung.
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
