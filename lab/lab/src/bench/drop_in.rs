//! `comity-lab bench drop-in`: measures programs written with rayon, over the drop-in for rayon-core and over stock
//! rayon-core.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use comity_console::Failure;
use comity_console::parse::whole;
use comity_os::process;
use serde::{Deserialize, Serialize};
use statrs::statistics::Statistics;

use super::harness::{self, Block, Harness};
use super::quartiles::Quartiles;
use super::ratio::Ratio;
use crate::backend::{Backend, PolicyList, backends, default_workers, workers_range};
use crate::children::Children;
use crate::{descendants, filing};

const EXAMPLES: &str = "Examples:
  lab/bench/drop-in.sh
  comity-lab bench drop-in --stock ./stock --drop-in ./drop-in
  comity-lab bench drop-in --stock ./stock --drop-in ./drop-in sort \\
      'kernel cg:class=W' --policy comity,bws --rounds 31

lab/bench/drop-in.sh builds both binaries of crates/rayon-core/programs and
runs this bench on them.";

/// Measure programs that use rayon: their times with the drop-in for rayon-core, compared with the stock rayon-core
///
/// Both binaries are `rayon-programs`, compiled from the same source. Each backend is a process with a warm pool: the
/// stock binary, the drop-in with each policy, and the stock binary again as the control. They take turns. A pool is
/// idle while the others run. Processor time is that of the whole process, from the start of a run until 20 ms after
/// its end. It thus includes thieves that still search after the job. At the end, each process idles for one second and
/// reports its processor time.
#[derive(Args)]
// The usage is given by hand, to stay within 80 columns.
#[command(override_usage = "comity-lab bench drop-in --stock <PATH> --drop-in <PATH> [OPTIONS]\n       [PROGRAM]...")]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Programs to run, as in `rayon-programs run` [default: all programs that the stock binary lists]
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
    /// Binary with the stock rayon-core
    #[arg(long, value_name = "PATH")]
    stock: PathBuf,
    /// Binary with the drop-in
    #[arg(long, value_name = "PATH")]
    drop_in: PathBuf,
    /// Policies of the drop-in to compare
    #[arg(long, value_name = "POLICY,…", default_value = "comity")]
    policy: PolicyList,
    /// Number of threads of each pool, 1 to 1024 [default: the usable cores]
    #[arg(long, value_name = "N", value_parser = workers_range())]
    workers: Option<u16>,
    /// Number of rounds per backend, 3 to 100000
    #[arg(long, value_name = "R", default_value_t = 21, value_parser = whole::<u32>(3..=100_000))]
    rounds: u32,
    /// Maximum time of one answer of a backend, in seconds, 2 to 1000000. The first answer of a program includes
    /// building its input
    #[arg(long, value_name = "SECS", default_value_t = 60, value_parser = whole::<u32>(2..=1_000_000))]
    timeout: u32,
    /// Print JSON (schema comity-bench-drop-in/1)
    #[arg(long)]
    json: bool,
}

/// The order to measure the processor time of one second without work. Each backend gets it after all programs.
const IDLE: &str = "idle 1";

const CONTROL: &str = "stock again (control)";

#[derive(Serialize)]
struct Report {
    stock: PathBuf,
    drop_in: PathBuf,
    workers: u16,
    rounds: u32,
    programs: Vec<ProgramReport>,
    geometric_means: Vec<Means>,
    /// The idle measurements of all backends. The stock backend is first.
    idle: Vec<Idle>,
}

#[derive(Serialize)]
struct ProgramReport {
    name: String,
    /// The number of counted rounds. If the run was interrupted, it is smaller than the requested number.
    rounds: usize,
    /// Wall-clock seconds of the stock backend.
    stock_s: Quartiles,
    stock_cpu_s: Quartiles,
    ratios: Vec<Ratios>,
}

/// The times of a backend divided by the times of the stock backend.
#[derive(Serialize)]
struct Ratios {
    backend: String,
    time: Ratio,
    cpu: Ratio,
}

/// The geometric means, over all programs, of the ratios of medians.
#[derive(Serialize)]
struct Means {
    backend: String,
    time: f64,
    cpu: f64,
}

/// The processor time that a backend's process used without work.
#[derive(Serialize)]
struct Idle {
    backend: String,
    seconds: f64,
    cpu_s: f64,
}

/// An answer of `rayon-programs serve`, which both binaries run.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Answer {
    Took { program: String, seconds: f64, cpu_seconds: f64 },
    Failed { program: String, error: String },
    List { programs: Vec<String> },
}

/// Wall-clock and processor seconds.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Took {
    wall: f64,
    cpu: f64,
}

/// The processes of all backends. The stock backend is first, the control is last.
struct Contest {
    names: Vec<String>,
    processes: Children<Answer>,
}

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    let (stock, drop_in) = (binary("--stock", &arguments.stock)?, binary("--drop-in", &arguments.drop_in)?);
    let policies = backends(std::slice::from_ref(&arguments.policy), &[])?;
    let workers = arguments.workers.map_or_else(default_workers, Ok)?;
    descendants::look_after()?;
    let mut contest =
        Contest { names: Vec::new(), processes: Children::new(Duration::from_secs(arguments.timeout.into())) };
    contest.enter("stock".to_owned(), &stock, None, workers)?;
    for policy in &policies {
        contest.enter(policy.to_string(), &drop_in, Some(policy), workers)?;
    }
    contest.enter(CONTROL.to_owned(), &stock, None, workers)?;

    let listed = contest.introduce()?;
    let names = if arguments.programs.is_empty() { listed } else { arguments.programs.clone() };
    let programs = names.clone();
    let backends = contest.names.clone();
    let rounds = arguments.rounds;
    let mut blocks: Vec<Block> =
        names.iter().map(|name| Block { name: name.clone(), rounds: rounds as usize }).collect();
    blocks.push(Block { name: IDLE.to_owned(), rounds: 1 });
    let [first, second] = [&stock, &drop_in].map(|binary| format!("{}{}", binary.display(), filing::built(binary)));
    let (paths, joined) = (format!("{first} and {second}"), backends.join(", "));
    let harness = Harness {
        name: "drop-in",
        setting: format!("{paths}, {joined}, {workers} workers"),
        has_own_table: false,
        blocks,
        json: arguments.json,
        out,
    };
    let report = move |done: &[Vec<Vec<Took>>]| {
        let measured = names.iter().zip(done).filter(|(_, rounds)| !rounds.is_empty());
        let programs: Vec<ProgramReport> = measured.map(|(name, rounds)| compare(name, &backends, rounds)).collect();
        let idle = |round: &Vec<Took>| {
            let idle =
                |(name, took): (&String, &Took)| Idle { backend: name.clone(), seconds: took.wall, cpu_s: took.cpu };
            backends.iter().zip(round).map(idle).collect()
        };
        Report {
            stock: stock.clone(),
            drop_in: drop_in.clone(),
            workers,
            rounds,
            geometric_means: geometric_means(&programs),
            programs,
            idle: done[names.len()].first().map(idle).unwrap_or_default(),
        }
    };
    harness.run(|turn| contest.round(programs.get(turn.block), turn), report)?;
    contest.processes.close()
}

/// Returns the absolute path of an executable file. Without a slash in the path, `PATH` would be searched for the
/// command.
fn binary(flag: &str, path: &Path) -> Result<PathBuf, Failure> {
    let refuse = |why: &dyn std::fmt::Display| {
        let path = path.display();
        Failure::Usage(format!("{flag} '{path}': {why}. Give the path of a rayon-programs binary"))
    };
    let whole = fs::canonicalize(path).map_err(|error| refuse(&error))?;
    let found = fs::metadata(&whole).map_err(|error| refuse(&error))?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return Err(refuse(&"it is not an executable file"));
    }
    Ok(whole)
}

impl Contest {
    /// Starts the process of a backend.
    fn enter(&mut self, name: String, binary: &Path, policy: Option<&Backend>, workers: u16) -> Result<(), Failure> {
        let mut command = Command::new(binary);
        command.arg("serve").env("RAYON_NUM_THREADS", workers.to_string());
        for variable in ["COMITY", "COMITY_NUM_THREADS", "COMITY_POLICY", "COMITY_WATCH", "COMITY_TRACE"] {
            command.env_remove(variable);
        }
        if let Some(policy) = policy {
            command.env("COMITY_POLICY", policy.to_string());
        }
        // The process gets its own process group, so that Ctrl-C does not reach it. This command then ends it.
        process::die_with_this_thread(command.process_group(0));
        self.processes.start(format!("'{}' as {name}", binary.display()), &mut command)?;
        self.names.push(name);
        Ok(())
    }

    /// Asks each backend for its list of programs, which checks that it can answer. Returns the list of the stock
    /// backend.
    fn introduce(&mut self) -> Result<Vec<String>, Failure> {
        let mut lists = Vec::new();
        for index in 0..self.names.len() {
            let list = self.ask(index, "list").and_then(|answer| match answer {
                Answer::List { programs } if !programs.is_empty() => Ok(programs),
                other => Err(self.processes.fail(index, format!("answered {other:?} when asked for its programs"))),
            });
            lists.push(list.map_err(|failure| match failure {
                Failure::Run(sentence) => Failure::Run(format!(
                    "{sentence}\n  It must be a binary of crates/rayon-core/programs; lab/bench/drop-in.sh builds \
                     these binaries."
                )),
                usage => usage,
            })?);
        }
        Ok(lists.swap_remove(0))
    }

    /// Sends one order to a backend and returns its answer. An answer of another backend is an error.
    fn ask(&mut self, index: usize, order: &str) -> Result<Answer, Failure> {
        self.processes.tell(index, order)?;
        let (from, answer) = self.processes.hear()?;
        if from == index {
            Ok(answer)
        } else {
            Err(self.processes.fail(from, format!("answered {answer:?} out of turn")))
        }
    }

    fn measure(&mut self, index: usize, order: &str) -> Result<Took, Failure> {
        let wrong = match self.ask(index, order)? {
            Answer::Took { program, seconds, cpu_seconds }
                if program == order && seconds > 0.0 && cpu_seconds >= 0.0 =>
            {
                return Ok(Took { wall: seconds, cpu: cpu_seconds });
            }
            Answer::Failed { program, error } if program == order => format!("could not run {order}: {error}"),
            other => format!("answered {other:?} when asked to run {order}"),
        };
        Err(self.processes.fail(index, wrong))
    }

    /// Measures each backend with a program, or without work if `program` is `None`.
    fn round(&mut self, program: Option<&String>, turn: harness::Turn) -> Result<Vec<Took>, Failure> {
        let Some(program) = program else {
            // The backends are measured one after the other, because a backend that spins would disturb the others.
            return (0..self.names.len()).map(|index| self.measure(index, IDLE)).collect();
        };
        // The first round warms up and is not counted.
        if turn.is_first {
            self.run_all(program, 0)?;
        }
        self.run_all(program, turn.round + 1)
    }

    fn run_all(&mut self, program: &str, round: usize) -> Result<Vec<Took>, Failure> {
        let number = self.names.len();
        let mut all = vec![Took { wall: 0.0, cpu: 0.0 }; number];
        for nth in 0..number {
            // The order of the backends rotates, so that no backend always follows the same other backend.
            let turn = (nth + round) % number;
            let took = self.measure(turn, program)?;
            if took.cpu == 0.0 {
                let how = format!("reports that {program} used no processor time");
                return Err(self.processes.fail(turn, how));
            }
            all[turn] = took;
        }
        Ok(all)
    }
}

fn compare(program: &str, backends: &[String], rounds: &[Vec<Took>]) -> ProgramReport {
    let wall = |nth: usize| rounds.iter().map(|round| round[nth].wall).collect::<Vec<f64>>();
    let cpu = |nth: usize| rounds.iter().map(|round| round[nth].cpu).collect::<Vec<f64>>();
    let ratios = backends.iter().enumerate().skip(1).map(|(nth, backend)| Ratios {
        backend: backend.clone(),
        time: Ratio::of(&wall(nth), &wall(0)),
        cpu: Ratio::of(&cpu(nth), &cpu(0)),
    });
    ProgramReport {
        name: program.to_owned(),
        rounds: rounds.len(),
        stock_s: Quartiles::of(&wall(0)),
        stock_cpu_s: Quartiles::of(&cpu(0)),
        ratios: ratios.collect(),
    }
}

/// Returns one entry per backend, in the order of the reports.
fn geometric_means(programs: &[ProgramReport]) -> Vec<Means> {
    let backends = programs.first().map_or(&[][..], |program| &program.ratios).iter().enumerate();
    let mean =
        |nth: usize, of: fn(&Ratios) -> f64| programs.iter().map(|program| of(&program.ratios[nth])).geometric_mean();
    backends
        .map(|(nth, ratios)| Means {
            backend: ratios.backend.clone(),
            time: mean(nth, |ratios| ratios.time.of_medians),
            cpu: mean(nth, |ratios| ratios.cpu.of_medians),
        })
        .collect()
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let mut table = harness::table();
        let names =
            self.geometric_means.iter().flat_map(|of| ["time", "cpu"].map(|what| format!("{}: {what}", of.backend)));
        table.set_header(["program", "stock ms", "stock cpu ms"].map(str::to_owned).into_iter().chain(names));
        for program in &self.programs {
            let ms = |seconds: Quartiles| format!("{:.2}", seconds.median * 1000.0);
            let own = [program.name.clone(), ms(program.stock_s), ms(program.stock_cpu_s)];
            let ratios =
                program.ratios.iter().flat_map(|ratios| [ratios.time, ratios.cpu]).map(|ratio| ratio.to_string());
            table.add_row(own.into_iter().chain(ratios));
        }
        let means = self.geometric_means.iter().flat_map(|of| [of.time, of.cpu]).map(|mean| format!("{mean:.3}"));
        table.add_row(["geometric mean", "", ""].map(str::to_owned).into_iter().chain(means));
        let idle: Vec<String> =
            self.idle.iter().map(|idle| format!("{} {:.3} ms", idle.backend, idle.cpu_s * 1000.0)).collect();
        let idle = if idle.is_empty() { "not measured yet".to_owned() } else { idle.join(", ") };
        format!(
            "Time and processor time, divided by those of the stock rayon-core: ratio of medians (quartiles of the \
             rounds' ratios); {} threads, {} rounds\n{table}\n\nProcessor time in one second without work: {}\n",
            self.workers, self.rounds, idle
        )
    }
}
