//! The verb `comity cores`: the number of cores that a program started now would get.

use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use comity_console::loudness::{detail, hint};
use comity_console::{Failure, choices, output};
use comity_os::cpu_clock::ThreadId;
use comity_os::{affinity, cores, environment, quota};
use comity_table::{Life, Location, Snapshot};
use serde::Serialize;

use crate::weight;

const EXAMPLES: &str = "Examples:
  make -j$(comity cores)
  comity cores --weight 300
  comity cores --watch | while read -r n; do echo \"$n cores\"; done

The number is the minimum of:
  - the cores that this process may run on (taskset, cpuset)
  - the quota of its control group, rounded up
  - COMITY_NUM_THREADS, if it is set
  - the share, by weight, that the program would have in the core table,
    rounded up; cores that other programs leave are part of it
The number is at least 1. Without a usable table, or with COMITY_TABLE=off, the
share has no effect. The number is valid only at this moment. `comity run`
adapts its command continuously.

Exit codes: 0: a number was printed; 1: standard output cannot be written; 2:
invalid command line.";

/// The interval at which `--watch` looks at the core table.
const LOOK: Duration = Duration::from_millis(250);

/// Print the number of cores that a program started now would get
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Print a line with the new number whenever it changes
    #[arg(long)]
    watch: bool,
    /// Weight of the program relative to other programs, 1 to 10000 [default: COMITY_WEIGHT, or the weight of its nice
    /// value, which is 100 for nice 0]
    #[arg(long, value_name = "W", value_parser = weight::range(), allow_negative_numbers = true)]
    weight: Option<u32>,
    /// Print JSON, one object per line (schema comity-cores/1)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let weight = weight::chosen(arguments.weight)?;
    let location = Location::from_environment();
    detail(|| {
        let weight = format!("weight: {weight} ({})", weight::chosen_by(arguments.weight));
        format!("comity: {}\ncomity: {}\ncomity: {weight}", choices::table(), choices::cores())
    });
    let (mut last, mut said): (Option<CoresReport>, Option<String>) = (None, None);
    loop {
        let (snapshot, trouble) = match location.as_ref().map(Snapshot::take).transpose() {
            Ok(snapshot) => (snapshot.flatten(), None),
            Err(error) => (None, Some(error.to_string())),
        };
        // A number is printed even without the table, because `make -j` needs one.
        if let Some(why) = &trouble
            && said != trouble
        {
            hint(format!("comity: {why}. The number is computed without the table."));
        }
        said = trouble;
        let path = location.as_ref().filter(|_| said.is_none()).map(|location| location.path().display().to_string());
        let report = count(weight, snapshot.as_ref(), path);
        let is_new =
            last.as_ref().is_none_or(|last| if arguments.json { *last != report } else { last.cores != report.cores });
        if is_new {
            let text = if arguments.json { output::to_json_line(&report) } else { format!("{}\n", report.cores) };
            output::print_while_read(&text)?;
            last = Some(report);
        }
        if !arguments.watch {
            return Ok(());
        }
        sleep(LOOK);
    }
}

/// Returns the limit that `comity run --cores` or the user has set on the number of threads.
fn limit() -> Option<u32> {
    environment::variable("COMITY_NUM_THREADS")?.to_str()?.parse().ok().filter(|number| *number > 0)
}

fn count(weight: u32, snapshot: Option<&Snapshot>, table: Option<String>) -> CoresReport {
    let may_use = affinity::of(ThreadId::current());
    let usable = u32::try_from(cores::usable_of(may_use.len()).get()).unwrap_or(u32::MAX);
    let usable = limit().map_or(usable, |limit| usable.min(limit));
    let milli = snapshot.map_or(usable * 1000, |snapshot| snapshot.entitled(weight, usable, may_use));
    let programs =
        snapshot.map_or(0, |snapshot| snapshot.programs.iter().filter(|program| program.life != Life::Dead).count());
    CoresReport {
        schema: "comity-cores/1",
        cores: milli.div_ceil(1000).clamp(1, usable.max(1)),
        share: f64::from(milli) / 1000.0,
        usable,
        allowed_cores: may_use.len(),
        quota_cores: quota::cores(),
        weight,
        table,
        programs,
    }
}

/// `comity-cores/1`: the cores that a program started now would get.
#[derive(Debug, PartialEq, Serialize)]
struct CoresReport {
    /// `comity-cores/1`.
    schema: &'static str,
    /// The number of cores, `share` rounded up, at least 1.
    cores: u32,
    /// The share that the program would be entitled to, in cores. Programs take turns on fractions of a core.
    share: f64,
    /// The number of cores that affinity and cgroup quota allow the program, independent of other programs.
    usable: u32,
    /// The number of cores that the program's affinity allows.
    allowed_cores: usize,
    /// The processor time that the tightest cgroup quota grants, in cores.
    quota_cores: Option<f64>,
    /// The weight that the program would have.
    weight: u32,
    /// The path of the table. `null` if `COMITY_TABLE` is `off` or the table cannot be used.
    table: Option<String>,
    /// The number of living programs in the table.
    programs: usize,
}
