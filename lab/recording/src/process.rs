//! The request to record this process, and the file that is written when the process ends.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use comity_graph::{About, Graph, Recorder};
use comity_os::at_exit::call_at_exit;
use comity_os::cpu_clock::{ThreadId, of_process};
use comity_os::environment::{is_off, variable};
use comity_os::lock;
use comity_os::writes::say;

use crate::costs::Costs;
use crate::place::{Place, numbered};
use crate::session;

/// The default merge length, in ns. Tasks of a fork that are shorter than the merge length are merged into one task as
/// soon as their total reaches it. The parent runs the remaining short tasks itself. A steal costs less than a tenth of
/// the default.
pub const MERGE_NS: u64 = 2_000;

/// The maximum time for which a program, at its end, waits for threads and tasks that still run.
const PATIENCE: Duration = Duration::from_secs(1);

/// The recording that the environment requests.
#[derive(Debug)]
struct Request {
    /// The process that read the request. A process that was forked from it writes nothing.
    process: u32,
    wanted: Wanted,
}

#[derive(Debug)]
enum Wanted {
    Nothing,
    /// Only the processor time of the process, written to this place.
    Time(Place),
    Graph {
        file: Place,
        merge_ns: u64,
        costs: Costs,
        /// The processor time used to measure the costs of recording.
        calibrating: Duration,
    },
}

static REQUEST: OnceLock<Request> = OnceLock::new();

/// The largest number of threads that any pool of the process claims to have. A pool tells the program the number of
/// threads that the program has chosen, but has one worker.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The number of sessions that have begun. A [`session`] records one thread, or one detached task.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// The recordings of ended threads.
static ENDED_THREADS: Mutex<Vec<Recorder>> = Mutex::new(Vec::new());

/// The recordings of ended detached tasks, as children of one fork.
static DETACHED: Mutex<Option<Recorder>> = Mutex::new(None);

fn wanted() -> &'static Wanted {
    let request = REQUEST.get_or_init(|| {
        let process = std::process::id();
        Request { process, wanted: from_environment(process) }
    });
    &request.wanted
}

fn from_environment(process: u32) -> Wanted {
    let file = |name| {
        let path = variable(name).filter(|path| !is_off(path))?;
        Some(numbered(path, process))
    };
    let (path, is_graph) = match (file("COMITY_RECORD"), file("COMITY_RECORD_TIME")) {
        (Some(path), _) => (path, true),
        (None, Some(path)) => (path, false),
        (None, None) => return Wanted::Nothing,
    };
    let file = match Place::claim(&path) {
        Ok(file) => file,
        Err(error) => {
            say(&format!("'{}' cannot be written: {error}; nothing is recorded", path.display()));
            return Wanted::Nothing;
        }
    };
    let wanted = match is_graph {
        true => {
            let before = processor_time(process);
            let costs = Costs::calibrated();
            let calibrating = processor_time(process).saturating_sub(before);
            Wanted::Graph { file, merge_ns: merge_ns(), costs, calibrating }
        }
        false => Wanted::Time(file),
    };
    if let Err(error) = call_at_exit(at_exit) {
        say(&format!("the recorder cannot detect the end of the program: {error}; nothing is recorded"));
        return Wanted::Nothing;
    }
    wanted
}

fn merge_ns() -> u64 {
    let Some(text) = variable("COMITY_RECORD_MERGE_NS") else { return MERGE_NS };
    let text = text.to_string_lossy();
    text.parse().ok().filter(|ns| *ns <= 1_000_000_000).unwrap_or_else(|| {
        say(&format!(
            "COMITY_RECORD_MERGE_NS is '{text}', which is not a number from 0 to 10^9 (nanoseconds); {MERGE_NS} is used"
        ));
        MERGE_NS
    })
}

fn processor_time(process: u32) -> Duration {
    of_process(process).unwrap_or_default()
}

fn recorder() -> Option<Recorder> {
    let Wanted::Graph { merge_ns, costs, .. } = wanted() else { return None };
    Some(Recorder::new(0, *merge_ns, costs.clock_ns, costs.quiet_ns))
}

/// Counts a new session, and returns its number.
fn count() -> u64 {
    BEGUN.fetch_add(1, Ordering::Relaxed)
}

/// Begins the recording of a thread that forks for the first time. Returns a recorder, the thread's processor time in
/// ns, and the session's number. `None` if nothing is recorded.
pub(crate) fn begin() -> Option<(Recorder, u64, u64)> {
    if let Some(Request { wanted: Wanted::Nothing | Wanted::Time(_), .. }) = REQUEST.get() {
        return None;
    }
    // Read the clock before `recorder`, which may measure the costs on this thread.
    let used = ThreadId::current().cpu_time().unwrap_or_default();
    Some((recorder()?, used.as_nanos() as u64, count()))
}

/// Keeps the recording of an ended thread.
pub(crate) fn keep(recorder: Recorder) {
    lock(&ENDED_THREADS).push(recorder);
    ENDED.fetch_add(1, Ordering::Release);
}

/// Returns a recorder and a number for a detached task that begins. `None` if nothing is recorded.
pub(crate) fn begin_detached() -> Option<(Recorder, u64)> {
    // Create the recorder before taking the lock, because its creation may first have to measure the costs.
    let first = recorder()?;
    let recorder = lock(&DETACHED).get_or_insert(first).apart();
    Some((recorder, count()))
}

/// Adds the recording of an ended detached task.
pub(crate) fn keep_detached(recorder: Recorder) {
    if let Some(all) = &mut *lock(&DETACHED) {
        all.add(recorder);
    }
    ENDED.fetch_add(1, Ordering::Release);
}

/// Notes that a pool claims to have this number of threads.
pub(crate) fn has_pool(threads: usize) {
    THREADS.fetch_max(threads, Ordering::Relaxed);
}

extern "C" fn at_exit() {
    let Some(Request { process, wanted }) = REQUEST.get() else { return };
    if *process != std::process::id() {
        return;
    }
    let used = processor_time(*process);
    let (file, written) = match wanted {
        Wanted::Nothing => return,
        Wanted::Time(file) => (file, file.put(used.as_nanos().to_string().as_bytes())),
        Wanted::Graph { file, calibrating, .. } => {
            // A panic here must not unwind into the C library.
            let graph = std::panic::catch_unwind(|| graph(used.saturating_sub(*calibrating)));
            match graph.unwrap_or_else(|_| Err("the recorder panicked, which is a bug in comity".into())) {
                Ok(text) => (file, file.put(&text)),
                Err(why) => return say(&format!("the program cannot be recorded: {why}")),
            }
        }
    };
    if let Err(error) = written {
        say(&format!("the recording '{}' cannot be written: {error}", file.path().display()));
    }
}

/// Returns the contents of the file: the graph of all recordings. `used` is the processor time of the process.
fn graph(used: Duration) -> Result<Vec<u8>, String> {
    if let Some(recorder) = session::end() {
        keep(recorder);
    }
    let running = || {
        // Read in this order: if the end of a session is counted in `ended`, its begin is counted too.
        let ended = ENDED.load(Ordering::Acquire);
        BEGUN.load(Ordering::Relaxed) - ended
    };
    // A scoped thread may have finished its closure and still be ending. The recording of a thread is kept when its
    // thread-local variables are destroyed.
    let began = Instant::now();
    while running() > 0 && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
    let left = running();
    if left > 0 {
        say(&format!(
            "{left} threads or tasks were still running when the program ended; their work is not in the recording"
        ));
    }
    let mut recorders = std::mem::take(&mut *lock(&ENDED_THREADS));
    recorders.extend(lock(&DETACHED).take().filter(|detached| detached.nesting() > 0));
    let finish = |mut recorder: Recorder| {
        while recorder.nesting() > 0 {
            recorder.join();
        }
        recorder.finish(About::default())
    };
    let graphs = recorders.into_iter().map(finish).collect::<Result<Vec<Graph>, String>>()?;
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let workers = THREADS.load(Ordering::Relaxed) as u32;
    let about = About { program, workers, recorded_ns: used.as_nanos() as u64, ..About::default() };
    let mut text = Vec::new();
    Graph::beside(about, graphs)?.write(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}
