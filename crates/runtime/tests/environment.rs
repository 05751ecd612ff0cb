//! Settings from the environment, and the global pool. Each test uses separate processes.
#![cfg(not(loom))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/threads.rs"]
mod threads;
#[path = "harness/wait.rs"]
mod wait;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use comity::{BuildError, Policy, ThreadPoolBuilder};
use watchdog::Watchdog;

/// The mark at the start of the line with a child's answer.
const ANSWER: &str = "ANSWER ";

/// Plays `role` with these variables set, and returns the child's answer.
fn ask(role: &str, variables: &[(&str, &str)]) -> String {
    let mut command = child::command(role);
    command.envs(variables.iter().copied());
    answer(command)
}

fn answer(command: Command) -> String {
    let output = child::run(command);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{:?}\n{stdout}\n{}", output.status, child::stderr(&output));
    let answer = stdout.lines().find_map(|line| Some(line.split_once(ANSWER)?.1.to_owned()));
    answer.unwrap_or_else(|| panic!("no answer in {stdout}"))
}

#[test]
fn workers_and_policy_are_chosen_from_outside() {
    let _watchdog = Watchdog::start("workers_and_policy_are_chosen_from_outside");
    let usable = comity_os::cores::usable();
    assert_eq!(ask("build", &[]), format!("{usable} comity"));
    assert_eq!(ask("build", &[("COMITY_NUM_THREADS", "3")]), "3 comity");
    assert_eq!(ask("build", &[("COMITY_NUM_THREADS", ""), ("COMITY_POLICY", "")]), format!("{usable} comity"));
    assert_eq!(ask("build zero", &[]), format!("{usable} comity"));
    assert_eq!(ask("build zero", &[("COMITY_NUM_THREADS", "5")]), "5 comity");
    for policy in Policy::all() {
        let name = policy.to_string();
        assert_eq!(ask("build", &[("COMITY_NUM_THREADS", "1"), ("COMITY_POLICY", &name)]), format!("1 {name}"));
    }
    let tuned = "bws:sleep_threshold=128";
    assert_eq!(ask("build", &[("COMITY_NUM_THREADS", "1"), ("COMITY_POLICY", tuned)]), format!("1 {tuned}"));
}

#[test]
fn rayons_variables_count_where_ours_are_not_set() {
    let _watchdog = Watchdog::start("rayons_variables_count_where_ours_are_not_set");
    let usable = comity_os::cores::usable().get();
    for (rayon, older, workers) in [
        ("3", "", 3),
        ("", "4", 4),
        ("3", "4", 3),
        ("0", "4", usable),
        ("many", "4", 4),
        ("-1", "", usable),
        ("", "0", usable),
    ] {
        let variables = [("RAYON_NUM_THREADS", rayon), ("RAYON_RS_NUM_CPUS", older)];
        assert_eq!(ask("build", &variables), format!("{workers} comity"), "{variables:?}");
    }
    assert_eq!(ask("build", &[("RAYON_NUM_THREADS", "3"), ("COMITY_NUM_THREADS", "5")]), "5 comity");
}

#[test]
fn off_means_plain_work_stealing() {
    let _watchdog = Watchdog::start("off_means_plain_work_stealing");
    let build = |switch| ask("build", &[("COMITY", switch), ("COMITY_NUM_THREADS", "1"), ("COMITY_POLICY", "bws")]);
    for off in ["off", "OFF", "none", "No", "false", "0"] {
        assert_eq!(build(off), "1 plain", "{off}");
    }
    for on in ["on", "ON", ""] {
        assert_eq!(build(on), "1 bws", "{on}");
    }
    assert_eq!(build("of"), "error: COMITY=of is neither on nor off");
    assert_eq!(ask("build two under abp", &[("COMITY", "off")]), "2 abp");
}

#[test]
fn the_builder_has_the_last_word() {
    let _watchdog = Watchdog::start("the_builder_has_the_last_word");
    for (workers, policy) in [("7", "bws"), ("many", "cilk")] {
        let variables = [("COMITY_NUM_THREADS", workers), ("COMITY_POLICY", policy)];
        assert_eq!(ask("build two under abp", &variables), "2 abp");
    }
}

/// Checks that the first use of the global pool panics with the sentence.
#[track_caller]
fn assert_panics(name: &str, value: &str, sentence: &str) {
    let mut command = child::command("join in the global pool");
    command.env(name, value);
    let output = child::run(command);
    let stderr = child::stderr(&output);
    assert_eq!(output.status.code(), Some(101), "{stderr}");
    assert!(stderr.contains("the global pool cannot be built: ") && stderr.contains(sentence), "{stderr}");
}

#[test]
fn bad_choices_from_outside_are_refused_with_a_sentence() {
    let _watchdog = Watchdog::start("bad_choices_from_outside_are_refused_with_a_sentence");
    for number in ["0", "-1", "2.5", "many", " 2", "65536", "99999999999999999999"] {
        let sentence = format!("COMITY_NUM_THREADS={number} is not a whole number from 1 to 65535");
        assert_eq!(ask("build", &[("COMITY_NUM_THREADS", number)]), format!("error: {sentence}"));
        assert_panics("COMITY_NUM_THREADS", number, &sentence);
    }
    for (name, value, part) in [
        ("COMITY", "of", "COMITY=of is neither on nor off"),
        ("COMITY_POLICY", "cilk", "no policy is called 'cilk'"),
        ("COMITY_WEIGHT", "0", "COMITY_WEIGHT=0 is not a whole number"),
        ("COMITY_CORES", "0", "COMITY_CORES=0 is not a whole number from 1 to 1024"),
        ("COMITY_WATCH", "soon", "COMITY_WATCH=soon is not a number of seconds"),
    ] {
        assert_panics(name, value, part);
    }
    for (policy, part) in [
        ("cilk", "no policy is called 'cilk'. Choose one of comity"),
        ("bws:threshold=3", "Its parameters are place, sleep_threshold"),
    ] {
        let sentence = ask("build", &[("COMITY_POLICY", policy)]);
        assert!(sentence.starts_with("error: COMITY_POLICY: ") && sentence.contains(part), "{sentence}");
    }
}

#[test]
#[cfg_attr(comity_portable, ignore = "no limit is known")]
fn more_workers_than_the_process_can_have_threads_are_refused_before_any_starts() {
    let _watchdog = Watchdog::start("more_workers_than_the_process_can_have_threads_are_refused_before_any_starts");
    let answered = with_few_threads("too many threads", |_| (), answer);
    // Another limit may be lower than this one.
    let limit =
        if answered.contains("ulimit") { "5000 threads: RLIMIT_NPROC (ulimit -u). Use fewer workers" } else { "" };
    let sentence = format!("0 started; 6000 workers exceed the limit of {limit}");
    assert!(answered.starts_with(&sentence) && answered.ends_with("or raise it"), "{answered}");
}

/// Checks the lenient pool that the drop-in for rayon-core builds, in a program that may use `comity` too.
#[test]
fn a_pool_is_lenient_only_for_who_asks() {
    let _watchdog = Watchdog::start("a_pool_is_lenient_only_for_who_asks");
    for (name, value) in [("COMITY", "of"), ("COMITY_NUM_THREADS", "many"), ("COMITY_WEIGHT", "0")] {
        let played = |role: &str| {
            let mut command = child::command(role);
            command.env(name, value);
            child::run(command)
        };
        let output = played("join in a lenient global pool");
        let stderr = child::stderr(&output);
        assert!(output.status.success() && is_one_line_and_the_default(&stderr), "{stderr}");
        let output = played("build a lenient pool, then join in the global pool");
        let stderr = child::stderr(&output);
        assert_eq!(output.status.code(), Some(101), "{stderr}");
        let (first, rest) = stderr.split_once('\n').unwrap();
        assert!(is_one_line_and_the_default(first) && rest.contains("the global pool cannot be built: "), "{stderr}");
    }
}

fn is_one_line_and_the_default(stderr: &str) -> bool {
    stderr.starts_with("comity: ")
        && stderr.trim_end().ends_with(". The default is used.")
        && stderr.lines().count() == 1
}

#[test]
#[cfg_attr(comity_portable, ignore = "no limit is known")]
fn a_global_pool_of_too_many_workers_is_refused_with_a_sentence() {
    let _watchdog = Watchdog::start("a_global_pool_of_too_many_workers_is_refused_with_a_sentence");
    for variable in ["COMITY_NUM_THREADS", "RAYON_NUM_THREADS"] {
        let many = |command: &mut Command| {
            command.env(variable, "6000");
        };
        let output = with_few_threads("join in the global pool", many, child::run);
        let stderr = child::stderr(&output);
        assert_eq!(output.status.code(), Some(101), "{stderr}");
        assert!(stderr.contains("the global pool cannot be built: 6000 workers exceed the limit of "), "{stderr}");
        let output = with_few_threads("join in a lenient global pool", many, child::run);
        let stderr = child::stderr(&output);
        assert!(output.status.success() && is_one_line_and_the_default(&stderr), "{stderr}");
    }
}

/// Runs a child of a user that may have 5000 threads, and returns what `run` returns.
fn with_few_threads<R>(role: &str, change: impl FnOnce(&mut Command), run: impl FnOnce(Command) -> R) -> R {
    let usual = child::command(role);
    static CHILDREN: AtomicU32 = AtomicU32::new(0);
    let nth = CHILDREN.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("comity-thread-limit-{}-{nth}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("program");
    // Another process copies the file. Otherwise a child that another test forks meanwhile would have the file open,
    // and the file could not be executed.
    assert!(Command::new("cp").arg("-p").arg(usual.get_program()).arg(&program).status().unwrap().success());
    let mut command = Command::new("prlimit");
    command.arg("--nproc=5000").arg(&program).args(usual.get_args());
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("COMITY_TABLE", "off");
    change(&mut command);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // The limit does not apply to root.
        command.uid(54_321).gid(54_321).current_dir("/");
    }
    let outcome = run(command);
    fs::remove_dir_all(&folder).unwrap();
    outcome
}

#[test]
fn the_global_pool_is_built_once() {
    let _watchdog = Watchdog::start("the_global_pool_is_built_once");
    let variables = [("COMITY_NUM_THREADS", "3"), ("COMITY_POLICY", "bws")];
    assert_eq!(ask("build the global pool twice", &variables), "2 workers; GlobalPoolExists");
    assert_eq!(ask("use the global pool, then build it", &variables), "3 workers; GlobalPoolExists");
    assert_eq!(ask("everything in the global pool", &variables), "right");
    assert_eq!(ask("threads that want the global pool before they run", &variables), "true and 2 workers");
}

/// Limits the address space, so that threads can be started for some workers and not for others.
#[test]
fn workers_that_have_started_end_when_a_later_one_gets_no_thread() {
    let _watchdog = Watchdog::start("workers_that_have_started_end_when_a_later_one_gets_no_thread");
    let program = child::command("build until the memory ends");
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -v 8388608; exec "$0" "$@""#]).arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    assert_eq!(answer(command), "no thread for a later worker; none left behind; the next pool works");
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    let Some(role) = child::role() else { return };
    let watchdog = Watchdog::start("child");
    watchdog.step(&role);
    let two_under_abp = || ThreadPoolBuilder::new().num_threads(2).policy("abp".parse().unwrap());
    let describe = |builder: ThreadPoolBuilder| match builder.build() {
        Ok(pool) => format!("{} {}", pool.broadcast(|_| ()).len(), pool.policy()),
        Err(error) => format!("error: {error}"),
    };
    let answer = match role.as_str() {
        "build" => describe(ThreadPoolBuilder::new()),
        "too many threads" => {
            let mut started = 0;
            let built = ThreadPoolBuilder::new().num_threads(6_000).build_with(|worker| {
                started += 1;
                std::thread::Builder::new().spawn(|| worker.run()).map(drop)
            });
            format!("{started} started; {}", built.unwrap_err())
        }
        "build zero" => describe(ThreadPoolBuilder::new().num_threads(4).num_threads(0)),
        "build two under abp" => describe(two_under_abp()),
        "join in the global pool" => {
            comity::join(|| (), || ());
            "joined".to_owned()
        }
        "join in a lenient global pool" => {
            comity::internal::have_lenient_global_pool();
            comity::join(|| (), || ());
            "joined".to_owned()
        }
        "build a lenient pool, then join in the global pool" => {
            comity::internal::lenient_builder().build().unwrap();
            comity::join(|| (), || ());
            "joined".to_owned()
        }
        "threads that want the global pool before they run" => {
            let handles = std::cell::RefCell::new(Vec::new());
            let built = ThreadPoolBuilder::new().num_threads(2).build_global_with(|worker| {
                handles.borrow_mut().push(std::thread::spawn(|| {
                    let workers = comity::current_num_threads();
                    worker.run();
                    workers
                }));
                Ok(())
            });
            format!("{} and {} workers", built.is_ok(), comity::current_num_threads())
        }
        "build the global pool twice" => {
            two_under_abp().build_global().unwrap();
            format!("{} workers; {:?}", comity::current_num_threads(), two_under_abp().build_global().unwrap_err())
        }
        "use the global pool, then build it" => {
            assert_eq!(comity::join(|| 1, || 2), (1, 2));
            format!("{} workers; {:?}", comity::current_num_threads(), two_under_abp().build_global().unwrap_err())
        }
        "everything in the global pool" => everything_in_the_global_pool(),
        "build until the memory ends" => build_until_the_memory_ends(),
        other => panic!("no role is called '{other}'"),
    };
    println!("\n{ANSWER}{answer}");
}

fn everything_in_the_global_pool() -> String {
    assert_eq!(comity::current_thread_index(), None);
    let (index, workers) = comity::join(comity::current_thread_index, comity::current_num_threads);
    assert!(index.is_some() && workers == 3);
    let mut squares = [0; 50];
    comity::scope(|scope| {
        for (i, square) in squares.iter_mut().enumerate() {
            scope.spawn(move |_| *square = i * i);
        }
    });
    assert!(squares.iter().enumerate().all(|(i, square)| *square == i * i));
    let parts = std::sync::Mutex::new(0);
    comity::for_range(0..100, 10, |part| *parts.lock().unwrap() += part.len());
    assert_eq!(parts.into_inner().unwrap(), 100);
    assert_eq!(comity::broadcast(|context| context.index()), [0, 1, 2]);
    let (sender, receiver) = std::sync::mpsc::channel();
    comity::spawn(move || sender.send(comity::current_thread_index().is_some()).unwrap());
    assert!(receiver.recv().unwrap());
    "right".to_owned()
}

fn build_until_the_memory_ends() -> String {
    let exited = Arc::new(AtomicUsize::new(0));
    let exits = Arc::clone(&exited);
    let builder = ThreadPoolBuilder::new().num_threads(64).stack_size(512 << 20);
    let builder = builder.thread_name(|index| format!("starved-{index}")).exit_handler(move |_| {
        exits.fetch_add(1, Ordering::Relaxed);
    });
    let error = builder.build().unwrap_err();
    let BuildError::Spawn { index, num_threads: 64, .. } = error else { panic!("{error}") };
    assert!((1..64).contains(&index), "{error}");
    assert_eq!(exited.load(Ordering::Relaxed), index, "workers that had started and have ended");
    wait::wait_until("no thread is left behind", || threads::named("starved-").is_empty());
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    assert_eq!(pool.join(|| 1, || 2), (1, 2));
    "no thread for a later worker; none left behind; the next pool works".to_owned()
}
