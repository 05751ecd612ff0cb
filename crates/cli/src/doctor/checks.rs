//! The checks of `comity doctor`, one function per check.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use comity_os::cpu_clock::ThreadId;
use comity_os::steal_time::Stat;
use comity_os::{Capabilities, CoreSet, affinity, census, cores, environment, freezer, quota};
use comity_policy::Policy;
use comity_protocol::steal_time::Reading;
use comity_table::{CORES, Life, Location, Snapshot, other_layouts};

use super::{DoctorCheck, Verdict, measure};
use crate::weight;

/// The maximum number of workers of a pool, which equals the runtime's `MAX_THREADS`.
const MOST_WORKERS: usize = 65_535;

/// Runs all checks, in the order in which they are reported.
pub fn all() -> Vec<DoctorCheck> {
    let found = Capabilities::detect();
    let mut checks = vec![processes(), usable_cores(), limit(), stolen(), table(), variables()];
    checks.extend(outside_load());
    checks.extend([
        task_group(found.autogroup),
        turns(),
        service(
            "membarrier",
            found.membarrier,
            ["a worker that goes to sleep sees every new task", "sleeping workers look for tasks every millisecond"],
            "allow the system call membarrier in the sandbox",
        ),
        service(
            "cpu clock",
            found.thread_cpu_clock,
            ["a worker can see whether a peer is on a core", "workers do not notice that a peer has lost its core"],
            "allow the system call clock_gettime for other threads in the sandbox",
        ),
        wake_up(),
        slice(),
        preemption(),
        acceleration(&cores::allowed(), may_be_pulled),
    ]);
    checks
}

/// Checks that `/proc` shows the processes of this PID namespace, which `comity run` needs to share cores.
fn processes() -> DoctorCheck {
    let without = "`comity run` runs commands without sharing cores; the other checks may be incomplete";
    match (census::is_mounted(), census::is_of_this_namespace()) {
        (true, true) => check("processes", "/proc is mounted", "`comity run` finds the processes of a command"),
        (true, false) => check("processes", "/proc belongs to another PID namespace", without)
            .costs("mount the namespace's own: `unshare --mount-proc`, or `mount -t proc proc /proc`"),
        (false, _) => check("processes", "/proc is not mounted", without).costs("mount it: `mount -t proc proc /proc`"),
    }
}

/// Returns the result of a check that needs `/proc`, if `/proc` is not mounted.
fn untold(name: &'static str) -> DoctorCheck {
    check(name, "unknown: /proc is not mounted", "this check reads /proc")
}

fn check(name: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> DoctorCheck {
    DoctorCheck { name, verdict: Verdict::Ok, found: found.into(), meaning: meaning.into(), change: None }
}

impl DoctorCheck {
    fn costs(self, change: impl Into<String>) -> DoctorCheck {
        DoctorCheck { verdict: Verdict::Costs, change: Some(change.into()), ..self }
    }

    fn bad(self, change: impl Into<String>) -> DoctorCheck {
        DoctorCheck { verdict: Verdict::Bad, change: Some(change.into()), ..self }
    }
}

fn usable_cores() -> DoctorCheck {
    let (usable, allowed) = (cores::usable().get(), cores::allowed());
    let ids: Vec<String> = allowed.iter().map(|core| core.id.to_string()).collect();
    let found = format!("{usable} usable; the affinity mask allows {}", ids.join(", "));
    match usable {
        1 => check("cores", found, "programs take turns on one core")
            .costs("widen the affinity (taskset, cpuset) or the quota, if the machine has more cores"),
        _ => check("cores", found, "one program uses all cores; several programs share them"),
    }
}

fn limit() -> DoctorCheck {
    let allowed = cores::allowed().len();
    match quota::cores() {
        Some(cores) if cores < allowed as f64 => check(
            "quota",
            format!("processor time of {cores:.2} cores, on {allowed} cores"),
            "when the quota is used up, all threads stop for the rest of the period",
        )
        .costs("raise cpu.max of the control group, or give the group fewer cores (cpuset)"),
        Some(cores) => check("quota", format!("processor time of {cores:.2} cores"), "it limits no program here"),
        None if !census::is_mounted() => untold("quota"),
        None => check("quota", "none", "no control group limits the processor time"),
    }
}

/// Checks the steal time: the time that a host has taken from this process's cores since the machine was started.
fn stolen() -> DoctorCheck {
    /// The warning threshold, in per cent of the requested time.
    const MUCH: f64 = 5.0;
    let Some(Reading { run_ns, steal_ns }) = since_the_start() else {
        return check("steal time", "unknown: /proc/stat cannot be read", "programs do not adapt to it");
    };
    if steal_ns == 0 {
        return check(
            "steal time",
            "none since the machine started",
            "no host takes cores away, or the host does not report it",
        );
    }
    let part = 100.0 * steal_ns as f64 / (run_ns as f64 + steal_ns as f64);
    let found = format!("{part:.1} % of the requested time since the machine started");
    let meaning =
        "a host takes cores away; while it takes much, the policy `comity` uses fewer workers if that loses nothing";
    let stolen = check("steal time", found, meaning);
    if part > MUCH {
        stolen.costs("give the virtual machine fewer virtual CPUs, or run fewer machines on the host")
    } else {
        stolen
    }
}

fn table() -> DoctorCheck {
    let Some(location) = Location::to_look_at() else {
        return check("core table", "COMITY_TABLE is off", "programs that are started here share no cores")
            .costs("unset COMITY_TABLE to share cores");
    };
    let path = location.path();
    let found = match Snapshot::take(&location) {
        Err(error) => {
            return check("core table", error.to_string(), "programs that are started here share no cores")
                .bad("set COMITY_TABLE to another file, or see `comity table --help`");
        }
        Ok(Some(snapshot)) => {
            let number = snapshot.programs.iter().filter(|program| program.life != Life::Dead).count();
            let plural = if number == 1 { "" } else { "s" };
            format!("'{}', {number} program{plural}", path.display())
        }
        Ok(None) => {
            // Comity creates the user's own folder together with the table.
            let folder = match location {
                Location::Own => Path::new("/dev/shm"),
                Location::At(_) => path.parent().unwrap_or(Path::new("/")),
            };
            if let Err(error) = tempfile::tempfile_in(folder) {
                let found = format!("none, and it cannot be created in '{}': {error}", folder.display());
                return check("core table", found, "programs that are started here share no cores")
                    .bad("set COMITY_TABLE to a file in a folder that you may write to");
            }
            format!("none yet; the first program creates '{}'", path.display())
        }
    };
    let meaning = match Location::around() {
        Some(_) => "this is inside a command of `comity run`; programs that are started here share its cores",
        None => "programs that are started here use it to share cores",
    };
    let usable = check("core table", found, meaning);
    match other_layouts(&location).first() {
        Some(other) => usable.costs(format!("{other}. Build all programs with one version of Comity")),
        None => usable,
    }
}

/// True if the file begins like a trace. The runtime overwrites an existing file only if it is a trace.
fn begins_as_a_trace(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(64).read_to_end(&mut beginning));
    read.is_ok() && beginning.starts_with(b"[\n{\"name\":\"comity_trace\"")
}

/// Checks Comity's environment variables for values that a program would refuse.
fn variables() -> DoctorCheck {
    let text = |name| environment::variable(name).map(|text| text.to_string_lossy().into_owned());
    let number = |name, least: f64, most: f64, what: &str| {
        let text = text(name)?;
        let fits = text.parse().is_ok_and(|number: f64| (least..=most).contains(&number));
        (!fits).then(|| format!("{name}={text} is not {what}"))
    };
    let is_off = text("COMITY").is_some_and(environment::is_off);
    // If `COMITY` is off, programs do not read `COMITY_POLICY`.
    let policy = || {
        text("COMITY_POLICY")
            .filter(|_| !is_off)?
            .parse::<Policy>()
            .err()
            .map(|error| format!("COMITY_POLICY: {error}"))
    };
    let switch = || {
        let is_known = |text: &str| text.eq_ignore_ascii_case("on") || environment::is_off(text);
        let text = text("COMITY").filter(|text| !is_known(text))?;
        Some(format!("COMITY={text} is neither on nor off"))
    };
    let workers = || {
        let text = text("COMITY_NUM_THREADS")?;
        let fits = text.parse().is_ok_and(|number: usize| (1..=MOST_WORKERS).contains(&number));
        (!fits).then(|| format!("COMITY_NUM_THREADS={text} is not a whole number from 1 to {MOST_WORKERS}"))
    };
    let cores = || {
        let text = text("COMITY_CORES")?;
        let fits = text.parse().is_ok_and(|number: usize| (1..=CORES).contains(&number));
        (!fits).then(|| format!("COMITY_CORES={text} is not a whole number from 1 to {CORES}"))
    };
    let trace = || {
        let path = PathBuf::from(environment::variable("COMITY_TRACE").filter(|path| !environment::is_off(path))?);
        let says = |what: &str| Some(format!("COMITY_TRACE={}: {what}", path.display()));
        match path.metadata() {
            Ok(found) if !found.is_file() => says("this is not a regular file"),
            Ok(found) if found.len() > 0 && !begins_as_a_trace(&path) => says("this file exists and is not a trace"),
            Ok(_) => None,
            // `%p` stands for the number of the process, so the folder of such a path cannot be checked in advance.
            Err(_) if path.to_string_lossy().contains("%p") => None,
            Err(_) if path.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) => {
                says("its folder does not exist")
            }
            Err(_) => None,
        }
    };
    let wrong: Vec<String> = [
        switch(),
        policy(),
        workers(),
        weight::chosen(None).err().map(comity_console::Failure::into_sentence),
        cores(),
        number("COMITY_WATCH", 0.1, f64::MAX, "a number of seconds (minimum 0.1)"),
        trace(),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !wrong.is_empty() {
        return check(
            "environment",
            wrong.join("; "),
            "a global pool panics with this message; under rayon's interface it uses the default value",
        )
        .bad("correct the variable, or unset it");
    }
    let policy = text("COMITY_POLICY").unwrap_or_else(|| Policy::default().to_string());
    if is_off {
        return check("environment", "COMITY=off", "programs do plain work stealing and share no cores")
            .costs("unset COMITY to share cores");
    }
    check("environment", format!("policy {policy}"), "all variables of Comity that are set are valid")
}

/// Checks the processor time on this process's cores that programs outside of the table used. Returns `None` if the
/// kernel does not report processor time.
fn outside_load() -> Option<DoctorCheck> {
    const WATCHED: Duration = Duration::from_secs(1);
    /// The warning threshold, in cores.
    const MUCH: f64 = 0.25;
    /// The maximum delay after which the table shows a member's use.
    const LATE: Duration = Duration::from_millis(250);
    let members = || {
        let snapshot = Location::to_look_at().and_then(|location| Snapshot::take(&location).ok().flatten());
        let programs = snapshot.into_iter().flat_map(|snapshot| snapshot.programs);
        programs.filter_map(|program| Some(((program.slot, program.pid), program.cpu?))).collect::<Vec<_>>()
    };
    let (busy, before, began) = (busy_s()?, members(), Instant::now());
    thread::sleep(WATCHED);
    let busy = busy_s()? - busy;
    let elapsed = began.elapsed();
    let since = members().into_iter().filter_map(|(member, cpu)| {
        let (_, earlier) = before.iter().find(|(other, _)| *other == member)?;
        Some(cpu.saturating_sub(*earlier))
    });
    let shared: Vec<f64> = since.map(|time| time.as_secs_f64()).collect();
    // During the delay, members may have used every core without having published it.
    let unknown = if shared.is_empty() { 0.0 } else { LATE.as_secs_f64() * cores::allowed().len() as f64 };
    let outside = ((busy - shared.iter().sum::<f64>() - unknown) / elapsed.as_secs_f64()).max(0.0);
    let found = format!("processor time of {outside:.1} cores, on the allowed cores");
    Some(if outside > MUCH {
        check("outside load", found, "programs outside of the table use this time; the kernel divides it by threads")
            .costs("start these programs with `comity run`")
    } else {
        check("outside load", found, "programs outside of the table use almost no time")
    })
}

/// Returns the busy time of this process's cores since the machine was started, with a resolution of 10 ms. `None` if
/// it cannot be read.
fn busy_s() -> Option<f64> {
    Some(since_the_start()?.run_ns as f64 / 1e9)
}

fn since_the_start() -> Option<Reading> {
    Stat::open()?.read(cores::allowed().into_iter().map(|core| core.id).collect())
}

fn task_group(autogroup: bool) -> DoctorCheck {
    if !census::is_mounted() {
        untold("task group")
    } else if let Some(group) = comity_os::task_group::control_group() {
        let meaning =
            "the kernel divides time by control groups, and within a group by threads; sessions have no effect";
        check("task group", format!("the control group '{}'", group.display()), meaning)
    } else if autogroup {
        let meaning = "the kernel divides time by sessions, and within a session by threads";
        check("task group", "autogroup is on: each session is a task group", meaning)
    } else {
        check("task group", "autogroup is off", "the kernel divides time by threads; sessions have no effect")
    }
}

/// Checks how `comity run` halts a command that is out of turn, while programs take turns on the cores.
fn turns() -> DoctorCheck {
    let ptrace_scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let is_hidden = ptrace_scope.is_ok_and(|scope| scope.trim() != "0");
    let found = "`comity run` cannot make a control group of version 2";
    if !census::is_mounted() {
        untold("turns")
    } else if freezer::can_freeze() {
        let meaning = "outside its turn a command is frozen; no process notices";
        check("turns", "`comity run` can make a control group of version 2", meaning)
    } else if is_hidden {
        let change = "delegate a control group of version 2, or set kernel.yama.ptrace_scope to 0";
        check(
            "turns",
            format!("{found}, and Yama hides what parents wait for"),
            "commands are not stopped outside their turn",
        )
        .costs(change)
    } else {
        check("turns", found, "outside a command's turn, its processes are stopped if their parents cannot notice")
    }
}

fn service(name: &'static str, is_there: bool, [with, without]: [&str; 2], change: &str) -> DoctorCheck {
    if is_there { check(name, "available", with) } else { check(name, "refused by the kernel", without).costs(change) }
}

fn wake_up() -> DoctorCheck {
    /// The warning threshold: twice the time that a virtual machine took while its host was busy.
    const SLOW: Duration = Duration::from_micros(500);
    let taken = measure::wake_up();
    let found = format!("{} µs from the call until the thread runs, median of 50", taken.as_micros());
    let wake_up = check("wake-up", found, "a parallel phase that is not longer gains nothing from a second worker");
    if taken > SLOW {
        wake_up.costs("stop other programs; against deep idle states, try /dev/cpu_dma_latency or idle=poll")
    } else {
        wake_up
    }
}

fn slice() -> DoctorCheck {
    const LONG: Duration = Duration::from_millis(20);
    match measure::slice() {
        None => check("time slice", "unknown: no thread lost its core", "the time slice could not be measured"),
        Some(slice) => {
            let found = format!("{:.1} ms with two threads on a core, median", slice.as_secs_f64() * 1e3);
            let slice_check = check("time slice", found, "a worker that loses its core waits about this long for it");
            if slice > LONG {
                slice_check
                    .costs("lower /sys/kernel/debug/sched/base_slice_ns, or run fewer programs outside of the table")
            } else {
                slice_check
            }
        }
    }
}

fn preemption() -> DoctorCheck {
    // The file lists all modes, with the active one in parentheses.
    let modes = fs::read_to_string("/sys/kernel/debug/sched/preempt").ok();
    let mode = modes.as_deref().and_then(|modes| modes.split_once('(')?.1.split_once(')')).map(|(mode, _)| mode);
    match mode {
        Some(mode) => check("preemption", mode, "decides when a waking thread takes the core of a running thread"),
        None => check("preemption", "unknown: it cannot be read without privileges", "Comity does not depend on it"),
    }
}

/// Checks acceleration: how a thief (a worker without a task) can get a worker that is off its core onto a core.
/// `may_be_pulled` returns true if another thread can be moved to a core.
fn acceleration(allowed: &[cores::Core], may_be_pulled: impl FnOnce(usize) -> bool) -> DoctorCheck {
    let name = "acceleration";
    let [_, .., last] = allowed else {
        let meaning = "a thief yields to a preempted worker, which waits for the same core";
        return check(name, "one core: there is no other core to pull a thread to", meaning);
    };
    let meaning = |then: &str| format!("if a policy accelerates (bws, robinhood, comity:accelerate=pull), {then}");
    if !may_be_pulled(last.id) {
        let found = "refused by the kernel: no thread may be pulled to another core";
        return check(name, found, meaning("a thief yields, and a preempted worker waits for its own core"))
            .costs("allow the system call sched_setaffinity for other threads in the sandbox");
    }
    let found = "a thread may be pulled to another core";
    let pulls = "a thief pulls a preempted worker to its own core";
    match BTreeSet::from_iter(allowed.iter().map(|core| core.node)).len() {
        1 => check(name, found, meaning(pulls)),
        nodes if nodes == allowed.len() => check(
            name,
            format!("{found}, but each core is in a different NUMA node"),
            meaning("a thief yields; under bws and robinhood-u it pulls a preempted worker across nodes"),
        ),
        nodes => check(
            name,
            format!("{found}; there are {nodes} NUMA nodes"),
            meaning(&format!(
                "{pulls} within a node, and otherwise yields; under bws and robinhood-u it pulls across nodes"
            )),
        ),
    }
}

/// True if another thread can be confined to the core `to`, as a thief would do. Restores the thread's affinity. The
/// mask is read back, because a sandbox may let the call succeed without an effect.
fn may_be_pulled(to: usize) -> bool {
    thread::scope(|scope| {
        let (tells, told) = mpsc::channel();
        // The thread ends when this sender is dropped.
        let (_stay, stays) = mpsc::channel::<()>();
        scope.spawn(move || tells.send(ThreadId::current()).is_ok_and(|()| stays.recv().is_ok()));
        let Ok(thread) = told.recv() else { return false };
        let (before, narrow) = (affinity::of(thread), CoreSet::from_iter([to]));
        affinity::confine(thread, narrow) && affinity::of(thread) == narrow && affinity::confine(thread, before)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_takes_as_many_workers() {
        assert_eq!(MOST_WORKERS, comity::MAX_THREADS);
    }

    #[test]
    fn what_may_be_pulled_where_is_told_by_nodes() {
        let on = |nodes: &[usize], is_permitted| {
            let cores = nodes.iter().enumerate().map(|(id, node)| cores::Core { id, package: 0, node: *node });
            let check = acceleration(&cores.collect::<Vec<_>>(), |_| is_permitted);
            (check.verdict, format!("{}; {}", check.found, check.meaning))
        };
        for (nodes, is_permitted, verdict, part) in [
            (&[0][..], false, Verdict::Ok, "one core"),
            (&[0, 0], true, Verdict::Ok, "a thief pulls a preempted worker to its own core"),
            (&[0, 0, 1, 1], true, Verdict::Ok, "there are 2 NUMA nodes"),
            (&[0, 0, 1, 1], true, Verdict::Ok, "to its own core within a node"),
            (
                &[0, 1],
                true,
                Verdict::Ok,
                "different NUMA node; if a policy accelerates (bws, robinhood, comity:accelerate=pull), a thief yields",
            ),
            (&[0, 0], false, Verdict::Costs, "refused by the kernel"),
        ] {
            let (found, text) = on(nodes, is_permitted);
            assert!(found == verdict && text.contains(part), "{nodes:?}: {text}");
        }
    }

    #[test]
    fn busy_time_grows_and_never_shrinks() {
        let Some(first) = busy_s() else {
            println!("skipped: /proc/stat cannot be read");
            return;
        };
        assert!(first > 0.0 && busy_s().unwrap() >= first);
    }
}
