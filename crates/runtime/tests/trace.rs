//! `COMITY_TRACE`: the content of a trace, and files that are refused. Each traced program has a separate process.
// Only Linux offers what these tests are about.
#![cfg(not(any(loom, comity_portable)))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/fib.rs"]
mod fib;
#[path = "harness/forked.rs"]
mod forked;
#[path = "harness/wait.rs"]
mod wait;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use comity::{Refusal, ThreadPoolBuilder, WorkerCounters};
use fib::fib;
use serde_json::Value;
use wait::wait_until;
use watchdog::Watchdog;

/// A folder that is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("comity-trace-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn traced(role: &str, trace: &Path) -> Command {
    let mut command = child::command(role);
    command.env("COMITY_TRACE", trace).env("COMITY_TABLE", "off");
    command
}

#[track_caller]
fn succeeds(command: Command) -> Output {
    let output = child::run(command);
    assert!(output.status.success(), "{:?}\n{}", output.status, child::stderr(&output));
    output
}

/// Starts a child and waits until it is ready. The child runs until its standard input ends.
fn start(mut command: Command) -> Child {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "ready"), "the child ended: {:?}", child.wait());
    child
}

fn end(mut child: Child) -> String {
    drop(child.stdin.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(child.wait().unwrap().success(), "{stderr}");
    stderr
}

/// Returns the events of a complete trace.
#[track_caller]
fn whole(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let events: Vec<Value> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(events[0]["name"], "comity_trace");
    events
}

/// Returns the events of a trace that may lack its end.
#[track_caller]
fn so_far(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.strip_prefix("[\n").unwrap_or_default().split(",\n").collect();
    lines.iter().filter_map(|line| serde_json::from_str(line.trim_end_matches("\n]\n")).ok()).collect()
}

fn named<'a>(events: &'a [Value], names: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(|event| names.iter().any(|name| event["name"] == *name))
}

/// Converts microseconds to nanoseconds.
fn nanos(micros: &Value) -> i128 {
    (micros.as_f64().unwrap() * 1000.0).round() as i128
}

const STATES: [&str; 4] = ["task", "thief", "asleep", "retired"];

/// Returns the states of each thread in order: start, duration and name, times in nanoseconds.
fn states(events: &[Value]) -> BTreeMap<i64, Vec<(i128, i128, String)>> {
    let mut threads: BTreeMap<i64, Vec<_>> = BTreeMap::new();
    for event in named(events, &STATES) {
        let state = (nanos(&event["ts"]), nanos(&event["dur"]), event["name"].as_str().unwrap().to_owned());
        threads.entry(event["tid"].as_i64().unwrap()).or_default().push(state);
    }
    threads
}

#[test]
fn a_trace_has_each_workers_states_without_a_gap_and_every_steal() {
    let _watchdog = Watchdog::start("a_trace_has_each_workers_states_without_a_gap_and_every_steal");
    let folder = Folder::new("states");
    let path = folder.path("t.json");
    let output = succeeds(traced("compute on three workers", &path));
    let said = String::from_utf8(output.stdout).unwrap();
    let counted = said.lines().find_map(|line| line.strip_prefix("steals ")).unwrap();
    let steals: u64 = counted.parse().unwrap();

    let events = whole(&path);
    let names: Vec<&str> =
        named(&events, &["thread_name"]).map(|event| event["args"]["name"].as_str().unwrap()).collect();
    for worker in 0..3 {
        assert!(names.contains(&&*format!("pool 1 worker {worker} (comity)")), "{names:?}");
    }
    let threads = states(&events);
    assert_eq!(threads.len(), 3);
    for states in threads.values() {
        for pair in states.windows(2) {
            // A float of microseconds since the machine was started has an error of some nanoseconds.
            let gap = pair[1].0 - (pair[0].0 + pair[0].1);
            assert!(gap.abs() <= 1000, "{pair:?}");
            assert!(pair[0].2 != pair[1].2 || pair[0].1 >= 1_000_000_000, "one state is written as one: {pair:?}");
        }
    }
    let seen = |state: &str| threads.values().flatten().any(|(_, _, name)| name == state);
    assert!(seen("task") && seen("thief") && seen("asleep"), "{threads:?}");
    assert!(steals > 0);
    assert_eq!(named(&events, &["steal", "mug"]).count() as u64, steals);
    for event in named(&events, &["steal"]) {
        assert!(event["args"]["from"].as_u64().unwrap() < 3 && event["s"] == "t", "{event}");
    }
    let numbers: Vec<&Value> = events.iter().map(|event| &event["pid"]).collect();
    assert!(numbers.iter().all(|number| *number == numbers[0]));
    assert_eq!(named(&events, &["lost"]).count(), 0);
}

#[test]
fn a_trace_has_every_acceleration_and_how_often_one_was_refused() {
    let _watchdog = Watchdog::start("a_trace_has_every_acceleration_and_how_often_one_was_refused");
    let folder = Folder::new("accelerations");
    let path = folder.path("t.json");
    let output = succeeds(traced("accelerate, and end while all have a task", &path));
    let said = String::from_utf8(output.stdout).unwrap();
    let counted: BTreeMap<&str, u64> = said
        .lines()
        .filter_map(|line| line.strip_prefix("counted ")?.rsplit_once(' '))
        .map(|(what, times)| (what, times.parse().unwrap()))
        .collect();

    let events = whole(&path);
    let workers: Vec<&Value> = named(&events, &["thread_name"]).map(|event| &event["tid"]).collect();
    let mut noted = BTreeMap::from([("accelerations", named(&events, &["acceleration"]).count() as u64)]);
    for event in named(&events, &["acceleration"]) {
        let candidate = event["args"]["whom"].as_u64().unwrap();
        assert!(candidate < workers.len() as u64 && workers.contains(&&event["tid"]) && event["s"] == "t", "{event}");
    }
    for event in named(&events, &["refused"]) {
        let reasons = event["args"]["reasons"].as_object().unwrap();
        assert!(!reasons.is_empty() && workers.contains(&&event["tid"]) && event["s"] == "t", "{event}");
        for (reason, times) in reasons {
            *noted.entry(reason).or_default() += times.as_u64().unwrap();
        }
    }
    assert_eq!(noted, counted);
    assert!(counted["accelerations"] >= 3 && counted.contains_key("running"), "{counted:?}");
    assert_eq!(named(&events, &["lost"]).count(), 0);
}

/// Runs sixteen workers on fewer cores, where they wait for a core most of the time.
#[test]
fn waits_for_a_core_are_told() {
    let _watchdog = Watchdog::start("waits_for_a_core_are_told");
    let folder = Folder::new("preempted");
    let path = folder.path("t.json");
    let mut command = traced("compute until the end", &path);
    let workers = 8 * comity_os::cores::usable().get();
    command.env("COMITY_NUM_THREADS", workers.to_string()).env("COMITY_POLICY", "plain");
    let child = start(command);
    wait::wait_until("waits are told", || named(&so_far(&path), &["preempted"]).count() >= 200);
    end(child);
    let events = whole(&path);
    let mut until = BTreeMap::new();
    let mut open = BTreeMap::new();
    for event in named(&events, &["preempted"]) {
        let (thread, at) = (event["tid"].as_i64().unwrap(), nanos(&event["ts"]));
        assert_eq!(event["id"], event["tid"]);
        if event["ph"] == "b" {
            assert!(at >= until.get(&thread).copied().unwrap_or(0), "waits of one thread do not overlap");
            assert!(open.insert(thread, at).is_none());
        } else {
            assert!(at > open.remove(&thread).expect("each has a beginning"));
            until.insert(thread, at);
        }
    }
    assert!(open.is_empty());
}

#[test]
fn a_program_that_is_killed_leaves_what_it_did() {
    let _watchdog = Watchdog::start("a_program_that_is_killed_leaves_what_it_did");
    let folder = Folder::new("killed");
    let path = folder.path("t.json");
    let mut child = start(traced("stay in one task", &path));
    let tasks = |events: &[Value]| named(events, &["task"]).map(|event| nanos(&event["dur"])).sum::<i128>();
    wait::wait_until("a task that is not over is told", || tasks(&so_far(&path)) >= 2_000_000_000);
    child.kill().unwrap();
    child.wait().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.ends_with("]\n"));
    serde_json::from_str::<Vec<Value>>(&format!("{text}\n]")).unwrap();
}

#[test]
fn a_program_that_shares_cores_says_which_it_held_and_how_it_shared() {
    let _watchdog = Watchdog::start("a_program_that_shares_cores_says_which_it_held_and_how_it_shared");
    if comity_os::cores::usable().get() < 2 {
        eprintln!("nothing is shared out where there is one core");
        return;
    }
    let folder = Folder::new("cores");
    let paths = [folder.path("one.json"), folder.path("other.json")];
    let children = paths.each_ref().map(|path| {
        let mut command = traced("compute until the end", path);
        command.env("COMITY_TABLE", folder.path("table")).env("COMITY_POLICY", "dws");
        start(command)
    });
    // The first program holds cores already while it is alone. The trace shows its mode as "holds cores" once the
    // other program runs too.
    let held = |path: &Path| {
        let events = so_far(path);
        events.iter().any(|event| event["cat"] == "core") && named(&events, &["holds cores"]).count() > 0
    };
    wait::wait_until("both hold cores", || paths.iter().all(|path| held(path)));
    for child in children {
        end(child);
    }
    for path in &paths {
        let events = whole(path);
        let mut held = BTreeMap::new();
        for event in events.iter().filter(|event| event["cat"] == "core") {
            let (id, how) = (event["id"].as_u64().unwrap(), event["args"]["how"].as_str().unwrap());
            assert_eq!(event["name"], format!("core {id}"));
            let is_held = held.entry(id).or_insert(false);
            assert_eq!(event["ph"], if *is_held { "e" } else { "b" });
            let words: &[&str] = if *is_held { &["released", "lost"] } else { &["claimed", "taken back"] };
            assert!(words.contains(&how), "{event}");
            *is_held = !*is_held;
        }
        assert!(held.values().all(|is_held| !is_held), "what is held at the end ends there");
        let modes: Vec<&str> = events
            .iter()
            .filter(|event| event["cat"] == "mode" && event["ph"] == "b")
            .map(|event| event["name"].as_str().unwrap())
            .collect();
        assert!(modes.iter().all(|mode| ["alone", "shares time", "holds cores"].contains(mode)), "{modes:?}");
        assert!(modes.contains(&"holds cores"), "{modes:?}");
    }
}

#[test]
fn several_programs_have_a_file_each() {
    let _watchdog = Watchdog::start("several_programs_have_a_file_each");
    let folder = Folder::new("several");
    let path = folder.path("t.json");
    let (one, other) = (start(traced("stay", &path)), start(traced("stay", &path)));
    let numbers = [one.id(), other.id()];
    assert_eq!(end(one), "");
    let said = end(other);
    let own = folder.path(&format!("t.{}.json", numbers[1]));
    assert!(
        said.starts_with("comity: COMITY_TRACE=") && said.contains("another process writes to this file. This"),
        "{said}"
    );
    assert!(said.contains(own.to_str().unwrap()) && said.lines().count() == 1, "{said}");
    assert_eq!(whole(&path)[0]["pid"], numbers[0]);
    assert_eq!(whole(&own)[0]["pid"], numbers[1]);
    // An earlier trace is overwritten. A name with `%p` contains the process's number.
    let child = start(traced("stay", &path));
    let number = child.id();
    end(child);
    assert_eq!(whole(&path)[0]["pid"], number);
    let child = start(traced("stay", &folder.path("of-%p")));
    let number = child.id();
    end(child);
    assert_eq!(whole(&folder.path(&format!("of-{number}")))[0]["pid"], number);
    assert_eq!(folder.names().len(), 3);
}

#[test]
fn a_forked_child_has_a_trace_of_its_own_and_leaves_its_parents_alone() {
    let _watchdog = Watchdog::start("a_forked_child_has_a_trace_of_its_own_and_leaves_its_parents_alone");
    let folder = Folder::new("fork");
    let path = folder.path("t.json");
    succeeds(traced("fork two children", &path));
    let events = whole(&path);
    let names = folder.names();
    assert_eq!(names.len(), 2, "the child that uses a pool has one: {names:?}");
    let childs = whole(&folder.path(&names[0]));
    assert_ne!(childs[0]["pid"], events[0]["pid"]);
    assert_eq!(names[0], format!("t.{}.json", childs[0]["pid"]));
    assert_eq!(named(&events, &["comity_trace"]).count(), 1);
    // In a short program, some workers may not have started, so they have no name.
    assert!(named(&childs, &["thread_name"]).count() > 0 && named(&events, &["thread_name"]).count() > 0);
}

#[test]
fn what_no_trace_can_be_written_into_is_refused_and_left_as_it_is() {
    let _watchdog = Watchdog::start("what_no_trace_can_be_written_into_is_refused_and_left_as_it_is");
    let folder = Folder::new("refused");
    let precious = folder.path("precious.rs");
    fs::write(&precious, "fn main() {}\n").unwrap();
    let pipe = folder.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let nowhere = folder.path("no/such/folder/t.json");
    for (path, part) in [
        (&*precious, "this file exists and is not a trace. Name another file, or remove this one"),
        (&*folder.0, "this is not a regular file. Name a regular file"),
        (&*pipe, "this is not a regular file. Name a regular file"),
        (Path::new("/dev/null"), "this is not a regular file. Name a regular file"),
        (&*nowhere, "cannot write a trace to this file: No such file or directory"),
    ] {
        let output = child::run(traced("join in the global pool", path));
        let stderr = child::stderr(&output);
        assert_eq!(output.status.code(), Some(101), "{stderr}");
        assert!(stderr.contains(&format!("COMITY_TRACE={}: {part}", path.display())), "{stderr}");
        let output = succeeds(traced("say what the builder says", path));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("the builder says: COMITY_TRACE=") && said.contains(part), "{said}");
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "fn main() {}\n");
    assert_eq!(folder.names(), ["pipe", "precious.rs"]);
    // An empty value is the same as no value, and `off` switches tracing off.
    for unset in ["", "off", "OFF", "none"] {
        let mut command = traced("join in the global pool", Path::new(unset));
        command.current_dir(&folder.0);
        succeeds(command);
    }
    assert_eq!(folder.names(), ["pipe", "precious.rs"]);
}

#[test]
fn a_trace_that_the_disk_takes_no_more_of_ends_and_the_program_goes_on() {
    let _watchdog = Watchdog::start("a_trace_that_the_disk_takes_no_more_of_ends_and_the_program_goes_on");
    let folder = Folder::new("full");
    let path = folder.path("t.json");
    let program = traced("compute until the trace ends", &path);
    let mut command = Command::new("sh");
    // The limit is in blocks of 512 or 1024 bytes, depending on the shell.
    command.args(["-c", r#"ulimit -f 8; exec "$0" "$@""#]).arg(program.get_program());
    command.args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let stderr = child::stderr(&succeeds(command));
    assert!(
        stderr.contains(&format!("COMITY_TRACE={}: the trace ends here: File too large", path.display())),
        "{stderr}"
    );
    assert_eq!(stderr.matches("the trace ends here").count(), 1, "{stderr}");
    assert!(so_far(&path).len() > 10);
}

/// Plays a program whose `main` is not in Rust. In such a program, SIGPIPE has the system's default action, which
/// ends the program.
#[test]
fn a_line_that_no_reader_gets_ends_no_program() {
    let _watchdog = Watchdog::start("a_line_that_no_reader_gets_ends_no_program");
    let folder = Folder::new("no-reader");
    let path = folder.path("t.json");
    let first = start(traced("stay", &path));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = traced("join in the global pool, with SIGPIPE as the system sets it", &path);
    let mut other = command.stdout(Stdio::null()).stderr(writer).spawn().unwrap();
    let ended = other.wait().unwrap();
    assert!(ended.success(), "{ended}");
    // This second trace shows that the program tried to print a line: it prints one when it has to choose another
    // file.
    assert!(folder.path(&format!("t.{}.json", other.id())).exists());
    end(first);
}

/// Ends the program in a signal handler, which may have interrupted a thread in the middle of a note.
#[test]
fn a_signal_handler_that_ends_the_program_ends_it() {
    let _watchdog = Watchdog::start("a_signal_handler_that_ends_the_program_ends_it");
    let folder = Folder::new("handler");
    // The signal goes to the main thread, to the thread that waits for the end of the input, and to four workers. It
    // does not go to the thread that writes the trace: that thread calls the allocator, where no signal handler may
    // run.
    for round in 0..12 {
        let path = folder.path(&format!("{round}.json"));
        let mut command = traced("steal all the time, and end in a signal handler", &path);
        command.env("COMITY_POLICY", "plain").env("COMITY_NUM_THREADS", "4");
        let mut child = start(command);
        // The input is kept open: the wait would close it, and the child would end in the usual way.
        let _input = child.stdin.take();
        let entries = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().map(|entry| entry.unwrap());
        let mut threads: Vec<i32> = entries
            .filter(|entry| fs::read_to_string(entry.path().join("comm")).unwrap() != "comity-trace\n")
            .map(|entry| entry.file_name().into_string().unwrap().parse().unwrap())
            .collect();
        threads.sort();
        assert!(threads.len() >= 6, "{threads:?}");
        let thread = threads[round % threads.len()];
        // SAFETY: a signal to a thread of a child that was started above and has not been waited for.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, child.id(), thread, libc::SIGUSR1) };
        assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert!(so_far(&path).len() > 3);
    }
}

/// Prints that it is ready, and calls `again` repeatedly until standard input ends.
fn until_the_end(again: impl Fn()) {
    static WAITS: AtomicBool = AtomicBool::new(false);
    static ENDED: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        WAITS.store(true, Ordering::Release);
        let mut byte = 0u8;
        // SAFETY: one byte is read into a variable of this size. `stdin` is not used, because a signal handler may
        // interrupt its allocations.
        while unsafe { libc::read(0, (&raw mut byte).cast(), 1) } > 0 {}
        ENDED.store(true, Ordering::Release);
    });
    again();
    // Waits for the thread to start, because its start allocates too.
    wait_until("the thread waits for the end", || WAITS.load(Ordering::Acquire));
    // `println` is not used: a signal handler that ends the program while this thread is still in `println` finds the
    // standard output borrowed.
    fs::write("/dev/stdout", "\nready\n").unwrap();
    while !ENDED.load(Ordering::Acquire) {
        again();
    }
}

extern "C" fn exit_three(_: libc::c_int) {
    std::process::exit(3);
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    let Some(role) = child::role() else { return };
    let watchdog = Watchdog::start("child");
    watchdog.step(&role);
    match role.as_str() {
        "compute on three workers" => {
            let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
            let total = || WorkerCounters::total(&pool.counters());
            // Each steal is noted before the task runs, so all steals of a call have been noted when it returns.
            while total().steals == 0 || total().asleep.is_zero() {
                assert_eq!(pool.install(|| fib(24)), 46_368);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            println!("\nsteals {}", total().steals);
            pool.shutdown();
        }
        "accelerate, and end while all have a task" => {
            let workers = 4 * comity_os::cores::usable().get();
            let policy = "robinhood".parse().unwrap();
            let pool = ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().unwrap();
            let total = || WorkerCounters::total(&pool.counters());
            // The pool runs more tasks than there are cores, so that workers are preempted while other workers are
            // thieves.
            pool.scope(|scope| {
                for _ in 0..workers / 2 {
                    scope.spawn(|_| {
                        while total().accelerations < 3 {
                            std::hint::spin_loop();
                        }
                    });
                }
            });
            // While each worker has a task, no worker is a thief, and the counters do not change.
            let all_have_a_task = Barrier::new(workers);
            pool.broadcast(|context| {
                all_have_a_task.wait();
                if context.index() == 0 {
                    let WorkerCounters { accelerations, refusals, .. } = total();
                    println!("\ncounted accelerations {accelerations}");
                    for refusal in Refusal::ALL.iter().copied().filter(|refusal| refusals.of(*refusal) > 0) {
                        println!("counted {} {}", refusal.name(), refusals.of(refusal));
                    }
                    std::process::exit(0);
                }
                all_have_a_task.wait();
            });
        }
        "compute until the end" => until_the_end(|| {
            fib(22);
        }),
        "steal all the time, and end in a signal handler" => {
            // SAFETY: the test checks this case: a handler that does more than a signal handler may do.
            unsafe { libc::signal(libc::SIGUSR1, exit_three as *const () as libc::sighandler_t) };
            // All threads have started then. A thread that starts allocates, and the handler must not meet the
            // allocator's lock.
            comity::broadcast(|_| ());
            until_the_end(|| {
                fib(12);
            });
        }
        "stay in one task" => {
            let (send, started) = std::sync::mpsc::channel();
            comity::spawn(move || {
                send.send(()).unwrap();
                std::thread::sleep(std::time::Duration::from_secs(600));
            });
            started.recv().unwrap();
            println!("\nready");
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
        "stay" => {
            fib(5);
            until_the_end(|| std::thread::sleep(std::time::Duration::from_millis(1)));
        }
        "fork two children" => {
            fib(10);
            for uses_a_pool in [false, true] {
                assert!(forked::in_a_fork(|| {
                    assert!(!uses_a_pool || fib(10) == 55);
                    // Ends the program in the usual way, so that exit handlers run.
                    std::process::exit(7)
                }));
            }
        }
        "join in the global pool" => {
            comity::join(|| (), || ());
        }
        "join in the global pool, with SIGPIPE as the system sets it" => {
            // SAFETY: no handler is set.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
            comity::join(|| (), || ());
        }
        "say what the builder says" => {
            let error = ThreadPoolBuilder::new().num_threads(1).build().unwrap_err();
            println!("\nthe builder says: {error}");
        }
        "compute until the trace ends" => {
            let path = PathBuf::from(std::env::var_os("COMITY_TRACE").unwrap());
            let mut before = None;
            // The program ends when the file has stopped growing.
            loop {
                for _ in 0..50 {
                    fib(20);
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                let length = path.metadata().unwrap().len();
                if before.replace(length) == Some(length) && length >= 4096 {
                    break;
                }
            }
        }
        other => panic!("no role is called '{other}'"),
    }
    std::io::stdout().flush().unwrap();
}
