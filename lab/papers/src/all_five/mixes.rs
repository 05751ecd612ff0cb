//! The eight mixes, and the programs in them. Some are recorded kernels, others have just the shape that a paper's
//! argument turns on.

use std::ops::Range;

use comity_graph::Scale;
use serde::Serialize;

use crate::corun::{Does, GAP};
use crate::programs;
use comity_sim::network::Network;
use comity_sim::program::{Fork, ForkJoin, Program};

/// Programs that run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Both compute on all cores, all the time.
    Stationary,
    /// Both have phases of a fraction of a millisecond, after each of which all wait for the last (BWS §2,
    /// Robinhood §2).
    Phases,
    /// One is serial for half of its time, in stretches of 20 ms (A-STEAL §7, DWS §2).
    HalfSerial,
    /// The tasks of one look for flags that others set, and keep their workers meanwhile: NAS's LU.
    Spins,
    /// The tasks of one block: scatter and gather (WS-LAST §4).
    Blocks,
    /// One is a server: it waits for 20 ms, and then has 4 ms of work for all cores.
    Bursts,
    /// Two come for some tens of milliseconds, and again, beside one that stays.
    ComeAndGo,
    /// A program of short phases in one virtual machine, one that computes all the time in another (Robinhood §6.4).
    Vms,
}

impl Mix {
    /// All.
    pub const ALL: [Mix; 8] =
        [Mix::Stationary, Mix::Phases, Mix::HalfSerial, Mix::Spins, Mix::Blocks, Mix::Bursts, Mix::ComeAndGo, Mix::Vms];

    /// In a few words.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Stationary => "stationary",
            Mix::Phases => "phases",
            Mix::HalfSerial => "half-serial",
            Mix::Spins => "spins",
            Mix::Blocks => "blocks",
            Mix::Bursts => "bursts",
            Mix::ComeAndGo => "come-and-go",
            Mix::Vms => "vms",
        }
    }

    /// What it is, in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Mix::Stationary => "Both programs compute on all cores, all the time",
            Mix::Phases => "Both have phases of a fraction of a millisecond",
            Mix::HalfSerial => "One is serial for half of its time",
            Mix::Spins => "Tasks of one spin on flags",
            Mix::Blocks => "Tasks of one block",
            Mix::Bursts => "One is a server with bursts",
            Mix::ComeAndGo => "Two come and go",
            Mix::Vms => "Each is in a virtual machine of its own",
        }
    }

    /// Its programs.
    pub fn pieces(self) -> &'static [Piece] {
        match self {
            Mix::Stationary => &[Piece::Ep, Piece::Mm],
            Mix::Phases => &[Piece::Cg, Piece::Heat],
            Mix::HalfSerial => &[Piece::HalfSerial, Piece::Mm],
            Mix::Spins => &[Piece::Wavefront, Piece::Mm],
            Mix::Blocks => &[Piece::ScatterGather, Piece::Mm],
            Mix::Bursts => &[Piece::Server, Piece::Mm],
            Mix::ComeAndGo => &[Piece::Mm, Piece::Late, Piece::Late],
            Mix::Vms => &[Piece::Cg, Piece::Mm],
        }
    }
}

/// A program. Each takes about a tenth of a second alone on all cores, but the late one.
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
    /// 20 ms serial, 20 ms wide, and again.
    HalfSerial,
    /// As many tasks as cores, each of which waits for the one before it, strip after strip.
    Wavefront,
    /// One task sends work to twice as many others as there are cores, and waits for all replies.
    ScatterGather,
    /// The server of [`Mix::Bursts`].
    Server,
    /// Takes 20 ms on all cores, and comes again after 20 to 80 ms.
    Late,
    /// Computes on all cores and never ends.
    Loop,
}

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

/// How long the server waits for requests, and how often it does in an execution.
const IDLE: (u64, u32) = (20 * MS, 5);

impl Piece {
    /// What it does on so many cores.
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
            Piece::Loop => Does::Loop,
        }
    }

    /// From one of its executions to the next, in nanoseconds.
    pub fn gap(self) -> Range<u64> {
        match self {
            Piece::Late => 20 * MS..80 * MS,
            _ => GAP,
        }
    }

    /// How long an execution waits for itself, in nanoseconds.
    pub fn waits(self) -> u64 {
        match self {
            Piece::Server => IDLE.0 * u64::from(IDLE.1),
            _ => 0,
        }
    }

    /// T₁ on so many cores, in nanoseconds.
    pub fn work(self, cores: u32, seed: u64) -> f64 {
        match self.does(cores) {
            Does::Graph(graph) => graph.measure(seed).work as f64,
            Does::Phases(phases) => phases.work() as f64,
            Does::Network(network) => network.work() as f64,
            Does::Loop | Does::Requests(..) => f64::INFINITY,
        }
    }
}
