//! The readings of steal time, the time for which a virtual machine's host ran something else: how often it is read,
//! and over which windows it is summed.
//!
//! A reading costs more than the rest of a look. While the count is zero, steal time is read when the coordinator
//! begins, and then once a second. Once the count exceeds zero, each window lasts half a second. Linux reports steal
//! time in steps of 10 ms for each CPU, and hypervisors give time slices of up to 30 ms. In a shorter window, these
//! steps would dominate the sum.

use comity_policy::StealTime;
pub use comity_values::steal_time::Reading;

/// The minimum length of a window in ns.
pub const WINDOW_NS: u64 = 500_000_000;

/// The time in ns between two readings while no steal time has been reported.
pub const RARELY_NS: u64 = 1_000_000_000;

/// The readings of one coordinator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StealClock {
    began: bool,
    /// True if a reading has reported more than zero steal time.
    is_told: bool,
    /// The reading at which the window began.
    last: Option<Reading>,
    /// The time in ns since that reading, or since the last check for steal time.
    since_ns: u64,
}

impl StealClock {
    /// Returns the window that ends at this look, if one does. The previous look was `lasted_ns` ago. If `lasted_ns`
    /// is 0, the program has just got work, and the time since the previous reading is ignored. `read` is called only
    /// when a window or a second is over.
    pub(crate) fn look(&mut self, lasted_ns: u64, read: impl FnOnce() -> Option<Reading>) -> Option<StealTime> {
        if lasted_ns == 0 {
            self.last = None;
        }
        self.since_ns = self.since_ns.saturating_add(lasted_ns);
        let is_due = match self.last {
            _ if !self.began => true,
            _ if !self.is_told => self.since_ns >= RARELY_NS,
            // A window begins at the first look that follows another look.
            None => lasted_ns > 0,
            Some(_) => self.since_ns >= WINDOW_NS,
        };
        if !is_due {
            return None;
        }
        self.began = true;
        let now = read();
        let before = core::mem::replace(&mut self.last, now);
        let lasted_ns = core::mem::take(&mut self.since_ns);
        self.is_told |= now.is_some_and(|now| now.steal_ns > 0);
        let (now, before) = now.zip(before)?;
        Some(StealTime {
            lasted_ns,
            // The time of a CPU that was taken offline is no longer in the sum.
            run_ns: now.run_ns.saturating_sub(before.run_ns),
            steal_ns: now.steal_ns.saturating_sub(before.steal_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    const MS: u64 = 1_000_000;

    /// A guest of two CPUs that always have something to run.
    struct Guest {
        clock: StealClock,
        reading: Cell<Option<Reading>>,
        readings: Cell<u32>,
    }

    impl Guest {
        fn new(reading: Option<Reading>) -> Guest {
            Guest { clock: StealClock::default(), reading: Cell::new(reading), readings: Cell::default() }
        }

        fn look(&mut self, lasted_ms: u64, stolen_ms: u64) -> Option<StealTime> {
            self.reading.set(self.reading.get().map(|Reading { run_ns, steal_ns }| Reading {
                run_ns: run_ns + (2 * lasted_ms - stolen_ms) * MS,
                steal_ns: steal_ns + stolen_ms * MS,
            }));
            self.clock.look(lasted_ms * MS, || {
                self.readings.set(self.readings.get() + 1);
                self.reading.get()
            })
        }
    }

    const SOME: Reading = Reading { run_ns: 700 * MS, steal_ns: 30 * MS };

    #[test]
    fn where_no_steal_time_is_told_it_is_read_once_a_second_and_counts_for_nothing() {
        for (reading, told) in [(None, false), (Some(Reading { steal_ns: 0, ..SOME }), true)] {
            let mut guest = Guest::new(reading);
            assert_eq!(guest.look(0, 0), None);
            let stolen = (0..500).filter_map(|_| guest.look(10, 0)).inspect(|window| assert_eq!(window.steal_ns, 0));
            assert_eq!((stolen.count(), guest.readings.get()), (if told { 5 } else { 0 }, 6));
        }
    }

    #[test]
    fn a_window_is_the_looks_of_half_a_second() {
        let mut guest = Guest::new(Some(SOME));
        assert_eq!(guest.look(0, 0), None);
        let windows: [Option<StealTime>; 20] = core::array::from_fn(|_| guest.look(50, 25));
        let expected = StealTime { lasted_ns: 500 * MS, run_ns: 750 * MS, steal_ns: 250 * MS };
        assert!(windows.iter().enumerate().all(|(nth, window)| *window == (nth % 10 == 9).then_some(expected)));
        assert_eq!(guest.look(560, 0), Some(StealTime { lasted_ns: 560 * MS, run_ns: 1120 * MS, steal_ns: 0 }));
        assert_eq!(guest.readings.get(), 4);
    }

    #[test]
    fn what_the_host_took_while_the_program_had_no_work_says_nothing() {
        let mut guest = Guest::new(Some(SOME));
        guest.look(0, 0);
        guest.look(90, 90);
        assert_eq!(guest.look(0, 0), None, "it begins anew");
        assert_eq!((guest.look(10, 10), guest.readings.get()), (None, 2), "the window begins");
        let windows = [guest.look(260, 60), guest.look(260, 0)];
        assert_eq!(windows, [None, Some(StealTime { lasted_ns: 520 * MS, run_ns: 980 * MS, steal_ns: 60 * MS })]);
    }

    #[test]
    fn once_steal_time_is_told_windows_are_short() {
        let mut guest = Guest::new(Some(Reading { steal_ns: 0, ..SOME }));
        guest.look(0, 0);
        assert_eq!(guest.look(990, 20), None);
        assert!(guest.look(10, 0).is_some_and(|window| window.steal_ns == 20 * MS));
        assert!(guest.look(500, 0).is_some());
    }
}
