//! Measurements of a wake-up's duration and of the kernel's time slice. The results are medians. Both take 0.3 s
//! together.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use comity_os::clock::now_ns;
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, affinity, cores, futex};

/// Returns the time from the call that wakes a thread until the thread runs: the median of 50 wake-ups, each after 2
/// ms of sleep.
pub fn wake_up() -> Duration {
    const TIMES: u32 = 50;
    let (word, sent) = (AtomicU32::new(0), AtomicU64::new(0));
    let mut taken = thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut taken = Vec::new();
            for nth in 0..TIMES {
                while word.load(Ordering::Acquire) == nth {
                    futex::wait(&word, nth, None);
                }
                taken.push(now_ns().saturating_sub(sent.load(Ordering::Relaxed)));
            }
            taken
        });
        for nth in 1..=TIMES {
            thread::sleep(Duration::from_millis(2));
            sent.store(now_ns(), Ordering::Relaxed);
            word.store(nth, Ordering::Release);
            futex::wake_one(&word);
        }
        sleeper.join().expect("the sleeper has nothing to panic about")
    });
    Duration::from_nanos(median(&mut taken))
}

/// Returns the kernel's time slice: how long one of two computing threads on the same core runs until the other
/// thread runs. `None` if neither thread lost the core, or if the threads could not be put on one core.
pub fn slice() -> Option<Duration> {
    /// The least pause, in ns, that counts as a time slice of the other thread. An interrupt takes less.
    const TURN: u64 = 300_000;
    const LASTS: Duration = Duration::from_millis(200);
    let core = cores::allowed().first()?.id;
    let (both, ends) = (Barrier::new(2), AtomicBool::new(false));
    let compute = || {
        if !affinity::confine(ThreadId::current(), CoreSet::from_iter([core])) {
            ends.store(true, Ordering::Relaxed);
        }
        both.wait();
        let began = now_ns();
        let (mut since, mut last, mut slices) = (began, began, Vec::new());
        while !ends.load(Ordering::Relaxed) {
            let now = now_ns();
            if now - last > TURN {
                slices.push(last - since);
                since = now;
            }
            last = now;
            if u128::from(now - began) > LASTS.as_nanos() {
                ends.store(true, Ordering::Relaxed);
            }
        }
        slices
    };
    let mut slices = thread::scope(|scope| {
        let threads = [scope.spawn(compute), scope.spawn(compute)];
        threads.map(|thread| thread.join().expect("arithmetic does not panic")).concat()
    });
    (!slices.is_empty()).then(|| Duration::from_nanos(median(&mut slices)))
}

/// Returns the median of one or more times.
fn median(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}
