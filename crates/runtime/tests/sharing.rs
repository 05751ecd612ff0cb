//! Two programs compute and share cores. One is killed or stopped. The other program continues, and has all cores in
//! the end.
// Only Linux offers what these tests are about.
#![cfg(not(any(loom, comity_portable)))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/fib.rs"]
mod fib;
#[path = "harness/wait.rs"]
mod wait;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use comity::{Policy, ThreadPoolBuilder};
use comity_policy::Sharing;
use comity_table::{Life, Location, STOPPED_AFTER, Snapshot};
use fib::fib;
use wait::wait_until;
use watchdog::Watchdog;

const POLICIES: [&str; 4] = ["comity", "dws", "a-steal", "equipartition"];

/// A table that no other test uses.
struct Table(PathBuf);

impl Table {
    fn new(name: &str) -> Table {
        let path = std::env::temp_dir().join(format!("comity-sharing-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Table(path)
    }

    /// Returns the state of the program: its life, the number of cores that it holds, and the number of its claims so
    /// far.
    fn of(&self, program: &Program) -> Option<(Life, usize, u64)> {
        let snapshot = Snapshot::take(&Location::At(self.0.clone())).unwrap()?;
        let program = snapshot.programs.iter().find(|found| found.pid == program.0.id())?;
        Some((program.life, program.held.len(), program.claimed))
    }

    fn desire(&self, program: &Program) -> u32 {
        let snapshot = Snapshot::take(&Location::At(self.0.clone())).unwrap();
        let programs = snapshot.map_or_else(Vec::new, |snapshot| snapshot.programs);
        programs.iter().find(|found| found.pid == program.0.id()).map_or(0, |found| found.desire)
    }

    fn held(&self, program: &Program) -> usize {
        self.of(program).map_or(0, |(_, held, _)| held)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A process that computes until it is told to end, or the test ends.
struct Program(Child);

impl Program {
    fn start(policy: &str, table: &Path) -> Program {
        let mut command = child::command("compute");
        command.env("COMITY_TABLE", table).env("COMITY_POLICY", policy);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        Program(command.spawn().unwrap())
    }

    fn signal(&self, signal: &str) {
        let status = std::process::Command::new("kill").args(["-s", signal, &self.0.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Ends the program, and checks that its results were right and that it printed nothing.
    fn end(mut self) {
        drop(self.0.stdin.take());
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.success() && said.is_empty(), "{status}: {said}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts two programs and waits until both have cores, if the machine has two.
fn two_that_share(policy: &str, table: &Table, cores: usize) -> [Program; 2] {
    let programs = [(); 2].map(|()| Program::start(policy, &table.0));
    wait_until("both have cores", || programs.iter().filter(|program| table.held(program) > 0).count() == cores.min(2));
    programs
}

#[test]
fn when_a_program_is_killed_the_other_has_all_cores() {
    let watchdog = Watchdog::start("when_a_program_is_killed_the_other_has_all_cores");
    let cores = comity_os::cores::usable().get();
    for (nth, policy) in POLICIES.into_iter().cycle().take(8).enumerate() {
        watchdog.step(format!("{nth}: {policy}"));
        let table = Table::new(&format!("killed-{nth}"));
        let [one, other] = two_that_share(policy, &table, cores);
        std::thread::sleep(Duration::from_millis(37 * nth as u64 % 101));
        one.kill();
        wait_until("the other holds all cores", || table.held(&other) == cores);
        // The other program may have borrowed all cores before. Then its next look removes the dead program from the
        // table.
        let programs = || Snapshot::take(&Location::At(table.0.clone())).unwrap().unwrap().programs.len();
        wait_until("the dead one is reaped", || programs() == 1);
        other.end();
        let snapshot = Snapshot::take(&Location::At(table.0.clone())).unwrap().unwrap();
        assert!(
            snapshot.programs.is_empty() && snapshot.cores.is_empty(),
            "a program that ends leaves nothing: {snapshot:?}"
        );
    }
}

#[test]
fn when_a_program_is_stopped_the_other_has_all_cores_until_it_goes_on() {
    let watchdog = Watchdog::start("when_a_program_is_stopped_the_other_has_all_cores_until_it_goes_on");
    let cores = comity_os::cores::usable().get();
    for policy in POLICIES {
        watchdog.step(policy);
        let table = Table::new(&format!("stopped-{policy}"));
        let [one, other] = two_that_share(policy, &table, cores);
        // While the machine is busy, a program may share time. It then requests no core and takes no core from the
        // other program.
        one.signal("STOP");
        while table.desire(&one) == 0 {
            one.signal("CONT");
            wait_until("it desires cores", || table.desire(&one) > 0);
            one.signal("STOP");
        }
        wait_until("the other holds all cores", || table.held(&other) == cores);
        wait_until("the one counts as stopped", || table.of(&one).is_some_and(|(life, ..)| life == Life::Stopped));
        one.signal("CONT");
        wait_until("the one has cores again", || table.held(&one) > 0);
        wait_until("and counts as living", || table.of(&one).is_some_and(|(life, ..)| life == Life::Living));
        one.end();
        wait_until("the other holds all cores once more", || table.held(&other) == cores);
        other.end();
    }
}

/// Checks the longest quantum. A coordinator that looked less often would count as stopped, and its program would
/// lose its cores while it works.
#[test]
fn no_quantum_is_nearly_as_long_as_the_time_after_which_a_program_counts_as_stopped() {
    let mut rows = 0;
    for policy in Policy::all().filter(Policy::shares_cores) {
        let longest: Policy = format!("{policy}:quantum_us=200000").parse().unwrap();
        assert!(Sharing::of(&longest).unwrap().1 * 2 <= STOPPED_AFTER);
        assert!(format!("{policy}:quantum_us=200001").parse::<Policy>().is_err());
        rows += 1;
    }
    assert!(rows >= POLICIES.len());
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    if child::role().is_none() {
        return;
    }
    let end = child::end();
    let pool = ThreadPoolBuilder::new().build().unwrap();
    // The program always has work. A program that is stopped while it has no work holds no core, and counts as alive.
    pool.install(|| {
        while !end.load(Ordering::Relaxed) {
            assert_eq!(fib(24), 46_368);
        }
    });
    pool.shutdown();
}
