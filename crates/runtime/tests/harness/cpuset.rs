//! A cpuset that a test may change.

use std::fs;
use std::path::{Path, PathBuf};

use comity_os::CoreSet;

/// A cpuset for this program alone. It is removed when this value is dropped.
pub struct Cpuset {
    folder: PathBuf,
    /// The cpuset in which the program was before the test.
    home: PathBuf,
}

impl Cpuset {
    /// Creates a cpuset and moves this program into it. Returns `None` if the system does not allow that.
    pub fn new(cores: CoreSet) -> Option<Cpuset> {
        let place = fs::read_to_string("/proc/self/cpuset").ok()?;
        // The paths of version 1 and version 2 of control groups.
        let homes = ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"]
            .map(|root| Path::new(root).join(place.trim().trim_start_matches('/')));
        let home = homes.into_iter().find(|home| home.join("cpuset.cpus").exists())?;
        let folder = home.join(format!("comity-test-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let cpuset = Cpuset { folder, home };
        let mems = fs::read_to_string(cpuset.home.join("cpuset.mems")).unwrap_or_default();
        let _ = fs::write(cpuset.folder.join("cpuset.mems"), mems.trim());
        cpuset.set(cores)?;
        fs::write(cpuset.folder.join("cgroup.procs"), std::process::id().to_string()).ok()?;
        Some(cpuset)
    }

    pub fn set(&self, cores: CoreSet) -> Option<()> {
        let cores: Vec<String> = cores.iter().map(|core| core.to_string()).collect();
        fs::write(self.folder.join("cpuset.cpus"), cores.join(",")).ok()
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let _ = fs::write(self.home.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&self.folder);
    }
}
