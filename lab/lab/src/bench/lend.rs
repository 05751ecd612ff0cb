//! `comity-lab bench lend`: measures how soon a core that one program leaves idle runs a task of another program.

use std::hint::spin_loop;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use comity::ThreadPool;
use comity_console::Failure;
use comity_console::parse::whole;
use comity_os::clock::now_ns;
use comity_os::cores;
use comity_policy::Policy;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::child::{order, tell};
use super::harness::{self, Block, Harness};
use super::quartiles::percentile;
use crate::backend::{PolicyList, default_workers};
use crate::children::Children;
use crate::descendants;

const EXAMPLES: &str = "Examples:
  comity-lab bench lend
  comity-lab bench lend --policy comity,dws,dws:quantum_us=1000 --samples 500";

/// Measure the time from the moment when one program's core becomes idle to the start of another program's task on it
///
/// Two programs share the machine through a core table of their own. The borrower always has more tasks of 20 µs than
/// workers. The lender runs one task of 20 to 40 ms and then has no work for 40 ms. The bench measures the time from
/// the end of the lender's task to the start of the borrower's next task on the same core.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Policies to measure; both programs use the same policy
    #[arg(long, value_name = "POLICY,…", default_value = "comity,dws")]
    policy: PolicyList,
    /// Number of times that the lender lends, 10 to 100000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole::<u32>(10..=100_000))]
    samples: u32,
    /// Print JSON (schema comity-bench-lend/1)
    #[arg(long)]
    json: bool,
    /// Be one of the two programs
    #[arg(long, hide = true)]
    role: Option<Role>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    Lender,
    Borrower,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Lender => "lender",
            Role::Borrower => "borrower",
        }
    }
}

#[derive(Serialize)]
struct Report {
    workers: u16,
    samples: u32,
    rows: Vec<Row>,
}

/// The result of a policy. Times are in microseconds.
#[derive(Serialize)]
struct Row {
    policy: String,
    /// The number of samples. If the run was interrupted, it is smaller than the requested number.
    samples: usize,
    /// `None` if no core was lent.
    p50_us: Option<f64>,
    p90_us: Option<f64>,
    p99_us: Option<f64>,
    /// The number of times that the borrower ran no task before the lender was busy again.
    never: usize,
    /// The number of times that the borrower ran tasks on the core in the last millisecond of the lender's task.
    shared: usize,
}

/// A core that the lender left idle, from the end of a task until the start of its next task.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Lent {
    core: usize,
    /// Nanoseconds of the machine's clock.
    from: u64,
    until: u64,
}

/// The borrower's use of a lent core.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Borrowed {
    /// The time at which the borrower's first task began on the core, if one began.
    began: Option<u64>,
    shared: bool,
}

/// An answer of one of the two programs.
#[derive(Serialize, Deserialize)]
enum Answer {
    Ready,
    /// The lender's answer.
    Lent(Vec<Lent>),
    /// The borrower's answer: an element for each lent core.
    Borrowed(Vec<Borrowed>),
}

/// The longest time to wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(600);
/// The number of times that the lender lends before both programs report what they recorded.
const BATCH: u32 = 25;
const TASK: Duration = Duration::from_micros(20);
const LENT_FOR: Duration = Duration::from_millis(40);
/// The core counts as shared if a task of the borrower began on it within this time before it was lent.
const SHORTLY: Duration = Duration::from_millis(1);

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    match arguments.role {
        Some(Role::Lender) => return lender(arguments),
        Some(Role::Borrower) => return borrower(arguments),
        None => {}
    }
    if comity_os::cores::usable().get() < 2 {
        return Err(Failure::Usage(
            "two programs cannot divide one core; this bench needs two or more cores".to_owned(),
        ));
    }
    descendants::look_after()?;
    let workers = default_workers()?;
    let policies = arguments.policy.0.clone();
    let Arguments { samples, json, .. } = *arguments;
    let rounds = samples.div_ceil(BATCH) as usize;
    let harness = Harness {
        name: "lend",
        setting: format!("{workers} workers, {samples} samples"),
        has_own_table: true,
        blocks: policies.iter().map(|policy| Block { name: policy.to_string(), rounds }).collect(),
        json,
        out,
    };
    let report = move |done: &[Vec<Vec<(Lent, Borrowed)>>]| {
        let measured = policies.iter().zip(done).filter(|(_, batches)| !batches.is_empty());
        Report { workers, samples, rows: measured.map(|(policy, batches)| row(*policy, &batches.concat())).collect() }
    };
    // The two programs of the policy that is being measured.
    let mut programs: Option<Programs> = None;
    let measure = |turn: harness::Turn| {
        let policy = arguments.policy.0[turn.block];
        if turn.is_first {
            // The programs of the previous policy must end before the next ones start.
            drop(programs.take());
            programs = Some(Programs::start(policy)?);
        }
        let both = programs.as_mut().expect("they were started at the first turn");
        let batch = both.measure((samples - turn.round as u32 * BATCH).min(BATCH))?;
        if turn.round + 1 == rounds {
            programs.take().expect("they are there").children.close()?;
        }
        Ok(batch)
    };
    harness.run(measure, report)
}

/// The processes of the lender and the borrower.
struct Programs {
    children: Children<Answer>,
    /// The folder with the core table of both programs. This field is last, so that the folder is deleted after both
    /// processes have ended.
    _folder: TempDir,
}

impl Programs {
    fn start(policy: Policy) -> Result<Programs, Failure> {
        let folder = tempfile::tempdir().map_err(|error| Failure::Run(format!("no temporary folder: {error}")))?;
        let mut children = Children::new(TIMEOUT);
        for (index, role) in [Role::Lender, Role::Borrower].into_iter().enumerate() {
            let mut command = Command::new("/proc/self/exe");
            command.args(["bench", "lend", "--role", role.name(), "--policy", &policy.to_string()]);
            command
                .env("COMITY_TABLE", folder.path().join("table"))
                .env_remove("COMITY")
                .env_remove("COMITY_WATCH")
                .env_remove("COMITY_TRACE");
            children.start(format!("the {}", role.name()), &mut command)?;
            children.expect(index);
        }
        for _ in 0..2 {
            let (from, answer) = children.hear()?;
            if !matches!(answer, Answer::Ready) {
                return Err(children.fail(from, "answered out of turn".to_owned()));
            }
        }
        Ok(Programs { children, _folder: folder })
    }

    fn measure(&mut self, samples: u32) -> Result<Vec<(Lent, Borrowed)>, Failure> {
        let programs = &mut self.children;
        programs.tell(1, "begin")?;
        programs.tell(0, &samples.to_string())?;
        let lent = match programs.hear()? {
            (_, Answer::Lent(lent)) => lent,
            (from, _) => return Err(programs.fail(from, "answered out of turn".to_owned())),
        };
        programs.tell(1, &serde_json::to_string(&lent).expect("numbers"))?;
        match programs.hear()? {
            (_, Answer::Borrowed(borrowed)) => Ok(lent.into_iter().zip(borrowed).collect()),
            (from, _) => Err(programs.fail(from, "answered out of turn".to_owned())),
        }
    }
}

fn row(policy: Policy, samples: &[(Lent, Borrowed)]) -> Row {
    let latency = |(lent, borrowed): &(Lent, Borrowed)| Some((borrowed.began? - lent.from) as f64 / 1e3);
    let latencies: Vec<f64> = samples.iter().filter_map(latency).collect();
    let percentile = |percent| (!latencies.is_empty()).then(|| percentile(&latencies, percent));
    Row {
        policy: policy.to_string(),
        samples: samples.len(),
        p50_us: percentile(50),
        p90_us: percentile(90),
        p99_us: percentile(99),
        never: samples.len() - latencies.len(),
        shared: samples.iter().filter(|(_, borrowed)| borrowed.shared).count(),
    }
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let mut table = harness::table();
        table.set_header(["policy", "p50 µs", "p90 µs", "p99 µs", "never", "shared"]);
        for Row { policy, p50_us, p90_us, p99_us, never, shared, .. } in &self.rows {
            let micros = |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
            let [p50, p90, p99] = [p50_us, p90_us, p99_us].map(micros);
            table.add_row([policy.clone(), p50, p90, p99, never.to_string(), shared.to_string()]);
        }
        let without: String = self
            .rows
            .iter()
            .filter(|row| row.p50_us.is_none())
            .map(|row| format!("With {}, no core was lent; check that this policy shares cores.\n", row.policy))
            .collect();
        format!(
            "{table}\n\n{} times each; {} workers in each of the two programs. never: no task started before the \
             lender needed the core again;\nshared: the borrower ran tasks on the core in the last millisecond before \
             it was lent.\n{}",
            self.samples, self.workers, without
        )
    }
}

fn pool(arguments: &Arguments) -> Result<ThreadPool, Failure> {
    let policy = arguments.policy.0.first().copied().unwrap_or_default();
    let built = comity::ThreadPoolBuilder::new().policy(policy).build();
    built.map_err(|error| Failure::Run(error.to_string()))
}

fn spin(time: Duration) {
    let end = now_ns() + time.as_nanos() as u64;
    while now_ns() < end {
        spin_loop();
    }
}

fn lender(arguments: &Arguments) -> Result<(), Failure> {
    let pool = pool(arguments)?;
    tell(&Answer::Ready)?;
    let mut nth = 0;
    while let Some(samples) = order().and_then(|order| order.parse::<u64>().ok()) {
        let mut lent = Vec::new();
        for _ in 0..samples {
            // The length varies, so that it does not stay in step with the quantum (the interval of the coordinators'
            // looks at the table).
            let busy_for = Duration::from_micros(20_000 + nth * 7_919 % 20_000);
            nth += 1;
            let ended = pool.install(|| {
                spin(busy_for);
                (cores::current(), now_ns())
            });
            std::thread::sleep(LENT_FOR);
            lent.push(Lent { core: ended.0, from: ended.1, until: now_ns() });
        }
        tell(&Answer::Lent(lent))?;
    }
    Ok(())
}

fn borrower(arguments: &Arguments) -> Result<(), Failure> {
    let pool = pool(arguments)?;
    tell(&Answer::Ready)?;
    let cores = cores::allowed().iter().map(|core| core.id).max().unwrap_or(0) + 1;
    while order().is_some() {
        // The times at which tasks began, by core.
        let began: Vec<Mutex<Vec<u64>>> = (0..cores).map(|_| Mutex::new(Vec::new())).collect();
        let (lent, end) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let task = || {
            let (now, core) = (now_ns(), cores::current());
            began[core].lock().expect("no task panics").push(now);
            spin(TASK);
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *lent.lock().expect("no task panics") = hear_of_lent();
                end.store(true, Ordering::Relaxed);
            });
            pool.install(|| {
                while !end.load(Ordering::Relaxed) {
                    comity::for_range(0..1_000, 1, |block| block.for_each(|_| task()));
                }
            });
        });
        let began: Vec<Vec<u64>> =
            began.into_iter().map(|began| began.into_inner().expect("no task panicked")).collect();
        let borrowed = lent.into_inner().expect("no task panicked").iter().map(|lent| borrowed(&began, lent)).collect();
        tell(&Answer::Borrowed(borrowed))?;
    }
    Ok(())
}

fn hear_of_lent() -> Vec<Lent> {
    order().and_then(|line| serde_json::from_str(&line).ok()).unwrap_or_default()
}

fn borrowed(began: &[Vec<u64>], lent: &Lent) -> Borrowed {
    let began = began.get(lent.core).map_or(&[][..], |began| began);
    // The times are not sorted: two threads that interrupt each other can record their times in the wrong order.
    let first = began.iter().filter(|began| (lent.from..lent.until).contains(began)).min();
    let before = lent.from.saturating_sub(SHORTLY.as_nanos() as u64)..lent.from;
    Borrowed { began: first.copied(), shared: began.iter().any(|began| before.contains(began)) }
}
