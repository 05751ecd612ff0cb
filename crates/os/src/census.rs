//! The processes and threads of the machine, as `/proc` shows them.
//!
//! Listing takes 1 µs per process. Reading the line of a process takes 4 to 6 µs, because the kernel formats it at each
//! read.

use std::fs::{self, File};
use std::io::Read;
use std::iter;
use std::path::Path;
use std::time::Duration;

use crate::files::Owner;
use crate::system::calls::Clock;

/// The maximum number of steps on the way from a process to its ancestors.
const MOST_ANCESTORS: usize = 1000;

/// The state of a process, or of a thread of a process, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The parent process: the process that started this process, or adopted it when its parent ended.
    pub parent: u32,
    /// The state. R: on a core or waiting for one. S, D: asleep. T, t: stopped. Z, X: ended.
    pub state: char,
    /// The process group.
    pub group: u32,
    /// The session: the number of the process that created it.
    pub session: u32,
    /// The terminal of its session, or 0.
    pub terminal: i32,
    /// The number of threads of the process.
    pub threads: u32,
    /// The start time, in ticks since the machine started. A reused process number has another start time.
    pub start: u64,
    /// The core on which the process or thread ran last.
    pub core: usize,
    /// The nice value, −20 to 19. The nice value of a process is that of its first thread.
    pub nice: i32,
    /// True if the scheduling class is `SCHED_IDLE`.
    pub is_idle_class: bool,
}

impl Stat {
    /// True if a shell with job control started the process as a job: in its own process group, in a session with a
    /// terminal.
    pub fn is_job(&self) -> bool {
        self.terminal != 0 && Stat::of_process(self.parent).is_some_and(|parent| parent.group != self.group)
    }

    /// Reads the state of a process, which is the state of its first thread. `None` if no process has this number.
    pub fn of_process(process: u32) -> Option<Stat> {
        Stat::read(&format!("/proc/{process}/stat"))
    }

    /// Reads the state of a thread of a process.
    pub fn of_thread(process: u32, thread: u32) -> Option<Stat> {
        Stat::read(&format!("/proc/{process}/task/{thread}/stat"))
    }

    fn read(path: &str) -> Option<Stat> {
        let mut line = [0; LINE];
        Stat::parse(read_line(path, &mut line)?)
    }

    /// Parses `id (name) state parent group session terminal …`. The name may contain spaces and brackets. The nice
    /// value is field 19, the number of threads 20, the start 22, the core 39, the scheduling class 41.
    fn parse(line: &[u8]) -> Option<Stat> {
        let end_of_name = line.iter().rposition(|byte| *byte == b')')?;
        let mut fields = str::from_utf8(&line[end_of_name + 1..]).ok()?.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut number = |skipped: usize| fields.nth(skipped)?.parse::<i64>().ok();
        let small = |number: i64| u32::try_from(number).ok();
        let (parent, group) = (small(number(0)?)?, small(number(0)?)?);
        let (session, terminal) = (small(number(0)?)?, number(0)? as i32);
        let nice = number(11)?.try_into().ok()?;
        let (threads, start) = (small(number(0)?)?, number(1)?.try_into().ok()?);
        let core = number(16)?.try_into().ok()?;
        // 5 is `SCHED_IDLE` in `sched.h`.
        let is_idle_class = number(1) == Some(5);
        Some(Stat { state, parent, group, session, terminal, threads, start, core, nice, is_idle_class })
    }
}

/// The size of a buffer that holds any line that is read here.
pub(crate) const LINE: usize = 1024;

/// Reads a line with one system call, because each call takes time.
pub(crate) fn read_line<'a>(path: &str, line: &'a mut [u8; LINE]) -> Option<&'a [u8]> {
    let length = File::open(path).ok()?.read(line).ok()?;
    Some(&line[..length])
}

/// Returns the current time in the unit of [`Stat::start`].
pub fn now() -> u64 {
    let now = Clock::SINCE_BOOT.read().unwrap_or_default();
    // `/proc` counts 100 ticks a second on every machine, independent of the kernel's own tick.
    now.as_secs() * 100 + u64::from(now.subsec_nanos()) / 10_000_000
}

/// Returns the time that a thread has waited for a core since it began, excluding a wait that still lasts. `None` if
/// the thread has ended, or if the kernel does not count this time (CONFIG_SCHED_INFO).
pub fn waited_for_core(process: u32, thread: u32) -> Option<Duration> {
    let mut line = [0; LINE];
    let line = read_line(&format!("/proc/{process}/task/{thread}/schedstat"), &mut line)?;
    let waited = str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?;
    Some(Duration::from_nanos(waited.parse().ok()?))
}

/// True if `/proc` is mounted and shows processes.
pub fn is_mounted() -> bool {
    fs::exists("/proc/self/stat").unwrap_or(false)
}

/// True if `/proc` shows the PID namespace of this process. If it shows another namespace, a process number from
/// `/proc` is the number of an unrelated process here.
pub fn is_of_this_namespace() -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return false };
    // The line has one number for each namespace, beginning with the namespace of `/proc`. Kernels without PID
    // namespaces do not write the line.
    status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))
        .is_none_or(|ids| ids.split_ascii_whitespace().count() == 1)
}

/// Returns a number that identifies this process. Each call in the process returns the same number. A forked child gets
/// another number, and so does, almost certainly, each other process of the machine. `None` if `/proc` does not show
/// this process.
pub fn number_of_this_process() -> Option<u64> {
    number(std::process::id(), &Stat::read("/proc/self/stat")?)
}

/// Returns the process in which [`number_of_this_process`] returns `wanted`. `None` if it has ended, or if it has
/// another PID namespace than this process. Takes 5 µs for each process of the machine.
pub fn process_with_number(wanted: u64) -> Option<u32> {
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let is_wanted = |process: &u32| {
        Stat::of_process(*process)
            .is_some_and(|stat| !matches!(stat.state, 'Z' | 'X') && number_in(&namespace, *process, &stat) == wanted)
    };
    processes().into_iter().find(is_wanted)
}

fn number(process: u32, stat: &Stat) -> Option<u64> {
    Some(number_in(&fs::read_link("/proc/self/ns/pid").ok()?, process, stat))
}

fn number_in(namespace: &Path, process: u32, stat: &Stat) -> u64 {
    let words = [u64::from(process), stat.start].map(u64::to_le_bytes);
    let bytes = namespace.as_os_str().as_encoded_bytes().iter().chain(words.as_flattened());
    // FNV-1a, so that programs built by different compilers compute the same number.
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the control groups of a process, in the kernel's format. `None` if the process has ended.
pub fn control_groups(process: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{process}/cgroup")).ok()
}

/// Returns all processes that this process may see.
pub fn processes() -> Vec<u32> {
    numbers_in("/proc")
}

/// True if a process has the PID namespace of this process. False if this process may not find out.
pub fn is_in_this_namespace(process: u32) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    namespace(&process.to_string()).is_some_and(|other| namespace("self") == Some(other))
}

/// Returns the kernel's name of a process, of at most 15 bytes: the file name of its program, unless the process has
/// changed it. Empty if the process has ended.
pub fn name(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim_end_matches('\n').to_owned()
}

/// Returns the effective user of a process, or `None` if the process has ended.
pub fn user(process: u32) -> Option<u32> {
    let metadata = fs::metadata(format!("/proc/{process}")).ok()?;
    Some(Owner::of(&metadata).user)
}

/// True if the program that a process runs has no more rights than the process that started it. False if it has more
/// rights (`AT_SECURE`), for example a set-user-id program. Also false if this cannot be found out.
pub fn has_rights_of_its_caller(process: u32) -> bool {
    /// The key of the flag in the auxiliary vector, as in `linux/auxvec.h`.
    const AT_SECURE: usize = 23;
    let vector = fs::read(format!("/proc/{process}/auxv")).unwrap_or_default();
    let words: Vec<usize> = vector
        .chunks_exact(size_of::<usize>())
        .map(|word| usize::from_ne_bytes(word.try_into().expect("a chunk has the size of a word")))
        .collect();
    words.chunks_exact(2).any(|entry| entry == [AT_SECURE, 0])
}

/// True if the program that a process runs was started with this `NAME=value` in its environment. False if this
/// process may not read the environment.
pub fn has_in_environment(process: u32, variable: &str) -> bool {
    environment(process).split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
}

/// Returns the value of the variable `name` in the environment with which the program of a process was started. `None`
/// if it is not set, is not UTF-8, or if this process may not read the environment.
pub fn variable_of(process: u32, name: &str) -> Option<String> {
    let environment = environment(process);
    let mut values =
        environment.split(|byte| *byte == 0).filter_map(|entry| str::from_utf8(entry).ok()?.split_once('='));
    values.find(|(other, _)| *other == name).map(|(_, value)| value.to_owned())
}

fn environment(process: u32) -> Vec<u8> {
    fs::read(format!("/proc/{process}/environ")).unwrap_or_default()
}

/// Returns the process itself and its ancestors, from the process on.
pub fn with_ancestors(process: u32) -> impl Iterator<Item = u32> {
    let parents = iter::successors(Some(process), |process| {
        Some(Stat::of_process(*process)?.parent).filter(|parent| *parent != 0)
    });
    // The number of a process that ends meanwhile may be given to a descendant.
    parents.take(MOST_ANCESTORS)
}

/// Returns the threads of a process. Empty if the process has ended.
pub fn threads(process: u32) -> Vec<u32> {
    numbers_in(&format!("/proc/{process}/task"))
}

/// Returns the processes that a thread of a process has started and that were not waited for. Empty if the kernel
/// does not keep this list (CONFIG_PROC_CHILDREN).
pub fn children(process: u32, thread: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// True if the process with this number that began at `start` has not ended. A process whose first thread has ended
/// lives until its other threads have ended.
pub fn lives(process: u32, start: u64) -> bool {
    match Stat::of_process(process) {
        Some(stat) if stat.start == start => !matches!(stat.state, 'Z' | 'X') || threads(process).len() > 1,
        _ => false,
    }
}

fn numbers_in(folder: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_clock::ThreadId;

    #[test]
    fn the_parent_and_the_start_are_found_behind_any_name() {
        let line = b"12 (a) b) (c) S 34 12 12 34816 -1 4194304 92 0 0 0 3 4 5 6 39 19 1 0 7654321 10 20 \
            30 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 5";
        let (nice, is_idle_class) = (19, true);
        let ids = Stat {
            parent: 34,
            group: 12,
            session: 12,
            terminal: 34_816,
            state: 'S',
            threads: 1,
            start: 7_654_321,
            core: 3,
            nice,
            is_idle_class,
        };
        assert_eq!(Stat::parse(line), Some(ids));
        assert_eq!(Stat::parse(b"12 (a"), None);
        assert_eq!(Stat::parse(b"12 (a) S"), None);
    }

    #[test]
    #[cfg_attr(comity_portable, ignore = "of Linux")]
    fn this_process_and_its_threads_are_found() {
        let me = std::process::id();
        let stat = Stat::of_process(me).unwrap();
        assert!(number_of_this_process().is_some() && number_of_this_process() == number_of_this_process());
        assert_eq!(number_of_this_process().and_then(process_with_number), Some(me));
        assert!(processes().contains(&me) && lives(me, stat.start) && !lives(me, stat.start + 1));
        std::thread::spawn(move || {
            let thread = ThreadId::current().as_raw() as u32;
            assert!(threads(me).contains(&thread) && thread != me);
            let stat = Stat::of_thread(me, thread).unwrap();
            assert!(stat.state == 'R' && stat.threads >= 2);
            assert_eq!(waited_for_core(me, thread).is_some(), ThreadId::current().times().is_some());
            assert_eq!(waited_for_core(me, u32::MAX), None);
        })
        .join()
        .unwrap();
    }
}
