//! `comity bench simulator`: what an event of the simulator costs, over the processors of the machine.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use comfy_table::{Table, presets};
use comity_sim::availability::Profile;
use comity_sim::machine::{ThreadScheduler, run_alone};
use comity_sim::program::{Fork, ForkJoin};
use comity_sim::random::stream;
use serde::Serialize;

use super::quartiles::Quartiles;
use crate::failure::Failure;
use crate::json::{Machine, Versions};
use crate::reproduce::figure::{Axis, Figure, Legend, Marks, Series};
use crate::{machine, output};

/// Measure the simulator: nanoseconds per event and bytes per processor, on machines of 100 to 100000 processors
///
/// An event is the end of a strand or one cycle of a thief. The sizes take turns. The job has four times as many strands in a
/// parallel phase as the machine has processors, and they come into being by a tree.
#[derive(Args)]
pub struct Arguments {
    /// Rounds per size, 3 to 1000
    #[arg(long, value_name = "R", default_value_t = 9, value_parser = clap::value_parser!(u32).range(3..=1_000))]
    rounds: u32,
    /// Draw the figure here
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Print JSON (schema comity-bench-simulator/1)
    #[arg(long)]
    json: bool,
}

const SIZES: [u32; 7] = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000];

/// Events of a round, about: a small machine runs several jobs.
const EVENTS: u64 = 2_000_000;

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    machine: Machine,
    versions: Versions,
    rounds: u32,
    sizes: Vec<Size>,
}

#[derive(Serialize)]
struct Size {
    processors: u32,
    /// In a round.
    events: u64,
    nanoseconds_per_event: Quartiles,
    /// Of resident memory that the job took, over the processors; `null` where it took too little to be seen.
    bytes_per_processor: Option<f64>,
}

/// Runs the bench.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut times = vec![Vec::new(); SIZES.len()];
    let mut events = [0; SIZES.len()];
    let mut bytes = [None; SIZES.len()];
    // The largest first, so that the memory that it takes is new.
    for round in 0..arguments.rounds {
        for nth in (0..SIZES.len()).rev() {
            let before = resident();
            let start = Instant::now();
            let (done, most) = one_round(SIZES[nth], round.into());
            times[nth].push(start.elapsed().as_secs_f64() * 1e9 / done as f64);
            events[nth] = done;
            let taken = most.saturating_sub(before);
            // Pages are coarse.
            if round == 0 && taken > 4 << 20 {
                bytes[nth] = Some(taken as f64 / f64::from(SIZES[nth]));
            }
        }
    }
    let size = |nth: usize| Size {
        processors: SIZES[nth],
        events: events[nth],
        nanoseconds_per_event: Quartiles::of(&times[nth]),
        bytes_per_processor: bytes[nth],
    };
    let sizes: Vec<Size> = (0..SIZES.len()).map(size).collect();
    if let Some(path) = &arguments.svg {
        let points = sizes.iter().map(|size| (size.processors.into(), size.nanoseconds_per_event.median)).collect();
        let figure = Figure {
            title: "The simulator: cost per event".into(),
            x: Axis::log("processors of the machine"),
            y: Axis::linear("nanoseconds per event"),
            legend: Legend::UpperLeft,
            series: vec![Series { name: "median".into(), marks: Marks::Line, points }],
        };
        output::replace(path, figure.svg().as_bytes())
            .map_err(|error| Failure::Run(format!("cannot write '{}': {error}", path.display())))?;
    }
    if arguments.json {
        return output::print(&output::to_json(&Report {
            schema: "comity-bench-simulator/1",
            machine: machine::describe(None),
            versions: machine::versions(),
            rounds: arguments.rounds,
            sizes,
        }));
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["processors", "events/round", "ns/event (quartiles)", "million events/s", "bytes/processor"]);
    for Size { processors, events, nanoseconds_per_event, bytes_per_processor } in &sizes {
        let Quartiles { lower, median, upper } = nanoseconds_per_event;
        table.add_row([
            processors.to_string(),
            events.to_string(),
            format!("{median:.1} ({lower:.1} to {upper:.1})"),
            format!("{:.1}", 1e3 / median),
            bytes_per_processor.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes:.0}")),
        ]);
    }
    let mut text = String::new();
    let _ = writeln!(text, "{table}");
    output::print(&text)
}

/// Jobs on a machine of so many processors: the events, and the resident memory at the end of one.
fn one_round(processors: u32, seed: u64) -> (u64, u64) {
    let profile = Profile::constant(processors);
    let (mut events, mut most) = (0, 0);
    for nth in 0.. {
        let program = ForkJoin::new(20, 100, 4 * processors, 2, Fork::Tree);
        let random = stream(seed, nth);
        let mut client = ThreadScheduler::abp_mug().submit(Box::new(program), processors, random);
        run_alone(&mut client, processors, &profile, 200, u64::MAX, |_| ());
        events += client.job.events();
        most = resident().max(most);
        if events >= EVENTS {
            break;
        }
    }
    (events, most)
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    const PAGE: u64 = 4096;
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE
}
