//! Tests of the number of threads that a recorded process reports, and of the file that it writes when it ends. Each
//! test runs itself again in a child process.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use comity_graph::Graph;
use comity_recording::{ThreadPoolBuilder, current_num_threads, in_place_scope, join, spawn, spawn_fifo};

/// The environment variable that is set in the recorded child process.
const WITHIN: &str = "COMITY_TEST_WITHIN";

/// The maximum wait for an event that never happens if the code is wrong.
const PATIENCE: Duration = Duration::from_secs(100);

/// Runs `body` in a child process that records every task and exits. Returns the recording and the standard error of
/// the child process. `test` is the name of the calling test.
fn recorded(test: &str, body: impl FnOnce()) -> (Graph, String) {
    if std::env::var_os(WITHIN).is_some() {
        body();
        std::process::exit(0);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("graph");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(WITHIN, "1").env_remove("COMITY_RECORD_TIME");
    let output =
        command.env("COMITY_RECORD", &file).env("COMITY_RECORD_MERGE_NS", "0").env("COMITY_NUM_THREADS", "3").output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
    (Graph::read(&mut std::fs::read(&file).unwrap().as_slice()).unwrap(), said)
}

fn fork() {
    let ((), ()) = join(|| (), || ());
}

#[test]
fn a_recording_beyond_the_limit_of_file_sizes_ends_no_program() {
    const TEST: &str = "a_recording_beyond_the_limit_of_file_sizes_ends_no_program";
    if std::env::var_os(WITHIN).is_some() {
        return fork();
    }
    let folder = tempfile::tempdir().unwrap();
    for variable in ["COMITY_RECORD", "COMITY_RECORD_TIME"] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", TEST, "--nocapture"]).env(WITHIN, "1").env(variable, folder.path().join("graph"));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", output.status);
        assert!(said.contains("cannot be written") && said.contains("the limit of file sizes (`ulimit -f`)"), "{said}");
    }
}

/// Returns a command that runs this test again in `folder`, and records every task to `place`.
fn forked(test: &str, folder: &Path, place: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.arg("60").arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]);
    command.current_dir(folder).env(WITHIN, "1").env_remove("COMITY_RECORD_TIME");
    command.env("COMITY_RECORD", place).env("COMITY_RECORD_MERGE_NS", "0");
    command
}

/// Runs a program that must succeed, and returns its standard error.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    said
}

/// Returns the number of tasks of the recording in a file.
fn tasks(file: &Path) -> u128 {
    Graph::read(&mut fs::read(file).unwrap().as_slice()).unwrap().count_tasks()
}

/// Returns the names of all files in a folder.
fn names(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn a_recording_follows_links_and_replaces_no_device() {
    const TEST: &str = "a_recording_follows_links_and_replaces_no_device";
    if std::env::var_os(WITHIN).is_some() {
        fork();
        std::env::set_current_dir("/").unwrap();
        std::process::exit(0);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let record = |place: &str| said(&mut forked(TEST, folder.path(), place));

    // A relative path is resolved in the working directory at the program's first fork. The file keeps its mode.
    fs::write(path("private"), "").unwrap();
    fs::set_permissions(path("private"), Permissions::from_mode(0o600)).unwrap();
    assert_eq!(record("private"), "");
    assert_eq!((tasks(&path("private")), mode(&path("private"))), (3, 0o600));

    for (link, target) in [("link", "private"), ("dangling", "new")] {
        symlink(target, path(link)).unwrap();
        fs::remove_file(path("private")).unwrap();
        fs::write(path("private"), "").unwrap();
        assert_eq!(record(link), "");
        assert!(fs::symlink_metadata(path(link)).unwrap().is_symlink(), "{link} is replaced");
        assert_eq!(tasks(&path(target)), 3);
    }

    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    let refused = record("pipe");
    assert!(refused.contains("'pipe' cannot be written: it is a pipe; set the variable to"), "{refused}");
    let mut expected = ["dangling", "link", "new", "pipe", "private"].to_vec();
    if Command::new("mknod").arg(path("null")).args(["c", "1", "3"]).status().unwrap().success() {
        let is_null = || fs::symlink_metadata(path("null")).unwrap().file_type().is_char_device();
        let said = record("null");
        assert!(is_null(), "the device is replaced: {said}");
        expected.insert(3, "null");
    }
    assert_eq!(names(folder.path()), expected);
}

#[test]
fn a_recording_goes_to_a_path_that_is_no_unicode() {
    const TEST: &str = "a_recording_goes_to_a_path_that_is_no_unicode";
    if std::env::var_os(WITHIN).is_some() {
        fork();
        std::process::exit(0);
    }
    let folder = tempfile::tempdir().unwrap();
    let place = OsStr::from_bytes(b"\xff-%p-%p.graph");
    assert_eq!(said(&mut forked(TEST, folder.path(), place)), "");
    let names = names(folder.path());
    let [name] = names.as_slice() else { panic!("{names:?}") };
    assert!(name.as_bytes().starts_with(b"\xff-") && !name.as_bytes().contains(&b'%'), "{name:?}");
    assert_eq!(tasks(&folder.path().join(name)), 3);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_recording_that_cannot_be_written_leaves_no_other_file() {
    const TEST: &str = "a_recording_that_cannot_be_written_leaves_no_other_file";
    if std::env::var_os(WITHIN).is_some() {
        return fork();
    }
    let folder = tempfile::tempdir().unwrap();
    let limited = forked(TEST, folder.path(), "graph");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""]).arg(limited.get_program()).args(limited.get_args());
    command.current_dir(folder.path()).env(WITHIN, "1").env("COMITY_RECORD", "graph");
    let said = said(&mut command);
    assert!(said.contains("cannot be written"), "{said}");
    assert_eq!(names(folder.path()), ["graph"]);
}

#[test]
fn a_program_with_more_rights_than_its_caller_records_nothing() {
    const TEST: &str = "a_program_with_more_rights_than_its_caller_records_nothing";
    if std::env::var_os(WITHIN).is_some() {
        fork();
        return println!("has more rights: {}", comity_os::environment::has_more_rights_than_its_caller());
    }
    let folder = tempfile::tempdir().unwrap();
    let (program, private) = (folder.path().join("program"), folder.path().join("private"));
    // Another process copies the file: see `copy` in the tests of the table's rights.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status().unwrap();
    assert!(copied.success());
    fs::create_dir(&private).unwrap();
    for (path, mode) in [(folder.path(), 0o755), (&private, 0o700), (&program, 0o4755)] {
        if path != folder.path() && chown(path, Some(65_534), Some(65_534)).is_err() {
            return eprintln!("skipped: only root can give a program another user's rights");
        }
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    for variable in ["COMITY_RECORD", "COMITY_RECORD_TIME"] {
        let mut command = Command::new(&program);
        command.args(["--exact", TEST, "--nocapture"]).uid(54_321).gid(54_321).current_dir("/");
        let output = command.env(WITHIN, "1").env(variable, private.join("file")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        if said.contains("has more rights: false") {
            return eprintln!("skipped: programs of {} get no other user's rights", folder.path().display());
        }
        assert!(output.status.success() && said.contains("has more rights: true"), "{output:?}");
        assert_eq!(fs::read_dir(&private).unwrap().count(), 0, "the caller had it make a file");
    }
}

#[test]
fn a_detached_task_that_does_not_end_takes_no_other_along() {
    // One endless task begins before the other tasks, and one after them.
    let (graph, said) = recorded("a_detached_task_that_does_not_end_takes_no_other_along", || {
        let (sender, receiver) = mpsc::channel();
        ThreadPoolBuilder::new().num_threads(2).build_global().unwrap();
        let endless = |sender: mpsc::Sender<()>| {
            move || {
                sender.send(()).unwrap();
                loop {
                    thread::park();
                }
            }
        };
        let other =
            ThreadPoolBuilder::new().build_with(|worker| worker.spawn(thread::Builder::new()).map(drop)).unwrap();
        other.spawn(endless(sender.clone()));
        receiver.recv().unwrap();
        for _ in 0..100 {
            spawn(fork);
        }
        // The pool has one worker, so all tasks that were spawned before this endless task have ended when it begins.
        spawn_fifo(endless(sender));
        receiver.recv().unwrap();
    });
    // The tasks: the root, this thread, the fork of all detached tasks, and 3 per detached task (itself, 2 children).
    assert_eq!(graph.count_tasks(), 1 + 1 + 1 + 100 * 3, "{said}");
    assert!(said.contains("comity: 2 threads or tasks were still running"), "{said}");
}

#[test]
fn a_thread_that_forks_while_it_is_ending_is_not_waited_for() {
    struct Last(Cell<bool>);
    impl Drop for Last {
        fn drop(&mut self) {
            assert_eq!(in_place_scope(|_| join(|| 1, || 2)), (1, 2));
        }
    }
    thread_local! {
        static LAST: Last = const { Last(Cell::new(false)) };
    }
    let (graph, said) = recorded("a_thread_that_forks_while_it_is_ending_is_not_waited_for", || {
        for is_before in [false, true] {
            let thread = thread::spawn(move || {
                // The order of first use decides the order in which thread-local variables are destroyed. In one
                // round the recorder's variable is destroyed before `LAST`, in the other round after it.
                if is_before {
                    LAST.with(|last| last.0.set(true));
                }
                fork();
                LAST.with(|last| last.0.set(true));
            });
            thread.join().unwrap();
        }
    });
    // The tasks: the root, 3 per thread (itself, 2 children), and the 2 children of `LAST`'s join on one thread.
    assert_eq!(graph.count_tasks(), 1 + 2 * 3 + 2, "{said}");
    assert!(!said.contains("still running"), "{said}");
}

#[test]
fn a_thread_outside_is_told_the_number_of_threads_while_the_worker_waits_for_it() {
    recorded("a_thread_outside_is_told_the_number_of_threads_while_the_worker_waits_for_it", || {
        let ask = || {
            let (sender, receiver) = mpsc::channel();
            thread::spawn(move || sender.send(current_num_threads()).unwrap());
            assert_eq!(receiver.recv_timeout(PATIENCE), Ok(5));
        };
        // The start handler runs on the worker, so the worker waits in the handler too.
        ThreadPoolBuilder::new().num_threads(5).start_handler(move |_| ask()).build_global().unwrap();
        assert_eq!(current_num_threads(), 5);
        let (sender, receiver) = mpsc::channel();
        spawn(move || {
            ask();
            sender.send(()).unwrap();
        });
        receiver.recv().unwrap();
        assert!(ThreadPoolBuilder::new().num_threads(6).build_global().is_err());
        ask();
    });
}

#[test]
fn a_thread_that_has_become_the_global_pools_first_waits_for_one_that_asks() {
    recorded("a_thread_that_has_become_the_global_pools_first_waits_for_one_that_asks", || {
        ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global().unwrap();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(current_num_threads()).unwrap());
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(1));
        fork();
    });
}

#[test]
fn threads_that_ask_at_once_are_told_the_same() {
    recorded("threads_that_ask_at_once_are_told_the_same", || {
        thread::scope(|scope| {
            let asked: Vec<_> = (0..8).map(|_| scope.spawn(current_num_threads)).collect();
            asked.into_iter().for_each(|asked| assert_eq!(asked.join().unwrap(), 3));
        });
        fork();
    });
}
