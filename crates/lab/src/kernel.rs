//! `comity-lab kernel`: runs one of the papers' programs and checks its result.

use std::fmt::Write;
use std::time::Instant;

use clap::Args;
use comity_console::{Failure, machine, output};
use comity_kernels::catalog;
use comity_policy::Policy;

use crate::contestant::{BackendName, Contestant, default_workers, workers_range};
use crate::json::{KernelCatalog, KernelParameter, KernelReport, KernelRow, Round};
use crate::trial::Trial;

const EXAMPLES: &str = "Examples:
  comity-lab kernel --list
  comity-lab kernel mergesort
  comity-lab kernel cg:class=S --policy bws --workers 8 --rounds 5
  comity-lab kernel fib:n=30 --backend rayon --json

Exit codes: 0 every round was right; 1 one was not, or could not run; 2 the
command line is at fault.";

/// Run one of the papers' programs; print its time, its verification and what the workers did
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The kernel and its parameters; --list shows both
    #[arg(value_name = "NAME[:key=value,…]")]
    name: Option<String>,
    /// List the kernels and their parameters instead of running one
    #[arg(long, conflicts_with_all = ["name", "backend", "policy", "workers", "rounds"])]
    list: bool,
    /// What runs the tasks
    #[arg(long, value_enum, value_name = "BACKEND", default_value = "comity")]
    backend: BackendName,
    /// The policy of Comity's workers, as in bws:sleep_threshold=128; see `comity policies` [default: COMITY_POLICY, or comity]
    #[arg(long, value_name = "POLICY")]
    policy: Option<Policy>,
    /// Workers of the pool, 1 to 1024 [default: COMITY_NUM_THREADS, RAYON_NUM_THREADS, or the usable cores]
    #[arg(long, value_name = "N", value_parser = workers_range())]
    workers: Option<u16>,
    /// How often to run, 1 to 1000000; the input is built once
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
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
        return Err(Failure::Usage(format!("name a kernel: one of {}; see --list", catalog_names())));
    };
    let contestant = Contestant::new(arguments.backend, arguments.policy)?;
    let workers = workers(&contestant, arguments.workers)?;
    let start = Instant::now();
    let trial = Trial::prepare(name, &contestant, workers)?;
    let prepare_s = start.elapsed().as_secs_f64();
    if !arguments.json {
        let plural = if workers == 1 { "" } else { "s" };
        output::print(&format!("{name} on {}, {workers} worker{plural}\n", long_name(&contestant)))?;
    }
    let (mut rounds, mut presented) = (Vec::new(), None);
    for nth in 1..=arguments.rounds {
        // What there is to show is the same after every round.
        let shown = trial.run(nth == arguments.rounds)?;
        if !arguments.json {
            output::print(&in_words(nth, &shown.round))?;
        }
        rounds.push(shown.round);
        presented = shown.presented;
    }
    let wrong = rounds.iter().find(|round| !round.verified).map(|round| round.detail.clone());
    if arguments.json {
        output::print(&output::to_json(&KernelReport {
            schema: "comity-kernel/1",
            machine: machine::describe(None),
            versions: machine::versions(),
            name: name.clone(),
            policy: contestant.to_string(),
            backend: contestant.backend(),
            workers,
            prepare_s,
            verified: wrong.is_none(),
            presented,
            rounds,
        }))?;
    } else if let Some(presented) = presented {
        output::print(&format!("{presented}\n"))?;
    }
    match wrong {
        Some(detail) => Err(Failure::Run(format!("{name} gave a wrong result: {detail}"))),
        None => Ok(()),
    }
}

fn workers(contestant: &Contestant, asked: Option<u16>) -> Result<u16, Failure> {
    match (contestant, asked) {
        (Contestant::Serial, Some(asked)) if asked != 1 => {
            Err(Failure::Usage(format!("--backend serial has one thread, not {asked}; leave --workers out")))
        }
        (contestant, Some(asked)) => Ok(contestant.workers(asked)),
        (contestant, None) => Ok(contestant.workers(default_workers()?)),
    }
}

fn long_name(contestant: &Contestant) -> String {
    match contestant.policy() {
        Some(policy) => format!("comity (policy {policy})"),
        None => contestant.to_string(),
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
    }
    text
}

/// All kernels, for a sentence.
pub fn catalog_names() -> String {
    catalog::ROWS.iter().map(|row| row.name).collect::<Vec<&str>>().join(", ")
}

fn list(json: bool) -> Result<(), Failure> {
    if json {
        let kernels = catalog::ROWS.iter().map(|row| KernelRow {
            name: row.name,
            summary: row.summary,
            parameters: row
                .parameters
                .iter()
                .map(|parameter| KernelParameter {
                    key: parameter.key,
                    default: parameter.default,
                    help: parameter.help,
                })
                .collect(),
        });
        let catalog = KernelCatalog { schema: "comity-kernels/1", kernels: kernels.collect() };
        return output::print(&output::to_json(&catalog));
    }
    let mut text = String::new();
    for row in catalog::ROWS {
        let _ = writeln!(text, "{}\n    {}", row.name, row.summary);
        for parameter in row.parameters {
            let _ = writeln!(text, "    {}={}: {}", parameter.key, parameter.default, parameter.help);
        }
    }
    output::print(&text)
}
