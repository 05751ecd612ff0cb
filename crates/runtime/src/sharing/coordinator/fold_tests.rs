//! Pools of real threads with recorded steal time: the coordinator reads `/proc/stat` as a virtual machine with eight
//! CPUs would show it.
//!
//! The test machine may have fewer CPUs, so the coordinator is told that it may use eight. All other code is the
//! released code. The test runs on the coordinator's thread, and plays the record back while it waits for the next
//! look. The coordinator's clock is the record's clock. It is faster than the machine's clock, because the first fold
//! (use of fewer cores) comes after 16 s.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::{env, fs};

use comity_policy::{Policy, Sharing};
use comity_table::Location;

use super::*;
use crate::workers::current;
use crate::{ThreadPool, ThreadPoolBuilder, join};

const CPUS: u32 = 8;

/// The environment variable with the folder of the process that plays the role.
const FOLDER: &str = "COMITY_TEST_FOLDER";

/// The counts of each CPU in a guest's `/proc/stat`, every 20 ms. All CPUs request time, and the host grants each CPU
/// half of the time.
const AT_HALF: [&str; 3] =
    ["4711 0 310 90211 44 0 12 2205 0 0", "4712 0 310 90211 44 0 12 2206 0 0", "4712 0 311 90211 44 0 12 2207 0 0"];

/// Counts like [`AT_HALF`], but half of the CPUs request time, and the host grants all of it.
const FOLDED: [&str; 3] =
    ["4712 0 311 90211 44 0 12 2207 0 0", "4713 0 311 90212 44 0 12 2207 0 0", "4713 0 312 90213 44 0 12 2207 0 0"];

/// Counts of a guest whose host grants each CPU all of the time.
const WHOLE: [&str; 3] =
    ["4712 0 311 90211 44 0 12 2207 0 0", "4713 0 312 90211 44 0 12 2207 0 0", "4715 0 312 90211 44 0 12 2207 0 0"];

/// Counts of a machine without a host.
const NO_GUEST: [&str; 2] = ["4711 0 310 90211 44 0 12 0 0 0", "4713 0 310 90211 44 0 12 0 0 0"];

const APART: Duration = Duration::from_millis(20);

/// The speed of the record's clock relative to the machine's: the number of record lines that are played in the time
/// of one line.
const FASTER: u32 = 8;

/// A player that repeats recorded stretches into a file. The counts in the file grow like the kernel's counts.
struct Player {
    path: PathBuf,
    counts: [u64; 10],
    played: usize,
}

fn counts(line: &str) -> [u64; 10] {
    let mut words = line.split(' ').map(|word| word.parse().expect("a count"));
    std::array::from_fn(|_| words.next().expect("ten counts"))
}

impl Player {
    fn new(path: PathBuf, first: &str) -> Player {
        let player = Player { path, counts: counts(first), played: 0 };
        player.write();
        player
    }

    /// Adds the difference between two lines of the stretch to the counts.
    fn play(&mut self, stretch: &[&str]) {
        let nth = self.played % (stretch.len() - 1);
        let [before, after] = [counts(stretch[nth]), counts(stretch[nth + 1])];
        let more = before.into_iter().zip(after).map(|(before, after)| after - before);
        self.counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        self.played += 1;
        self.write();
    }

    fn write(&self) {
        let line = |name: &str, cpus: u64| {
            let counts = self.counts.map(|count| (count * cpus).to_string()).join(" ");
            format!("{name} {counts}\n")
        };
        let mut text = line("cpu ", CPUS.into());
        (0..CPUS).for_each(|cpu| text += &line(&format!("cpu{cpu}"), 1));
        fs::write(&self.path, text + "intr 9 0 0\nctxt 4711\n").expect("the record is played");
    }
}

/// Computes in phases of 64 tasks of half a millisecond: enough for all workers, which have no task between two
/// phases.
fn compute(stopped: &AtomicBool) {
    fn phase(depth: u32) {
        if depth > 0 {
            _ = join(|| phase(depth - 1), || phase(depth - 1));
            return;
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(500) {
            std::hint::spin_loop();
        }
    }
    while !stopped.load(Ordering::Relaxed) {
        phase(6);
    }
}

/// A program with a pool that has a worker for each CPU of the guest.
struct Guest {
    pool: ThreadPool,
    registry: Arc<Registry>,
    program: Arc<Program>,
    stop: Arc<AtomicBool>,
    player: Player,
    began_ns: u64,
}

impl Guest {
    fn new(folder: &str, policy: Policy, first: &str) -> Guest {
        let player = Player::new(PathBuf::from(folder).join("stat"), first);
        let pool = ThreadPoolBuilder::new().num_threads(CPUS as usize).policy(policy).build().expect("a pool");
        let registry = pool.install(|| current::with(|worker| worker.and_then(|worker| worker.registry().me())));
        let registry = registry.expect("the pool is there");
        let stop: Arc<AtomicBool> = Arc::default();
        let stopped = Arc::clone(&stop);
        pool.spawn(move || compute(&stopped));
        let settings = ProgramSettings { weight: Some(100), cores: None };
        let program = Arc::new(Program::new(policy, Location::At(PathBuf::from(folder).join("table")), settings));
        program.add(&registry);
        Guest { pool, registry, program, stop, player, began_ns: now_ns() }
    }

    fn now_ns(&self) -> u64 {
        self.began_ns + self.player.played as u64 * APART.as_nanos() as u64
    }

    /// The number of workers that may be awake, and the number of workers that are retired because that number is too
    /// small.
    fn room_and_retired(&self) -> [u32; 2] {
        let activation = self.registry.activation.as_ref().expect("the policy shares cores");
        let books = activation.books();
        [activation.room(&books), books.retired()]
    }

    /// Lets `look` act as the program's coordinator until it returns.
    fn coordinate(mut self, look: impl FnOnce(&mut Coordinator<'_>, &mut Guest)) {
        let program = Arc::clone(&self.program);
        let member = Arc::new(Member::join(&program.location, &profile(&program)).expect("a place in the table"));
        program.joined(&member);
        let (_, quantum) = Sharing::of(&program.policy).expect("the policy shares cores");
        let mut coordinator = Coordinator::new(&program, Arc::clone(&member), quantum);
        let stat = coordinator.limits.stat.take().and_then(|_| Stat::at(&self.player.path));
        coordinator.limits.stat = stat;
        coordinator.limits.usable = CPUS;
        coordinator.limits.may_use = (0..CPUS as usize).collect();
        // The coordinator does not look for other limits.
        coordinator.limits.found = Some(Instant::now() + Duration::from_secs(3600));
        let pools = coordinator.pools();
        coordinator.decide(&pools, |coordination, driver| coordination.begin(driver, self.now_ns()));
        look(&mut coordinator, &mut self);
        self.stop.store(true, Ordering::Relaxed);
        program.leave(&member);
        program.has_left();
        self.pool.shutdown();
    }

    /// Plays the stretch until the next look. Returns true if there was a look.
    fn look(&mut self, coordinator: &mut Coordinator<'_>, stretch: &[&str]) -> bool {
        thread::sleep(APART);
        (0..FASTER).for_each(|_| self.player.play(stretch));
        let pools = coordinator.pools();
        coordinator.decide(&pools, |coordination, driver| coordination.come_by(driver, self.now_ns())) == Visit::Looked
    }

    /// Plays the stretch until `is_so` is true. The deadline is long, because threads of the real machine must run
    /// meanwhile.
    fn look_until(
        &mut self,
        coordinator: &mut Coordinator<'_>,
        stretch: &[&str],
        what: &str,
        is_so: impl Fn([u32; 2]) -> bool,
    ) {
        let deadline = Instant::now() + Duration::from_secs(110);
        while !is_so(self.room_and_retired()) {
            self.look(coordinator, stretch);
            assert!(Instant::now() < deadline, "{what}: {:?}", self.room_and_retired());
        }
    }
}

/// Plays a role in a separate process, whose pools join no table automatically.
fn play(role: &str) {
    let folder = env::temp_dir().join(format!("comity-fold-{role}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the test");
    let status = Command::new(env::current_exe().expect("this program has a path"))
        .args([&format!("sharing::coordinator::fold_tests::{role}"), "--exact", "--ignored", "--nocapture"])
        .env("COMITY_TABLE", "off")
        .env(FOLDER, &folder)
        .status()
        .expect("this program starts once more");
    fs::remove_dir_all(&folder).expect("it was this test's");
    assert!(status.success(), "{role}");
}

#[test]
fn eight_workers_fold_to_four_at_half_and_unfold() {
    play("folds_and_unfolds");
}

#[test]
fn nothing_folds_if_steal_time_is_unknown_or_ignored() {
    play("keeps_all");
}

#[test]
#[ignore = "a role that another test plays in a process of its own"]
fn folds_and_unfolds() {
    let Ok(folder) = env::var(FOLDER) else { return };
    Guest::new(&folder, Policy::default(), AT_HALF[0]).coordinate(|coordinator, guest| {
        assert_eq!(guest.room_and_retired()[0], CPUS);
        // Checked right after the fold, before any worker has retired.
        guest.look_until(coordinator, &AT_HALF, "it folds", |[room, _]| room < CPUS);
        assert_eq!(guest.room_and_retired()[0], CPUS / 2);
        guest.look_until(coordinator, &FOLDED, "workers retire", |[_, retired]| retired >= CPUS / 2);
        guest.look_until(coordinator, &WHOLE, "it unfolds", |counts| counts == [CPUS, 0]);
    });
}

#[test]
#[ignore = "a role that another test plays in a process of its own"]
fn keeps_all() {
    let Ok(folder) = env::var(FOLDER) else { return };
    for (policy, stretch) in [("comity", &NO_GUEST[..]), ("comity:fold=off", &AT_HALF[..])] {
        let policy: Policy = policy.parse().expect("a policy");
        Guest::new(&folder, policy, stretch[0]).coordinate(|coordinator, guest| {
            assert_eq!(coordinator.limits.stat.is_some(), policy.folds());
            let mut looks = 0;
            // The looks cover more time than a fold needs.
            while looks < 20 || guest.player.played < 1200 {
                looks += u32::from(guest.look(coordinator, stretch));
                assert_eq!(guest.room_and_retired()[0], CPUS, "{policy}");
            }
        });
    }
}
