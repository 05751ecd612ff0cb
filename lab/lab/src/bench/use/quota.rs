//! A control group with a quota of processor time, under either version of control groups.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use comity_os::census::Stat;

/// The period of the quota, in microseconds.
const PERIOD_US: u32 = 100_000;

/// The prefix of the names of this bench's groups. The id of the bench's process follows it.
const PREFIX: &str = "comity-bench-use-";

/// The time after the end of its processes within which a group can be removed.
const FREE_WITHIN: Duration = Duration::from_secs(2);

/// The version of control groups. It determines the folder of the cpu controller's groups, and the names of the files
/// for the quota.
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

/// A control group of the bench. Dropping the value removes the group, whose processes must have ended.
pub struct Quota {
    folder: PathBuf,
    version: Version,
}

impl Quota {
    /// Makes a group that grants its processes the time of `cores` cores together. `nth` distinguishes the groups of
    /// this process.
    ///
    /// # Errors
    /// If this process cannot make a group, under either version.
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

    /// Sets the number of cores that the group grants from now on.
    ///
    /// # Errors
    /// If the group has no quota of processor time.
    pub fn grant(&self, cores: f64) -> io::Result<()> {
        let quota_us = (cores * f64::from(PERIOD_US)) as u32;
        // The file must exist, because another file system than that of control groups would create a file of any
        // name.
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

    /// Returns the file to which a process writes its id to join the group.
    pub fn entrance(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let start = Instant::now();
        // A process can be in the group for a moment after its parent has waited for it.
        while fs::remove_dir(&self.folder).is_err() && start.elapsed() < FREE_WITHIN {
            sleep(Duration::from_millis(10));
        }
    }
}

/// Removes the groups of earlier processes of this bench that a signal ended.
fn remove_left_over(version: Version) {
    for entry in fs::read_dir(version.root()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = || name.to_str()?.strip_prefix(PREFIX)?.split('-').next()?.parse().ok();
        if process().is_some_and(|process| Stat::of_process(process).is_none()) {
            let _in_use = fs::remove_dir(entry.path());
        }
    }
}
