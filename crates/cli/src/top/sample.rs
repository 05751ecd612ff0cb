//! The result of a look at the core table: the table as it is, and the changes since earlier looks.

use std::array;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use comity_os::clock::now_ns;
use comity_table::{Life, Location, Program, Request, Shortfall, Snapshot, Thieves, Way};
use serde::Serialize;

use crate::table::{Refused, as_key};
use crate::{label, set};

/// A request that a key sends to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramRequest {
    /// The slot of the program.
    pub slot: usize,
    /// The process of the program.
    pub pid: u32,
    /// The request.
    pub request: Request,
}

/// The time over which rates are measured. A coordinator publishes its program's use only when it looks at the table,
/// and some coordinators look rarely. Therefore the time is long.
const WINDOW: Duration = Duration::from_secs(1);

/// A watcher that looks at the table repeatedly.
pub struct Watch {
    location: Option<Location>,
    /// The counts of each program at earlier looks. The key is the program's slot and the number of the program.
    counts: HashMap<(usize, u64), VecDeque<Counts>>,
}

#[derive(Clone, Copy)]
struct Counts {
    at: Instant,
    cpu: Option<Duration>,
    due: Option<Duration>,
    switches: Option<u64>,
    lost: u64,
    thieves: Option<Thieves>,
}

/// The JSON schema `comity-top/1`: the table at a look. Times are in seconds.
#[derive(Debug, Default, Serialize)]
pub struct Sample {
    /// The name of the schema, `comity-top/1`.
    pub schema: &'static str,
    /// The path that the table has or would have. `null` if `COMITY_TABLE` is `off`.
    pub table: Option<String>,
    /// The reason why the table cannot be read.
    pub trouble: Option<String>,
    /// The cores that at least one program of the table may use.
    pub cores: Vec<Core>,
    /// The programs, by slot.
    pub programs: Vec<Row>,
}

/// A core.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Core {
    /// The kernel's number of the core.
    pub id: usize,
    /// The slot of the program that is entitled to the core.
    pub owner: Option<usize>,
    /// The slot of the program that uses the core.
    pub holder: Option<usize>,
}

/// A program.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The number of the program's slot (its entry in the core table).
    pub slot: usize,
    /// The process's number in its own PID namespace.
    pub pid: u32,
    /// The name that the program gives itself.
    pub name: String,
    /// The program and its arguments, as in `comity table --json`.
    pub command: Option<String>,
    /// The current folder of the command, as in `comity table --json`.
    pub folder: Option<String>,
    /// The policy by which the program shares cores; `run` for a command of `comity run`.
    pub policy: String,
    /// The way in which a command is limited to its share, as in `comity table --json`.
    pub way: Option<&'static str>,
    /// The weight.
    pub weight: u32,
    /// The state: `living`, `stopped` or `dead`.
    pub life: &'static str,
    /// The desire: the number of cores that the program could use now. 0 without work, and while it shares time.
    pub desire: u32,
    /// The number of cores that the program holds.
    pub held: usize,
    /// The number of cores that the program is entitled to.
    pub owned: usize,
    /// The desire minus the number of held cores, at least 0.
    pub waits: u32,
    /// The number of the program's own cores that other programs hold.
    pub lends: usize,
    /// The number of workers, or of threads of a command, that are awake.
    pub awake: u32,
    /// The processor time that the program uses, in cores. `null` if the program does not publish it, and at the
    /// first look.
    pub cpu: Option<f64>,
    /// The processor time that the program is due, in cores: its share while it holds cores together with other
    /// programs, and its use otherwise. `null` if `cpu` is `null`, and for an older build.
    pub due: Option<f64>,
    /// The processor time that the program is due and does not get, in cores: `due - cpu`, at least 0. `null` if
    /// `cpu` or `due` is `null`.
    pub owed: Option<f64>,
    /// The reason why the program used less than it held or was due, at its coordinator's last look: `tasks wait`
    /// (for each other, for input or for a lock), `no core` (for workers that rest while tasks are queued) or `few
    /// tasks`. `null` if the program used all of it, for a command, and for an older build.
    pub shortfall: Option<&'static str>,
    /// Context switches per second. `null` if `cpu` is `null`.
    pub switches_per_s: Option<f64>,
    /// The number of cores that their owners took back from the program, per second.
    pub lost_per_s: f64,
    /// The number of cores that their owners took back from the program since it joined.
    pub lost: u64,
    /// The number of tasks that workers of the program took from each other, per second. `null` at the first look,
    /// for a command, and for an older build.
    pub steals_per_s: Option<f64>,
    /// The number of times that a worker without a task gave the rest of its time slice to another worker, per
    /// second. `null` if `steals_per_s` is `null`.
    pub accelerations_per_s: Option<f64>,
    /// The number of times that a worker without a task did not give its time slice away, per second. `null` if
    /// `steals_per_s` is `null`.
    pub refused_per_s: Option<f64>,
    /// The most frequent reason for the refusals of `refused_per_s`. `null` if there were no refusals.
    #[serde(serialize_with = "as_key")]
    pub refused_for: Option<&'static str>,
    /// The number of tasks that workers of the program took from each other since its first pool began. `null` for a
    /// command, and for an older build.
    pub steals: Option<u64>,
    /// The number of times that a worker without a task gave its time slice away. `null` if `steals` is `null`.
    pub accelerations: Option<u64>,
    /// The number of times that a worker without a task did not give its time slice away, by reason. `null` if
    /// `steals` is `null`.
    pub refused: Option<Refused>,
    /// The processor time since the program began, in seconds. `null` if the program does not publish it.
    pub cpu_s: Option<f64>,
    /// The rest of the requested pause, in seconds. `null` if the program is not paused.
    pub paused_s: Option<f64>,
    /// The requested weight. `null` if the program uses its own weight.
    pub asked_weight: Option<u32>,
    /// The requested maximum number of cores. `null` if the program uses its own maximum.
    pub asked_cores: Option<u32>,
}

impl Watch {
    /// Returns a watcher of the table at this location. `None` stands for no table.
    pub fn new(location: Option<Location>) -> Watch {
        Watch { location, counts: HashMap::new() }
    }

    /// Looks at the table once.
    pub fn look(&mut self) -> Sample {
        let taken = self.location.as_ref().map(Snapshot::take).transpose();
        let (snapshot, trouble) = match taken {
            Ok(snapshot) => (snapshot.flatten(), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let table = self.location.as_ref().map(|location| location.path().display().to_string());
        let mut sample = Sample { schema: "comity-top/1", table, trouble, ..Sample::default() };
        if let Some(snapshot) = snapshot {
            self.see(&snapshot, Instant::now(), &mut sample);
        }
        sample
    }

    /// Sends a request to a program. Returns the request in words, or the reason why the program did not get it.
    pub fn ask(&self, asked: ProgramRequest) -> Result<String, String> {
        let location = self.location.as_ref().ok_or("COMITY_TABLE is off")?;
        let snapshot = Snapshot::take(location).map_err(|error| error.to_string())?;
        let programs = snapshot.map_or(Vec::new(), |snapshot| snapshot.programs);
        let is_meant = |program: &&Program| program.slot.index() == asked.slot && program.pid == asked.pid;
        let program = programs.iter().find(is_meant).ok_or("the program has left the table")?;
        set::ask(location, program, &[asked.request])?;
        Ok(format!("{}: {}", program.name, set::in_words(&[asked.request])))
    }

    fn see(&mut self, snapshot: &Snapshot, now: Instant, sample: &mut Sample) {
        let key = |program: &Program| (program.slot.index(), program.program);
        self.counts.retain(|known, _| snapshot.programs.iter().any(|program| key(program) == *known));
        let lent = |slot: usize| {
            let own = snapshot.cores.iter().filter(|core| core.owner.is_some_and(|owner| owner.index() == slot));
            own.filter(|core| core.holder.is_some() && core.holder != core.owner).count()
        };
        sample.cores = snapshot
            .cores
            .iter()
            .map(|core| Core {
                id: core.id,
                owner: core.owner.map(|owner| owner.index()),
                holder: core.holder.map(|holder| holder.index()),
            })
            .collect();
        sample.programs = snapshot
            .programs
            .iter()
            .map(|program| {
                let counts = Counts {
                    at: now,
                    cpu: program.cpu,
                    due: program.due,
                    switches: program.switches.map(|switches| switches.iter().sum()),
                    lost: program.lost,
                    thieves: program.thieves,
                };
                let earlier = self.counts.entry(key(program)).or_default();
                // The rates are measured from the newest counts that are at least as old as the window. Older counts
                // are removed.
                while earlier.get(1).is_some_and(|second| now - second.at >= WINDOW) {
                    earlier.pop_front();
                }
                let then = earlier.front().copied();
                earlier.push_back(counts);
                row(program, lent(program.slot.index()), then, counts)
            })
            .collect();
    }
}

fn row(program: &Program, lends: usize, then: Option<Counts>, now: Counts) -> Row {
    let seconds = then.map_or(0.0, |then| (now.at - then.at).as_secs_f64());
    let rate = |difference: f64| if seconds > 0.0 { difference / seconds } else { 0.0 };
    let held = program.held.len();
    let cpu = then.and_then(|then| Some(rate(now.cpu?.saturating_sub(then.cpu?).as_secs_f64())));
    let due = then.and_then(|then| Some(rate(now.due?.saturating_sub(then.due?).as_secs_f64())));
    let since = then.and_then(|then| Some(done_since(then.thieves?, now.thieves?)));
    let most =
        since.and_then(|since| since.by_reason().filter(|(_, count)| *count > 0).max_by_key(|(_, count)| *count));
    let asked = program.requests.unwrap_or_default();
    let left = |until: u64| until.saturating_sub(now_ns()) as f64 / 1e9;
    let words = label::words_of(program);
    Row {
        slot: program.slot.index(),
        pid: program.pid,
        name: program.name.clone(),
        command: words.as_ref().map(|words| words.command.clone()),
        folder: words.map(|words| words.folder),
        policy: program.policy.clone(),
        way: program.way.map(Way::name),
        weight: program.weight,
        life: match program.life {
            Life::Living => "living",
            Life::Stopped => "stopped",
            Life::Dead => "dead",
        },
        desire: program.desire,
        held,
        owned: program.owned.len(),
        waits: program.desire.saturating_sub(held as u32),
        lends,
        awake: program.awake,
        cpu,
        due,
        owed: due.zip(cpu).map(|(due, cpu)| (due - cpu).max(0.0)),
        shortfall: program.shortfall.map(|reason| match reason {
            Shortfall::TasksWait => "tasks wait",
            Shortfall::WorkersWait => "no core",
            Shortfall::FewTasks => "few tasks",
        }),
        switches_per_s: then.and_then(|then| Some(rate(now.switches?.saturating_sub(then.switches?) as f64))),
        lost_per_s: then.map_or(0.0, |then| rate(now.lost.saturating_sub(then.lost) as f64)),
        lost: program.lost,
        steals_per_s: since.map(|since| rate(since.steals as f64)),
        accelerations_per_s: since.map(|since| rate(since.accelerations as f64)),
        refused_per_s: since.map(|since| rate(since.refused() as f64)),
        refused_for: most.map(|(reason, _)| reason),
        steals: program.thieves.map(|thieves| thieves.steals),
        accelerations: program.thieves.map(|thieves| thieves.accelerations),
        refused: program.thieves.map(Refused),
        cpu_s: program.cpu.map(|cpu| cpu.as_secs_f64()),
        paused_s: asked.paused_until.map(left),
        asked_weight: asked.weight,
        asked_cores: asked.cores,
    }
}

/// Returns the difference between the counts of thieves at two looks.
fn done_since(then: Thieves, now: Thieves) -> Thieves {
    Thieves {
        steals: now.steals.saturating_sub(then.steals),
        accelerations: now.accelerations.saturating_sub(then.accelerations),
        refusals: array::from_fn(|nth| now.refusals[nth].saturating_sub(then.refusals[nth])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use comity_table::{CoreSet, SlotId};

    fn program(number: u64, cpu_ms: u64, lost: u64) -> Program {
        Program {
            slot: SlotId::new(0).unwrap(),
            program: number,
            pid: 1,
            name: "one".to_owned(),
            policy: "run".to_owned(),
            weight: 100,
            desire: 3,
            workers: 4,
            awake: 2,
            life: Life::Living,
            silent: false,
            age: Duration::ZERO,
            may_use: [0, 1].into_iter().collect(),
            owned: CoreSet::EMPTY,
            held: [0].into_iter().collect(),
            claimed: 0,
            taken_back: 0,
            released: 0,
            lost,
            cpu: Some(Duration::from_millis(cpu_ms)),
            proposal: None,
            takes_turns: true,
            way: None,
            due: Some(Duration::from_millis(2 * cpu_ms)),
            switches: None,
            thieves: None,
            shortfall: None,
            requests: None,
            tenure: None,
        }
    }

    fn seen(watch: &mut Watch, program: Program, at: Instant) -> Row {
        let mut sample = Sample::default();
        watch.see(&Snapshot { programs: vec![program], cores: Vec::new() }, at, &mut sample);
        sample.programs.remove(0)
    }

    #[test]
    fn rates_are_over_the_last_second_and_of_one_program() {
        let (mut watch, start) = (Watch::new(None), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(seen(&mut watch, program(7, 1000, 5), at(0)).cpu, None);
        let row = seen(&mut watch, program(7, 1500, 6), at(500));
        assert_eq!((row.cpu, row.lost_per_s, row.waits), (Some(1.0), 2.0, 2));
        assert_eq!((row.due, row.owed), (Some(2.0), Some(1.0)));
        assert_eq!(seen(&mut watch, program(7, 1500, 6), at(1000)).cpu, Some(0.5));
        assert_eq!(seen(&mut watch, program(7, 3500, 6), at(1500)).cpu, Some(2.0));
        // A new program in the same slot has no rate at its first look, whatever it publishes.
        assert_eq!(seen(&mut watch, program(8, 9000, 0), at(2000)).cpu, None);
        assert_eq!(watch.counts.len(), 1);
    }

    #[test]
    fn thieves_are_counted_where_they_are_published_and_the_reason_is_that_of_the_last_second() {
        let (mut watch, start) = (Watch::new(None), Instant::now());
        let mut look = |thieves, ms| {
            let program = Program { thieves, ..program(7, 0, 0) };
            seen(&mut watch, program, start + Duration::from_millis(ms))
        };
        let row = look(None, 0);
        assert!(row.steals.is_none() && row.refused.is_none() && row.steals_per_s.is_none());
        let done = |steals, running, other_node| {
            let refusals = [0, running, 0, 0, 0, 0, other_node, 0, 0];
            Some(Thieves { steals, accelerations: 2 * steals, refusals })
        };
        let row = look(done(10, 90, 1), 500);
        assert_eq!(
            (row.steals, row.accelerations, row.steals_per_s, row.refused_for),
            (Some(10), Some(20), None, None)
        );
        let row = look(done(15, 90, 3), 1500);
        assert_eq!((row.steals_per_s, row.accelerations_per_s, row.refused_per_s), (Some(5.0), Some(10.0), Some(2.0)));
        assert_eq!(row.refused_for, Some("other node"));
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json["refused_for"], "other_node", "one of the keys of `refused`");
        assert_eq!((&json["refused"]["running"], &json["refused"]["no_hypervisor"]), (&90.into(), &0.into()));
    }
}
