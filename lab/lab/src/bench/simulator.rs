//! `comity-lab bench simulator`: measures the cost of an event of the simulator, for machines with different numbers
//! of processors.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use comfy_table::{Table, presets};
use comity_console::Failure;
use comity_console::output::ResultFile;
use comity_console::parse::whole;
use comity_papers::figure::{Axis, Figure, Marks, Series};
use comity_policy::Policy;
use comity_sim::availability::Profile;
use comity_sim::program::{Fork, ForkJoin};
use comity_sim::quanta::{ThreadScheduler, run_alone};
use comity_sim::random::stream;
use comity_sim::threads::linux::{Linux, Version};
use comity_sim::threads::{Costs, Host};
use serde::{Deserialize, Serialize};

use super::harness::{self, Block, Harness};
use super::quartiles::Quartiles;
use crate::figure;

/// Measure the simulator: nanoseconds per event and bytes per processor
///
/// It measures machines of the A-STEAL paper with 100 to 100000 processors, hosts with 8 to 1024 cores, and two
/// programs on 32 cores. The sizes take turns. On the machine of the A-STEAL paper, an event is the end of a strand or
/// one cycle of a thief, with the policy abp-mug. On a host, an event is each thing with a time of its own; a few cheap
/// checks follow each event. A parallel phase of the job has four strands per processor, which are created by a tree.
/// The two programs run for two simulated seconds with 32 workers each, on the machine and the kernel of the BWS paper,
/// with each of four policies.
#[derive(Args)]
pub struct Arguments {
    /// Number of rounds per size, 1 to 1000
    #[arg(long, value_name = "R", default_value_t = 9, value_parser = whole::<u32>(1..=1_000))]
    rounds: u32,
    /// SVG file for the figure
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Print JSON (schema comity-bench-simulator/2)
    #[arg(long)]
    json: bool,
}

/// A simulation that the bench runs.
#[derive(Clone, Copy)]
enum Subject {
    /// A job on the machine of A-STEAL.
    ASteal,
    /// A program alone on a host, under the policy `comity`.
    Host,
    /// Two programs on a host, under this policy.
    Pair(&'static str),
}

/// The subjects, each with its number of processors.
const SIZES: [(Subject, u32); 15] = {
    use Subject::{ASteal, Host, Pair};
    [
        (ASteal, 100),
        (ASteal, 300),
        (ASteal, 1_000),
        (ASteal, 3_000),
        (ASteal, 10_000),
        (ASteal, 30_000),
        (ASteal, 100_000),
        (Host, 8),
        (Host, 64),
        (Host, 256),
        (Host, 1_024),
        (Pair("abp"), 32),
        (Pair("bws"), 32),
        (Pair("dws"), 32),
        (Pair("comity"), 32),
    ]
};

/// The approximate number of events per round. On a small machine, a round runs several jobs.
const EVENTS: u64 = 2_000_000;

/// The simulated time of a pair, in nanoseconds.
const PAIR: u64 = 2_000_000_000;

#[derive(Serialize)]
struct Report {
    rounds: u32,
    sizes: Vec<Size>,
    #[serde(skip)]
    svg: Option<Arc<ResultFile>>,
}

/// The measurement of one size in one round.
#[derive(Serialize, Deserialize)]
struct Sample {
    events: u64,
    nanoseconds_per_event: f64,
    /// Bytes of resident memory that the job added to the process.
    bytes: u64,
}

#[derive(Serialize)]
struct Size {
    /// The simulated machine: `a-steal`, `host` or `pair`.
    machine: &'static str,
    policy: &'static str,
    processors: u32,
    /// The number of rounds. If the run was interrupted, it is smaller than the requested number.
    rounds: usize,
    /// Events in one round.
    events: u64,
    nanoseconds_per_event: Quartiles,
    /// Bytes of resident memory that the job added, per simulated processor. `null` if the job added too little to be
    /// measured.
    bytes_per_processor: Option<f64>,
    /// Seconds that the simulation of one second takes. `null` if the machine is not a pair.
    seconds_per_second: Option<f64>,
}

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    let svg = arguments.svg.as_deref().map(|path| ResultFile::check(path, "--svg")).transpose()?.map(Arc::new);
    let Arguments { rounds, json, .. } = *arguments;
    let block = |nth| Block { name: format!("all sizes, {} of {rounds}", nth + 1), rounds: SIZES.len() };
    let harness = Harness {
        name: "simulator",
        setting: format!("simulator {}", comity_sim::REVISION),
        has_own_table: false,
        blocks: (0..rounds).map(block).collect(),
        json,
        out,
    };
    let measure = |turn: harness::Turn| {
        let (subject, processors) = SIZES[size(turn.round)];
        let before = resident();
        let start = Instant::now();
        let (events, most) = one_round(subject, processors, turn.block as u64);
        let nanoseconds_per_event = start.elapsed().as_secs_f64() * 1e9 / events as f64;
        Ok(Sample { events, nanoseconds_per_event, bytes: most.saturating_sub(before) })
    };
    let report = move |done: &[Vec<Sample>]| {
        let of = |nth: usize| done.iter().filter_map(|round| round.get(size(nth))).collect::<Vec<&Sample>>();
        let measured = (0..SIZES.len()).filter_map(|nth| described(SIZES[nth], &of(nth)));
        Report { rounds, sizes: measured.collect(), svg: svg.clone() }
    };
    harness.run(measure, report)
}

/// Converts between the index of a size and its turn, in both directions. The largest size has the first turn, so
/// that its memory is new to the process and can be measured.
fn size(turn: usize) -> usize {
    SIZES.len() - 1 - turn
}

/// Summarises the samples of a size; `None` if there is no sample.
fn described((subject, processors): (Subject, u32), samples: &[&Sample]) -> Option<Size> {
    let first = samples.first()?;
    let times: Vec<f64> = samples.iter().map(|sample| sample.nanoseconds_per_event).collect();
    // A difference below 4 MiB is not reported, because resident memory grows by whole pages.
    let bytes = (first.bytes > 4 << 20).then(|| first.bytes as f64 / f64::from(processors));
    let seconds = samples.iter().map(|sample| sample.nanoseconds_per_event * sample.events as f64 / PAIR as f64);
    let seconds_per_second =
        matches!(subject, Subject::Pair(_)).then(|| Quartiles::of(&seconds.collect::<Vec<f64>>()).median);
    let (machine, policy) = match subject {
        Subject::ASteal => ("a-steal", "abp-mug"),
        Subject::Host => ("host", "comity"),
        Subject::Pair(policy) => ("pair", policy),
    };
    Some(Size {
        machine,
        policy,
        seconds_per_second,
        processors,
        rounds: samples.len(),
        events: first.events,
        nanoseconds_per_event: Quartiles::of(&times),
        bytes_per_processor: bytes,
    })
}

impl Report {
    fn figure(&self) -> Figure {
        let series = [("a-steal", "the machine of A-STEAL"), ("host", "a host")].map(|(machine, name)| {
            let own = self.sizes.iter().filter(|size| size.machine == machine);
            let points = own.clone().map(|size| (size.processors.into(), size.nanoseconds_per_event.median)).collect();
            let intervals = own.map(|size| size.nanoseconds_per_event.interval(size.processors.into()));
            Series::new(name, Marks::Line, points).with_intervals(intervals)
        });
        Figure {
            title: "The simulator: cost per event".into(),
            x: Axis::log("processors of the machine"),
            y: Axis::linear("nanoseconds per event"),
            series: series.into(),
        }
    }
}

impl harness::Report for Report {
    const SCHEMA: u32 = 2;

    fn in_words(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header([
            "machine",
            "policy",
            "processors",
            "events/round",
            "ns/event (quartiles)",
            "million events/s",
            "bytes/processor",
            "s/simulated s",
        ]);
        for size in &self.sizes {
            let Size { machine, policy, processors, events, bytes_per_processor, seconds_per_second, .. } = size;
            let Quartiles { lower, median, upper } = size.nanoseconds_per_event;
            table.add_row([
                (*machine).to_owned(),
                (*policy).to_owned(),
                processors.to_string(),
                events.to_string(),
                format!("{median:.1} ({lower:.1} to {upper:.1})"),
                format!("{:.1}", 1e3 / median),
                bytes_per_processor.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes:.0}")),
                seconds_per_second.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2}")),
            ]);
        }
        format!("{table}\n")
    }

    fn files(&self) -> Vec<(&ResultFile, String)> {
        self.svg.iter().map(|file| (&**file, figure::svg(&self.figure()))).collect()
    }
}

/// Runs jobs on a simulated machine with `processors` processors. Returns the number of events, and the largest
/// resident memory at the end of a job.
fn one_round(subject: Subject, processors: u32, seed: u64) -> (u64, u64) {
    let (mut events, mut most) = (0, 0);
    for nth in 0.. {
        events += match subject {
            Subject::ASteal => {
                let program = ForkJoin::new(20, 100, 4 * processors, 2, Fork::Tree);
                let mut client = ThreadScheduler::abp_mug().submit(Box::new(program), processors, stream(seed, nth));
                run_alone(&mut client, processors, &Profile::constant(processors), 200, u64::MAX, |_| ());
                most = resident().max(most);
                client.job.events()
            }
            Subject::Host => {
                let mut host = Host::new(processors as usize, Costs::default(), seed);
                let program = ForkJoin::new(2_000, 10_000, 4 * processors, 20, Fork::Tree);
                host.submit(0, Box::new(program), Policy::default(), processors, nth);
                let events = finished(&mut host, u64::MAX);
                most = resident().max(most);
                events
            }
            Subject::Pair(policy) => {
                let mut host = Host::new(processors as usize, Costs::default(), seed);
                host.use_linux(Linux { compat_yield: true, hz: 1_000, sockets: 4, ..Linux::new(Version::V2_6_36) });
                let policy: Policy = policy.parse().expect("it is in the catalog");
                // The programs CG and MM of the BWS paper, §2.3.2, with the parameters of
                // `sim/examples/kernel_mechanisms.rs`.
                let programs = [
                    ForkJoin::new(3_560_000, 177_000, 275, u32::MAX, Fork::Tree),
                    ForkJoin::new(63_000, 215_000, 1_302, u32::MAX, Fork::Tree),
                ];
                for (program, seed) in programs.into_iter().zip(0..) {
                    host.submit(0, Box::new(program), policy, processors, seed);
                }
                return (finished(&mut host, PAIR), resident().max(most));
            }
        };
        if events >= EVENTS {
            break;
        }
    }
    (events, most)
}

/// Runs a host until `until` and returns the number of its events.
fn finished(host: &mut Host, until: u64) -> u64 {
    host.run(until, u64::MAX).unwrap_or_else(|what| panic!("please report it: {what}"));
    host.events()
}

/// Returns the bytes of this process in memory.
fn resident() -> u64 {
    const PAGE: u64 = 4096;
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE
}
