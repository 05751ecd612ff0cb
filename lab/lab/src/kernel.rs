//! `comity-lab kernel`: runs one of the papers' programs and checks its result.

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::Args;
use comity_console::machine::{Machine, Versions};
use comity_console::parse::whole;
use comity_console::{Failure, machine, output};
use comity_kernels::catalog;
use comity_policy::Policy;
use serde::Serialize;

use crate::backend::{Backend, BackendName, default_workers, workers_range};
use crate::choices;
use crate::descendants;
use crate::progress::Progress;
use crate::trial::{Refused, Round, Trial};

const EXAMPLES: &str = "Examples:
  comity-lab kernel --list
  comity-lab kernel mergesort
  comity-lab kernel cg:class=S --policy bws --workers 8 --rounds 5
  comity-lab kernel fib:n=30 --backend rayon --json

A signal that ends the command (Ctrl-C, SIGTERM, SIGHUP) makes it print the
rounds measured so far, marked as partial. A second signal ends it at once.

Exit codes: 0: all rounds were correct; 1: a round was wrong or could not run;
2: invalid command line.";

/// Run one of the papers' programs; print its time, its verification and the workers' counters
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Kernel and its parameters: NAME or NAME:key=value,…; see --list
    #[arg(value_name = "NAME[:key=value,…]")]
    name: Option<String>,
    /// List the kernels and their parameters instead of running one
    #[arg(long, conflicts_with_all = ["name", "backend", "policy", "workers", "rounds"])]
    list: bool,
    /// Backend that runs the tasks
    #[arg(long, value_enum, value_name = "BACKEND", default_value = "comity")]
    backend: BackendName,
    /// Policy of Comity's workers, for example bws:sleep_threshold=128; see `comity policies` [default: COMITY_POLICY,
    /// or comity]
    #[arg(long, value_name = "POLICY")]
    policy: Option<Policy>,
    /// Number of workers of the pool, 1 to 1024 [default: COMITY_NUM_THREADS, RAYON_NUM_THREADS, or the usable cores]
    #[arg(long, value_name = "N", value_parser = workers_range())]
    workers: Option<u16>,
    /// Number of rounds, 1 to 1000000; the input is built once
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = whole::<u32>(1..=1_000_000))]
    rounds: u32,
    /// Print JSON (schema comity-kernel/1)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.list {
        return list(arguments.json);
    }
    let Some(name) = &arguments.name else {
        return Err(Failure::Usage(format!(
            "no kernel is given. Choose one of {} (--list describes them)",
            catalog_names()
        )));
    };
    let backend = Backend::new(arguments.backend, arguments.policy)?;
    let workers = workers(&backend, arguments.workers)?;
    choices::tell(&format!("kernel {name}, {} rounds", arguments.rounds));
    choices::tell_policy(&backend, arguments.policy.is_some());
    choices::tell_workers(workers, arguments.workers.is_some() || backend == Backend::Serial);
    let start = Instant::now();
    let trial = Trial::prepare(name, &backend, workers)?;
    let prepare_s = start.elapsed().as_secs_f64();
    if !arguments.json {
        let plural = if workers == 1 { "" } else { "s" };
        output::print(&format!("{name} on {}, {workers} worker{plural}\n", long_name(&backend)))?;
    }
    let all = arguments.rounds;
    let job = Arc::new(Job { name: name.clone(), backend, workers, prepare_s, all, rounds: Mutex::default() });
    descendants::look_after()?;
    let (interrupted, json) = (Arc::clone(&job), arguments.json);
    descendants::at_a_signal(move || interrupted.tell_what_there_is(json));
    let presented = job.measure(&trial, arguments.json)?;
    // From here on, the report is printed anyway, so a signal ends the command without the action.
    descendants::finish(|| ());
    let rounds = comity_os::lock(&job.rounds);
    let wrong = rounds.iter().find(|round| !round.verified).map(|round| round.detail.clone());
    if arguments.json {
        output::print(&output::to_json(&job.report(&rounds, presented, false)))?;
    } else if let Some(presented) = presented {
        output::print(&format!("{presented}\n"))?;
    }
    match wrong {
        Some(detail) => Err(Failure::Run(format!("{name} gave a wrong result: {detail}"))),
        None => Ok(()),
    }
}

/// The largest number of lines of progress, if the progress is shown as lines.
const BLOCKS: u32 = 10;

/// The runs of a kernel: the setting, and the rounds measured so far.
struct Job {
    name: String,
    backend: Backend,
    workers: u16,
    prepare_s: f64,
    /// The number of rounds to run.
    all: u32,
    rounds: Mutex<Vec<Round>>,
}

impl Job {
    /// Runs all rounds. Returns the sentence about the result that the kernel wrote for the user to look at, if it
    /// wrote one.
    fn measure(&self, trial: &Trial, json: bool) -> Result<Option<String>, Failure> {
        let progress = Progress::new(self.all as usize, 0, "rounds");
        progress.doing(|| self.name.clone());
        let mut presented = None;
        for nth in 1..=self.all {
            // The result for the user is the same after every round, so only the last round requests it.
            let shown = trial.run(nth == self.all)?;
            // While this lock is held, the action of a signal waits, so the round is printed and recorded before.
            let mut rounds = comity_os::lock(&self.rounds);
            if !json {
                progress.aside(|| output::print(&in_words(nth, &shown.round)))?;
            }
            rounds.push(shown.round);
            progress.inc();
            // Without JSON, each round is printed as a line, so no progress is needed.
            if json && nth * BLOCKS / self.all > (nth - 1) * BLOCKS / self.all {
                progress.end_of_block(&self.name);
            }
            drop(rounds);
            presented = shown.presented;
        }
        progress.end();
        Ok(presented)
    }

    fn report(&self, rounds: &[Round], presented: Option<String>, partial: bool) -> KernelReport {
        KernelReport {
            schema: "comity-kernel/1",
            machine: machine::describe(None),
            versions: machine::versions(),
            name: self.name.clone(),
            policy: self.backend.to_string(),
            backend: self.backend.name(),
            workers: self.workers,
            prepare_s: self.prepare_s,
            verified: rounds.iter().all(|round| round.verified),
            partial,
            presented,
            rounds: rounds.to_vec(),
        }
    }

    /// Prints the rounds so far when a signal ends the command. The round that is running is lost.
    fn tell_what_there_is(&self, json: bool) {
        let rounds = comity_os::lock(&self.rounds);
        let (done, all) = (rounds.len(), self.all as usize);
        if descendants::say_interrupted(done, all, "rounds", (done == 0).then_some("nothing has been measured yet")) {
            let text = match json {
                true => output::to_json(&self.report(&rounds, None, true)),
                false => format!("PARTIAL: the command was interrupted after {done} of {all} rounds\n"),
            };
            descendants::say_failures([output::print(&text)]);
        }
        // The lock is never released, so that no round is printed after this partial report.
        std::mem::forget(rounds);
    }
}

fn workers(backend: &Backend, asked: Option<u16>) -> Result<u16, Failure> {
    match (backend, asked) {
        (Backend::Serial, Some(asked)) if asked != 1 => Err(Failure::Usage(format!(
            "--backend serial has one thread, and --workers asks for {asked}. Leave out --workers"
        ))),
        (backend, Some(asked)) => Ok(backend.workers(asked)),
        (backend, None) => Ok(backend.workers(default_workers()?)),
    }
}

fn long_name(backend: &Backend) -> String {
    match backend.policy() {
        Some(policy) => format!("comity (policy {policy})"),
        None => backend.to_string(),
    }
}

fn in_words(nth: u32, round: &Round) -> String {
    let verdict = if round.verified { "verified" } else { "WRONG" };
    let mut text = format!("round {nth}: {:.6} s, {verdict}: {}\n", round.seconds, round.detail);
    let _ = writeln!(
        text,
        "  cpu {:.6} s, switches {} voluntary, {} involuntary",
        round.cpu_s, round.voluntary_switches, round.involuntary_switches
    );
    if let Some(counters) = round.counters {
        let _ = writeln!(
            text,
            "  steals {} of {} attempts, yields {}, sleeps {}, wake-ups {}; all workers: busy {:.6} s, thief {:.6} s, \
             asleep {:.6} s",
            counters.steals,
            counters.steal_attempts,
            counters.yields,
            counters.sleeps,
            counters.wakeups,
            counters.busy_s,
            counters.thief_s,
            counters.asleep_s
        );
        let Refused { no_hypervisor, running, blocked, pulled, taken, chain, other_node, mask, kernel } =
            counters.refused;
        if counters.accelerations > 0 || counters.refused != Refused::default() {
            let _ = writeln!(
                text,
                "  accelerations {}; refused: {running} running, {blocked} blocked, {pulled} pulled, {taken} taken, {chain} chain, {other_node} \
                 on another node, {mask} for the mask, {kernel} by the kernel, {no_hypervisor} without a hypervisor",
                counters.accelerations
            );
        }
    }
    text
}

/// Returns the names of all kernels, for a sentence.
pub fn catalog_names() -> String {
    catalog::DEFINITIONS.iter().map(|definition| definition.name).collect::<Vec<&str>>().join(", ")
}

fn list(json: bool) -> Result<(), Failure> {
    if json {
        let kernels = catalog::DEFINITIONS.iter().map(|definition| KernelRow {
            name: definition.name,
            summary: definition.summary,
            parameters: definition
                .parameters
                .iter()
                .map(|parameter| KernelParameter {
                    key: parameter.key,
                    default: parameter.default,
                    help: parameter.help,
                })
                .collect(),
            scaling: definition.scaling.ok().map(|scaling| scaling.rule),
            no_scaling: definition.scaling.err(),
        });
        let catalog = KernelCatalog { schema: "comity-kernels/1", kernels: kernels.collect() };
        return output::print(&output::to_json(&catalog));
    }
    let mut text = String::new();
    for definition in catalog::DEFINITIONS {
        let _ = writeln!(text, "{}\n    {}", definition.name, definition.summary);
        for parameter in definition.parameters {
            let _ = writeln!(text, "    {}={}: {}", parameter.key, parameter.default, parameter.help);
        }
        let _ = match definition.scaling {
            Ok(scaling) => writeln!(text, "    scaling of a recording: {}", scaling.rule),
            Err(why) => writeln!(text, "    a recording cannot be scaled: {why}"),
        };
    }
    output::print(&text)
}

/// The report of the runs of one `comity-lab kernel`, in schema `comity-kernel/1`.
#[derive(Debug, Serialize)]
struct KernelReport {
    /// The schema: `comity-kernel/1`.
    schema: &'static str,
    /// The machine on which the kernel ran.
    machine: Machine,
    /// The versions of the software.
    versions: Versions,
    /// The kernel with its parameters, as on the command line.
    name: String,
    /// The policy with its parameters, or the backend's name if it has no policy.
    policy: String,
    /// The backend: `comity`, `rayon` or `serial`.
    backend: &'static str,
    /// Workers of the pool.
    workers: u16,
    /// Seconds to build the input, which is not part of any round.
    prepare_s: f64,
    /// True if the result of every round was right.
    verified: bool,
    /// True if a signal ended the command before all rounds were done.
    partial: bool,
    /// A sentence about the result that the kernel wrote for the user to look at, for example a picture, and its
    /// place.
    presented: Option<String>,
    /// The rounds, in order.
    rounds: Vec<Round>,
}

/// The catalog of kernels, in schema `comity-kernels/1`.
#[derive(Debug, Serialize)]
struct KernelCatalog {
    /// The schema: `comity-kernels/1`.
    schema: &'static str,
    /// The kernels, in the catalog's order.
    kernels: Vec<KernelRow>,
}

/// A kernel of the catalog.
#[derive(Debug, Serialize)]
struct KernelRow {
    /// The name, as in `comity-lab kernel NAME`.
    name: &'static str,
    /// A description of what the kernel computes.
    summary: &'static str,
    /// The parameters that can be set.
    parameters: Vec<KernelParameter>,
    /// The rule by which a recording is scaled to a larger input, or `null` if there is no rule.
    scaling: Option<&'static str>,
    /// The reason why a recording cannot be scaled, or `null` if there is a rule.
    no_scaling: Option<&'static str>,
}

/// A parameter of a kernel.
#[derive(Debug, Serialize)]
struct KernelParameter {
    /// The name, as in `NAME:key=value`.
    key: &'static str,
    /// The default value.
    default: &'static str,
    /// A description of the parameter and its values.
    help: &'static str,
}
