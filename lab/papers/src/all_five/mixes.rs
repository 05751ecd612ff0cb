//! The mixes and their programs. Some programs are recorded kernels. Other programs are synthetic, with the shape on
//! which a paper's argument is based.

use std::ops::Range;

use comity_graph::Scale;
use serde::Serialize;

use crate::corun::{Does, GAP};
use crate::{costs, programs};
use comity_sim::network::Network;
use comity_sim::program::{Fork, ForkJoin, Program};

/// Programs that run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Both programs compute on all cores all the time.
    Stationary,
    /// Both programs have phases of a fraction of a millisecond. After each phase, all tasks wait for the slowest
    /// task (BWS §2, Robinhood §2).
    Phases,
    /// A program that is serial for half of its time, in stretches of 20 ms (A-STEAL §7, DWS §2), and a program that
    /// can always use all cores.
    HalfSerial,
    /// The tasks of one program poll flags that other tasks set, as in NAS's LU. A task that polls occupies its
    /// worker.
    Spins,
    /// The tasks of one program block: scatter and gather (WS-LAST §4).
    Blocks,
    /// A server that waits for 20 ms and then has 4 ms of work for all cores, and a program that can always use all
    /// cores.
    Bursts,
    /// Two programs run for some tens of milliseconds, pause and start again. A third program runs all the time.
    ComeAndGo,
    /// A pair of BWS's figure 2: CLIP, with a serial stretch before each batch, and a program that can always use all
    /// cores. The paper has slowdowns of 358 % and 7 % for this pair under ABP.
    Batches,
    /// A compute-intensive program, and a data-intensive program with phases that are longer than DWS's quantum
    /// (DWS §4.1).
    Data,
    /// Two jobs that are serial for several quanta and then parallel for several quanta (A-STEAL §7).
    Fluctuating,
    /// Scatter and gather with 50 tasks and 10 µs of work per message, and a program that can always use all cores
    /// (WS-LAST §4).
    #[serde(rename = "messages-10")]
    Messages10,
    /// Scatter and gather as in `Messages10`, with 100 µs of work per message.
    #[serde(rename = "messages-100")]
    Messages100,
    /// A program with short phases in one virtual machine, and a program that can always use all cores in another
    /// (Robinhood §6.4).
    Vms,
}

impl Mix {
    /// All mixes.
    pub const ALL: [Mix; 13] = [
        Mix::Stationary,
        Mix::Phases,
        Mix::HalfSerial,
        Mix::Spins,
        Mix::Blocks,
        Mix::Bursts,
        Mix::ComeAndGo,
        Mix::Batches,
        Mix::Data,
        Mix::Fluctuating,
        Mix::Messages10,
        Mix::Messages100,
        Mix::Vms,
    ];

    /// Returns the name of the mix.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Stationary => "stationary",
            Mix::Phases => "phases",
            Mix::HalfSerial => "half-serial",
            Mix::Spins => "spins",
            Mix::Blocks => "blocks",
            Mix::Bursts => "bursts",
            Mix::ComeAndGo => "come-and-go",
            Mix::Batches => "batches",
            Mix::Data => "data",
            Mix::Fluctuating => "fluctuating",
            Mix::Messages10 => "messages-10",
            Mix::Messages100 => "messages-100",
            Mix::Vms => "vms",
        }
    }

    /// Returns a description of the mix in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Mix::Stationary => "Both programs compute on all cores, all the time",
            Mix::Phases => "Both programs have phases of a fraction of a millisecond",
            Mix::HalfSerial => "One program is serial for half of its time",
            Mix::Spins => "Tasks of one program spin on flags",
            Mix::Blocks => "Tasks of one program block",
            Mix::Bursts => "One program is a server with bursts",
            Mix::ComeAndGo => "Two programs start and end repeatedly",
            Mix::Batches => "One program is serial before each of its batches (BWS figure 2)",
            Mix::Data => "One program is data-intensive, with long phases (DWS)",
            Mix::Fluctuating => "Both programs are serial or parallel for several quanta (A-STEAL)",
            Mix::Messages10 => "Tasks of one program block after 10 µs of work (WS-LAST)",
            Mix::Messages100 => "Tasks of one program block after 100 µs of work (WS-LAST)",
            Mix::Vms => "Each program runs in a virtual machine of its own",
        }
    }

    /// Returns the programs of the mix.
    pub fn pieces(self) -> &'static [Piece] {
        match self {
            Mix::Stationary => &[Piece::Ep, Piece::Mm],
            Mix::Phases => &[Piece::Cg, Piece::Heat],
            Mix::HalfSerial => &[Piece::HalfSerial, Piece::Mm],
            Mix::Spins => &[Piece::Wavefront, Piece::Mm],
            Mix::Blocks => &[Piece::ScatterGather, Piece::Mm],
            Mix::Bursts => &[Piece::Server, Piece::Mm],
            Mix::ComeAndGo => &[Piece::Mm, Piece::Late, Piece::Late],
            Mix::Batches => &[Piece::Clip, Piece::Mm],
            Mix::Data => &[Piece::Pnn, Piece::Sweeps],
            Mix::Fluctuating => &[Piece::Fluctuating, Piece::Fluctuating],
            Mix::Messages10 => &[Piece::Messages10, Piece::Mm],
            Mix::Messages100 => &[Piece::Messages100, Piece::Mm],
            Mix::Vms => &[Piece::Cg, Piece::Mm],
        }
    }

    /// True if tasks of the mix block.
    pub(super) fn blocks(self) -> bool {
        matches!(self, Mix::Blocks | Mix::Messages10 | Mix::Messages100)
    }
}

/// A program. All programs except `Late` and `Loop` take a tenth to a fifth of a second alone on all cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Piece {
    /// Random numbers: one wide loop.
    Ep,
    /// A matrix product.
    Mm,
    /// Conjugate gradients: phases of a third of a millisecond.
    Cg,
    /// A heat equation: sweeps.
    Heat,
    /// Serial stretches of 20 ms and parallel phases of 20 ms alternately.
    HalfSerial,
    /// A row of tasks, one per core. A task works on a strip of data after its predecessor has finished that strip,
    /// and polls a flag until then.
    Wavefront,
    /// A task that sends work to two other tasks per core, and waits for all replies.
    ScatterGather,
    /// The server of [`Mix::Bursts`].
    Server,
    /// A program that takes 20 ms on all cores, and starts again after 20 to 80 ms.
    Late,
    /// CLIP: batches of polygons, with a serial stretch before each batch. Both parts of a batch take about as long
    /// as in the BWS paper.
    Clip,
    /// A polynomial neural network: compute-intensive.
    Pnn,
    /// The heat equation on a larger grid: six sweeps of 20 ms.
    Sweeps,
    /// Serial stretches of 40 ms and parallel phases of 40 ms alternately.
    Fluctuating,
    /// The scatter and gather of [`Mix::Messages10`].
    Messages10,
    /// The scatter and gather of [`Mix::Messages100`].
    Messages100,
    /// A program that computes on all cores and never ends.
    Loop,
}

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

/// The time, in ns, that the server waits for requests, and the number of waits in an execution.
const IDLE: (u64, u32) = (20 * MS, 5);

/// Returns the scatter and gather of WS-LAST's experiments, with 50 tasks.
fn messages(work: u64, rounds: u32) -> Network {
    Network::scatter_gather(50, rounds, work, costs::MESSAGE)
}

impl Piece {
    /// Returns what the program does on a machine with this many cores.
    pub fn does(self, cores: u32) -> Does {
        let wide = |width: f64| Scale { width: width * f64::from(cores), ..Scale::default() };
        let tree = |serial: u64, width: u32, iterations: u32| {
            ForkJoin::new(serial, 500 * US, width * cores, iterations, Fork::Tree)
        };
        match self {
            Piece::Ep => Does::Graph(programs::recorded("ep", wide(0.6))),
            Piece::Mm => Does::Graph(programs::recorded("mm", wide(0.19))),
            Piece::Cg => Does::Graph(programs::conjugate_gradients(250, wide(0.25))),
            Piece::Heat => Does::Graph(programs::recorded("heat", wide(1.4))),
            Piece::HalfSerial => Does::Phases(tree(20 * MS, 40, 3)),
            Piece::Wavefront => Does::Network(Box::new(Network::wavefront(cores as usize, 400, 200 * US, 10 * US))),
            Piece::ScatterGather => {
                Does::Network(Box::new(Network::scatter_gather(2 * cores as usize, 80, 500 * US, US)))
            }
            Piece::Server => Does::Phases(tree(100 * US, 8, IDLE.1).idling(IDLE.0)),
            Piece::Late => Does::Phases(tree(100 * US, 40, 1)),
            Piece::Clip => {
                let batch = Scale { length: 2.5, serial: 2.5, ..wide(0.125) };
                Does::Graph(programs::clip_in_batches(100, 650 * US, batch))
            }
            Piece::Pnn => Does::Graph(programs::recorded("pnn", wide(0.8))),
            Piece::Sweeps => Does::Graph(programs::recorded("heat", Scale { repeats: 0.15, length: 8.0, ..wide(1.4) })),
            Piece::Fluctuating => Does::Phases(tree(40 * MS, 80, 2)),
            Piece::Messages10 => Does::Network(Box::new(messages(10 * US, 1_600))),
            // On larger machines, the rounds are not shorter: one task sends and receives all messages.
            Piece::Messages100 => Does::Network(Box::new(messages(100 * US, 20 * cores.min(32)))),
            Piece::Loop => Does::Loop,
        }
    }

    /// Returns the fraction of its time alone in which the program waits for memory, in thousandths.
    pub fn memory(self) -> u32 {
        match self {
            Piece::Cg => costs::CG_MEMORY,
            Piece::Heat | Piece::Sweeps => costs::DATA_MEMORY,
            _ => 0,
        }
    }

    /// Returns the range of the time between two executions, in nanoseconds.
    pub fn gap(self) -> Range<u64> {
        match self {
            Piece::Late => 20 * MS..80 * MS,
            _ => GAP,
        }
    }

    /// Returns the time that an execution waits for requests, in nanoseconds.
    pub fn waits(self) -> u64 {
        match self {
            Piece::Server => IDLE.0 * u64::from(IDLE.1),
            _ => 0,
        }
    }

    /// Returns the work T₁ on this many cores, in nanoseconds.
    pub fn work(self, cores: u32, seed: u64) -> f64 {
        match self.does(cores) {
            Does::Graph(graph) => graph.measure(seed).work as f64,
            Does::Phases(phases) => phases.work() as f64,
            Does::Network(network) => network.work() as f64,
            Does::Loop | Does::Requests(..) => f64::INFINITY,
        }
    }
}
