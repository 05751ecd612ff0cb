//! Processes that join a table: the test program itself, started as a child that plays a role.
//!
//! A test program that uses this module has an ignored test that calls [`play`].

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use comity_table::{Location, Member, Request, Snapshot, request};
use rustix::process::{Pid, Signal, kill_process};

use super::{Seat as _, Steps as _, profile};

const ROLE: &str = "COMITY_TEST_ROLE";
const SEED: &str = "COMITY_TEST_SEED";

/// The number of cores that the roles share. These cores need not exist.
pub const SHARED: usize = 6;

/// A child process. It ends when this value is dropped, or when the test ends.
pub struct Process(Child);

impl Process {
    /// Starts a process that plays `role` in the table. `child` is the full name of the test that plays it.
    pub fn start(child: &str, role: &str, seed: u64, table: &Path) -> Process {
        Process::spawn(&mut command(child, role, seed, table))
    }

    pub fn spawn(command: &mut Command) -> Process {
        Process(command.spawn().expect("a test can run itself"))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("a child that was not waited for can be signalled");
    }

    /// Kills the process, and returns when it has ended.
    pub fn kill(&mut self) -> ExitStatus {
        let _ = self.0.kill();
        self.0.wait().expect("it is this process's child")
    }

    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        super::wait_until("the process ends", || {
            status = self.0.try_wait().expect("it is this process's child");
            status.is_some()
        });
        status.expect("as above")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the path of the test program of another version, from `COMITY_OTHER_BUILD`. If it is set, that program plays
/// all roles with an odd seed.
pub fn other_build() -> Option<PathBuf> {
    std::env::var_os("COMITY_OTHER_BUILD").map(PathBuf::from)
}

/// Returns a command that starts this test program in `role`.
pub fn command(child: &str, role: &str, seed: u64, table: &Path) -> Command {
    let other = other_build().filter(|_| seed % 2 == 1);
    let program = other.unwrap_or_else(|| std::env::current_exe().expect("a test knows its program"));
    let mut command = Command::new(program);
    command.args([child, "--exact", "--ignored", "--nocapture"]).env(ROLE, role).env(SEED, seed.to_string());
    command.env("COMITY_TABLE", table).env_remove("COMITY_FAULT");
    // The role's process ends when its standard input ends, which happens when the test ends.
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command
}

/// Returns the command of [`command`] for a unit test. The other version's program is an integration test, so its name
/// of the child test differs.
pub fn stand_in(child: &str, role: &str, seed: u64, table: &Path) -> Command {
    command(if other_build().is_some() && seed % 2 == 1 { "child" } else { child }, role, seed, table)
}

/// Plays the role that this process was started for, if any.
pub fn play(others: impl FnOnce(&str)) {
    let Ok(role) = std::env::var(ROLE) else { return };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    match role.as_str() {
        "wander" => wander(&mut Random(seed), usize::MAX, Duration::from_micros(200)),
        "wander and leave" => loop {
            wander(&mut Random(seed), 100, Duration::ZERO);
        },
        "hold half" => hold(SHARED as u32 / 2),
        other => others(other),
    }
}

pub fn join() -> Member {
    let location = Location::from_environment().expect("a role has a table");
    Member::join(&location, &profile(std::process::id().into(), 0..SHARED)).unwrap_or_else(|error| panic!("{error}"))
}

/// Takes random steps, then leaves.
fn wander(random: &mut Random, steps: usize, pause: Duration) {
    let member = join();
    for _ in 0..steps {
        match random.below(10) {
            0 | 1 => {
                member.round(random.below(SHARED as u64 + 1) as u32, 1);
            }
            2 | 3 => {
                member.claim(random.below(2) == 0);
            }
            4 | 5 => {
                member.take_back();
            }
            6 => {
                member.release((random.below(2) == 0).then(|| random.below(SHARED as u64) as usize));
            }
            7 => member.note_lost(1),
            8 => ask(&member, random),
            _ => {
                let heard = member.bell();
                member.want(random.below(2) == 0);
                member.wait(heard, Duration::from_micros(100));
            }
        }
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
}

/// Sends a request to a random program of the table, which may be this program.
fn ask(member: &Member, random: &mut Random) {
    let _obeyed = member.requests();
    let location = Location::from_environment().expect("a role has a table");
    let Ok(Some(table)) = Snapshot::take(&location) else { return };
    let those_that_obey: Vec<_> = table.programs.iter().filter(|program| program.requests.is_some()).collect();
    if let Some(program) = those_that_obey.get(random.below(those_that_obey.len().max(1) as u64) as usize) {
        let asked = match random.below(4) {
            0 => Request::Weight(Some(1 + random.below(10_000) as u32)),
            1 => Request::Cores(Some(1 + random.below(SHARED as u64) as u32)),
            2 => Request::Pause(Duration::from_millis(random.below(100))),
            _ => Request::Resume,
        };
        let _gone = request(&location, program, &[asked]);
    }
}

/// Reports a desire for all cores. Claims at most `most` of its own cores, and no other cores.
fn hold(most: u32) {
    let member = join();
    loop {
        let mut standing = member.round(SHARED as u32, 1);
        while standing.held < most && (member.claim(true).is_some() || member.take_back().is_some()) {
            standing.held += 1;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// SplitMix64. The same seed reproduces a run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }
}
