//! A control group with a quota of processor time, under either version of control groups.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use comity_os::census::Stat;

/// The quota is granted anew so often.
const PERIOD_US: u32 = 100_000;

/// What the groups of this bench are called, followed by the number of its process.
const PREFIX: &str = "comity-bench-use-";

/// A group is free within this time after its processes have ended.
const FREE_WITHIN: Duration = Duration::from_secs(2);

/// Where the groups with the cpu controller are, and how they are told their quota.
#[derive(Clone, Copy)]
enum Version {
    One,
    Two,
}

impl Version {
    fn root(self) -> &'static Path {
        Path::new(match self {
            Version::One => "/sys/fs/cgroup/cpu",
            Version::Two => "/sys/fs/cgroup",
        })
    }
}

/// A group of its own. It is removed when the value is dropped; its processes must have ended.
pub struct Quota {
    folder: PathBuf,
    version: Version,
}

impl Quota {
    /// A new group that grants its processes so many cores together; `nth` of this process.
    ///
    /// # Errors
    /// If neither version lets this process make one.
    pub fn new(nth: usize, cores: f64) -> io::Result<Quota> {
        [Version::One, Version::Two].into_iter().for_each(remove_left_over);
        Quota::of_version(Version::One, nth, cores).or_else(|_| Quota::of_version(Version::Two, nth, cores))
    }

    fn of_version(version: Version, nth: usize, cores: f64) -> io::Result<Quota> {
        let folder = version.root().join(format!("{PREFIX}{}-{nth}", std::process::id()));
        fs::create_dir(&folder)?;
        let quota = Quota { folder, version };
        quota.grant(cores)?;
        Ok(quota)
    }

    /// From now on it grants so many cores.
    ///
    /// # Errors
    /// If the group has no quota of processor time.
    pub fn grant(&self, cores: f64) -> io::Result<()> {
        let quota_us = (cores * f64::from(PERIOD_US)) as u32;
        // It makes no file: a file system that is none of control groups would take any name.
        let write = |file: &str, text: String| {
            OpenOptions::new().write(true).open(self.folder.join(file))?.write_all(text.as_bytes())
        };
        match self.version {
            Version::One => {
                write("cpu.cfs_period_us", PERIOD_US.to_string())?;
                write("cpu.cfs_quota_us", quota_us.to_string())
            }
            Version::Two => write("cpu.max", format!("{quota_us} {PERIOD_US}")),
        }
    }

    /// What a process writes its number to in order to be in the group.
    pub fn entrance(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let start = Instant::now();
        // A process that was just waited for may still be on its way out of the group.
        while fs::remove_dir(&self.folder).is_err() && start.elapsed() < FREE_WITHIN {
            sleep(Duration::from_millis(10));
        }
    }
}

/// Removes the groups of earlier processes that were ended by a signal.
fn remove_left_over(version: Version) {
    for entry in fs::read_dir(version.root()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = || name.to_str()?.strip_prefix(PREFIX)?.split('-').next()?.parse().ok();
        if process().is_some_and(|process| Stat::of_process(process).is_none()) {
            let _in_use = fs::remove_dir(entry.path());
        }
    }
}
