//! Runs two programs at once, first on stock rayon and then on Comity, and prints the slowdown of each program.
//!
//! The demo has few dependencies, so that it compiles in less than half a minute. `comity-lab corun` makes the same
//! measurement with more programs, policies and rounds, and with confidence intervals.
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

use std::error::Error;
use std::hint::black_box;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time for which the speed of a program is measured.
const MEASURED: Duration = Duration::from_secs(2);

/// The time for which a program also runs before and after its measurement, so that both programs run during each
/// measurement.
const WARM_UP: Duration = Duration::from_millis(300);

const BACKENDS: [&str; 2] = ["stock rayon", "Comity"];

/// The names and the descriptions of the two programs.
const PROGRAMS: [(&str, &str); 2] =
    [("search", "walks a tree of 32,768 leaves"), ("solver", "short parallel phases, one after the other")];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare(),
        [backend, program] => measure(backend, program),
        _ => Err("this command takes no arguments; `comity-lab corun` measures programs of your choice".into()),
    }
}

/// Measures both programs alone and together on each backend, and prints a table.
fn compare() -> Result<()> {
    let cores = std::thread::available_parallelism()?;
    println!("Two programs on {cores} cores, one worker per core in each program.");
    PROGRAMS.iter().for_each(|(name, what)| println!("  {name}: {what}"));
    println!("\nslowdown of each program while both run (1 = as fast as alone):");
    for backend in BACKENDS {
        let mut slowdowns = [0.0; 2];
        for (slowdown, (program, _)) in slowdowns.iter_mut().zip(PROGRAMS) {
            *slowdown = Measurement::start(backend, program)?.speed()?;
        }
        let together = PROGRAMS.map(|(program, _)| Measurement::start(backend, program));
        for (slowdown, measurement) in slowdowns.iter_mut().zip(together) {
            *slowdown /= measurement?.speed()?;
        }
        let [search, solver] = slowdowns;
        println!("  {backend:<12} search {search:.1}   solver {solver:.1}");
    }
    Ok(())
}

/// A measurement of a program in a child process.
struct Measurement {
    process: Child,
}

impl Measurement {
    fn start(backend: &str, program: &str) -> Result<Measurement> {
        let mut command = Command::new(std::env::current_exe()?);
        let process = command.args([backend, program]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        Ok(Measurement { process })
    }

    /// Waits for the child's result, and returns the units of work per second.
    fn speed(mut self) -> Result<f64> {
        let mut line = String::new();
        self.process.stdout.take().expect("it is piped").read_to_string(&mut line)?;
        let status = self.process.wait()?;
        line.trim().parse().map_err(|_| format!("a measured program ended with {status}").into())
    }
}

/// Runs one program, and prints its speed: units of work per second.
fn measure(backend: &str, program: &str) -> Result<()> {
    let join = match BACKENDS.iter().position(|name| *name == backend) {
        Some(0) => Backend::Rayon,
        Some(_) => Backend::Comity,
        None => return Err(format!("there is no backend {backend:?}").into()),
    };
    let unit: fn(Backend) = if program == PROGRAMS[0].0 { search } else { phase };
    // Returns the number of units that have run, and the elapsed time.
    let run = |time| {
        let (begun, mut units) = (Instant::now(), 0);
        while begun.elapsed() < time {
            unit(join);
            units += 1;
        }
        (units, begun.elapsed())
    };
    // Run on a worker, so that no unit has to be passed into the pool by a thread outside of it.
    let ((_, (units, time), _), ()) = join.join(|| (run(WARM_UP), run(MEASURED), run(WARM_UP)), || ());
    println!("{}", f64::from(units) / time.as_secs_f64());
    Ok(())
}

#[derive(Clone, Copy)]
enum Backend {
    Rayon,
    Comity,
}

impl Backend {
    fn join<A: Send, B: Send>(self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        match self {
            Backend::Rayon => rayon::join(a, b),
            Backend::Comity => comity::join(a, b),
        }
    }

    /// Runs `leaf` 2^`depth` times, in parallel.
    fn tree(self, depth: u32, leaf: &(impl Fn() + Sync)) {
        match depth {
            0 => leaf(),
            _ => drop(self.join(|| self.tree(depth - 1, leaf), || self.tree(depth - 1, leaf))),
        }
    }
}

/// Runs one unit of `search`: a tree of 32,768 leaves of half a microsecond.
fn search(backend: Backend) {
    backend.tree(15, &|| compute(500));
}

/// Runs one unit of `solver`: 64 tasks of five microseconds, all of which end before the next unit begins.
fn phase(backend: Backend) {
    backend.tree(6, &|| compute(5_000));
}

/// Computes for about a nanosecond per step.
fn compute(steps: u64) {
    (0..steps).fold(1, |sum: u64, step| black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step)));
}
