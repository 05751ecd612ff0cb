//! Tasks that wait for each other while they keep their workers: a wavefront like in the NAS benchmark LU, or rows
//! with barriers.
//!
//! Arguments: the way to wait (`condvar`, `barrier`, `channel`, `spin`, `yield`), tasks, workers, steps, and
//! microseconds of work for each of a step's 32 rows. Prints the seconds that all steps took. The environment
//! variable `TURNS` replaces the calibration of the work. With `turns` as the first argument, the program only prints
//! that number.

use std::env;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Barrier, Condvar, Mutex};
use std::thread::yield_now;
use std::time::Instant;

const ROWS: usize = 32;

/// The number of rows that a task has done in this step, and the objects on which the next task waits for these rows.
struct Task {
    rows: Mutex<usize>,
    changed: Condvar,
    seen: AtomicUsize,
    sends: SyncSender<()>,
    receives: Mutex<Receiver<()>>,
}

impl Task {
    fn new() -> Task {
        let (sends, receives) = sync_channel(1);
        let rows = Mutex::default();
        Task { rows, changed: Condvar::new(), seen: AtomicUsize::new(0), sends, receives: Mutex::new(receives) }
    }

    fn wait(&self, how: &str, row: usize) {
        match how {
            "condvar" => drop(self.changed.wait_while(self.rows.lock().unwrap(), |rows| *rows < row).unwrap()),
            "channel" => self.receives.lock().unwrap().recv().unwrap(),
            "spin" => {
                while self.seen.load(Ordering::Acquire) < row {
                    spin_loop()
                }
            }
            "yield" => {
                while self.seen.load(Ordering::Acquire) < row {
                    yield_now()
                }
            }
            _ => {}
        }
    }

    fn tell(&self, how: &str, row: usize, is_last: bool, barrier: &Barrier) {
        match how {
            "condvar" => {
                *self.rows.lock().unwrap() = row;
                self.changed.notify_one();
            }
            "channel" if !is_last => self.sends.send(()).unwrap(),
            "barrier" => drop(barrier.wait()),
            _ => self.seen.store(row, Ordering::Release),
        }
    }
}

fn work(turns: u64) {
    black_box((0..turns).fold(1u64, |x, _| black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))));
}

/// Returns the number of turns (iterations) of [`work`] that take this number of microseconds.
fn turns_of(micros: u64) -> u64 {
    const SAMPLE: u64 = 10_000_000;
    let begin = Instant::now();
    work(SAMPLE);
    SAMPLE * micros * 1_000 / begin.elapsed().as_nanos() as u64
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [how, numbers @ ..] = &arguments[..] else { panic!("usage: waits HOW TASKS WORKERS STEPS MICROS") };
    let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().expect("a number")).collect();
    let [tasks, workers, steps, micros] = numbers[..] else { panic!("usage: waits HOW TASKS WORKERS STEPS MICROS") };
    let turns = env::var("TURNS").ok().map_or_else(|| turns_of(micros), |turns| turns.parse().expect("a number"));
    if how == "turns" {
        return println!("{turns}");
    }
    let pool = comity::ThreadPoolBuilder::new().num_threads(workers as usize).build().unwrap();
    let begin = Instant::now();
    for _ in 0..steps {
        let tasks: Vec<Task> = (0..tasks).map(|_| Task::new()).collect();
        let barrier = Barrier::new(tasks.len());
        pool.install(|| {
            comity::scope(|scope| {
                for (nth, me) in tasks.iter().enumerate() {
                    let before = nth.checked_sub(1).map(|before| &tasks[before]);
                    let (barrier, is_last) = (&barrier, nth + 1 == tasks.len());
                    scope.spawn(move |_| {
                        for row in 1..=ROWS {
                            if let Some(before) = before {
                                before.wait(how, row);
                            }
                            work(turns);
                            me.tell(how, row, is_last, barrier);
                        }
                    });
                }
            });
        });
    }
    println!("{:.3}", begin.elapsed().as_secs_f64());
}
