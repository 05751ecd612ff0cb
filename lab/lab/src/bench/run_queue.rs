//! `comity-lab bench run-queue`: measures how a core's run queue divides the core among the threads that share it, on
//! this machine and in the simulator.
//!
//! ```text
//! probe.rs       the probes
//! threads.rs     a probe on threads
//! simulated.rs   a probe on a simulated host
//! ```

mod probe;
mod simulated;
mod threads;

use std::path::Path;
use std::process::Command;

use clap::Args;
use comity_console::Failure;
use comity_console::parse::whole;
use comity_os::{cores, task_group};
use comity_sim::threads::linux::{Linux, Version};
use serde::Serialize;

use super::harness::{self, Block, Harness};
use super::quartiles::Quartiles;
use crate::descendants;
use probe::{Figures, Probe};
use threads::{Measured, Role};

const EXAMPLES: &str = "Examples:
  comity-lab bench run-queue
  comity-lab bench run-queue --rounds 21 --tries 50 --others 1

On a machine that is not quiet, the superuser can give the bench more weight
than other programs have. Programs with their own task group get this weight:
  setsid -w sh -c 'echo -20 >/proc/self/autogroup; comity-lab bench run-queue'";

/// Measure how one core's run queue divides the core among threads, compared with the simulator's kernel
///
/// The bench measures slices of threads that compute, parts of the core while a thread yields all the time, and the
/// delay until a thread that slept runs. The programs share one task group, or each program has its own (a session,
/// with autogroup). The simulator uses the rules of Linux 6.18 with this machine's tick and number of processors.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Counted time of each try, in milliseconds, 50 to 100000
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = whole::<u64>(50..=100_000))]
    count_ms: u64,
    /// Number of rounds, 1 to 1000
    #[arg(long, value_name = "R", default_value_t = 9, value_parser = whole::<u32>(1..=1_000))]
    rounds: u32,
    /// Maximum number of tries of a probe in a round, while other programs disturb it; the quietest try counts
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole::<u32>(1..=10_000))]
    tries: u32,
    /// Maximum part of the core that other programs use in a quiet try, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 2, value_parser = whole::<u32>(0..=100))]
    others: u32,
    /// Simulated time, in seconds, 1 to 1000
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = whole::<u64>(1..=1_000))]
    simulate_s: u64,
    /// Core that the threads share [default: the last usable core]
    #[arg(long, value_name = "CORE", value_parser = whole::<usize>(0..=1023))]
    core: Option<usize>,
    /// Print JSON (schema comity-bench-run-queue/1)
    #[arg(long)]
    json: bool,
    /// Be one of the programs
    #[arg(long, hide = true)]
    role: Option<Role>,
    /// The number of threads
    #[arg(long, hide = true, default_value_t = 1)]
    threads: u32,
    /// Runs in a session of its own
    #[arg(long, hide = true)]
    apart: bool,
}

#[derive(Serialize)]
struct Report {
    core: usize,
    /// The nice value of the programs' task groups.
    nice: Option<i32>,
    count_ms: u64,
    rounds: usize,
    /// The parameters of the simulated kernel.
    linux: Linux,
    /// True if the kernel's configuration states its ticks per second. Otherwise the bench assumes 250.
    hz_is_known: bool,
    simulated_s: u64,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    probe: &'static str,
    grouping: &'static str,
    figure: &'static str,
    unit: &'static str,
    /// The number that was measured on threads.
    measured: Quartiles,
    simulated: f64,
    /// The percentage of the core that other programs used.
    others: Quartiles,
}

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    let allowed = cores::allowed();
    let core = arguments.core.or_else(|| allowed.last().map(|core| core.id)).unwrap_or(0);
    if !allowed.iter().any(|allowed| allowed.id == core) {
        return Err(Failure::Usage(format!("this command may not use core {core}. Choose another --core")));
    }
    if let Some(role) = arguments.role {
        return threads::program(role, arguments.threads, core, arguments.apart);
    }
    if !task_group::autogroup_enabled() {
        let how = "write 1 to /proc/sys/kernel/sched_autogroup_enabled";
        return Err(Failure::Run(format!("autogroup is off, so sessions are not task groups; {how}")));
    }
    descendants::look_after()?;
    let Arguments { count_ms, tries, others, simulate_s, json, .. } = *arguments;
    let (known, nice) = (ticks(), task_group::nice());
    // The kernel scales its constants by the number of online processors, including processors that this command may
    // not use.
    let processors = std::fs::read_to_string("/proc/stat").unwrap_or_default().matches("\ncpu").count().max(1) as u32;
    let linux = Linux { scaled_for: Some(processors), hz: known.unwrap_or(250), ..Linux::new(Version::V6_18) };
    let simulated: Vec<Vec<f64>> =
        Probe::ALL.iter().map(|probe| simulated::simulate(probe, linux, simulate_s)).collect::<Result<_, _>>()?;
    let harness = Harness {
        name: "run-queue",
        setting: format!("core {core}, {count_ms} ms, {tries} tries for {others} %"),
        has_own_table: false,
        blocks: Block::each_round(arguments.rounds),
        json,
        out,
    };
    let report = move |done: &[Vec<Vec<Measured>>]| {
        let done: Vec<&Vec<Measured>> = done.iter().flatten().collect();
        Report {
            core,
            nice,
            count_ms,
            rounds: done.len(),
            linux,
            hz_is_known: known.is_some(),
            simulated_s: simulate_s,
            rows: rows(&done, &simulated),
        }
    };
    let measure = |turn: harness::Turn| {
        turn.in_turn(&Probe::ALL, |probe| threads::measure(probe, core, count_ms, tries, others.into()))
    };
    harness.run(measure, report)
}

/// Returns the timer ticks per second, if the kernel's configuration can be read.
fn ticks() -> Option<u32> {
    let built =
        Command::new("gzip").args(["-dc", "/proc/config.gz"]).output().ok().filter(|output| output.status.success());
    let release = || std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let of_release = || std::fs::read_to_string(format!("/boot/config-{}", release()?.trim())).ok();
    let text = built.and_then(|output| String::from_utf8(output.stdout).ok()).or_else(of_release)?;
    text.lines().find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse().ok())
}

fn rows(done: &[&Vec<Measured>], simulated: &[Vec<f64>]) -> Vec<Row> {
    let alone = Probe::ALL.iter().position(|probe| probe.figures == Figures::Lateness);
    let row = |nth: usize, figure: usize| {
        let Probe { name, figures, .. } = Probe::ALL[nth];
        let (name_of_figure, unit) = figures.names()[figure];
        // The lateness of a sleeper that shares the core is reported minus the median lateness of a sleeper alone.
        let base = alone.filter(|alone| figures == Figures::Lateness && *alone != nth);
        let over = |of: &dyn Fn(usize, usize) -> f64| of(nth, figure) - base.map_or(0.0, |alone| of(alone, 0));
        let measured: Vec<f64> = done.iter().map(|round| over(&|nth, figure| round[nth].figures[figure])).collect();
        let others: Vec<f64> = done.iter().map(|round| round[nth].others).collect();
        Row {
            probe: name,
            grouping: Probe::ALL[nth].grouping(),
            figure: name_of_figure,
            unit,
            measured: Quartiles::of(&measured),
            simulated: over(&|nth, figure| simulated[nth][figure]),
            others: Quartiles::of(&others),
        }
    };
    let figures = |nth: usize| 0..Probe::ALL[nth].figures.names().len();
    (0..Probe::ALL.len())
        .flat_map(|nth| figures(nth).map(move |figure| (nth, figure)))
        .map(|(nth, figure)| row(nth, figure))
        .collect()
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let mut table = harness::table();
        table.set_header(["threads of one core", "task groups", "figure", "here", "simulated", "others"]);
        for Row { probe, grouping, figure, unit, measured, simulated, others } in &self.rows {
            let digits = if *unit == "µs" { 0 } else { 2 };
            table.add_row([
                (*probe).to_owned(),
                (*grouping).to_owned(),
                format!("{figure}, {unit}"),
                measured.told(digits),
                format!("{simulated:.digits$}"),
                format!("{:.1} %", others.median),
            ]);
        }
        let hz = if self.hz_is_known { "" } else { " (assumed: this kernel does not report it)" };
        let Linux { hz: ticks, scaled_for, .. } = self.linux;
        format!(
            "{table}\n\nMedians (quartiles) of {} rounds of {} ms on core {}, the quietest try of each; others: other \
             programs on the core. Task groups of nice {}. Simulated: {} s of Linux 6.18 with {ticks} ticks a \
             second{hz}, constants of {} processors. With other threads on the core, the lateness is the excess over \
             the median of a thread alone.\n",
            self.rounds,
            self.count_ms,
            self.core,
            self.nice.unwrap_or(0),
            self.simulated_s,
            scaled_for.unwrap_or(1),
        )
    }
}
