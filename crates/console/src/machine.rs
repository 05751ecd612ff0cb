//! The machine and the software versions behind a result.

use std::fs;

use comity_os::{Capabilities, cores, quota};

use serde::{Deserialize, Serialize};

/// The machine and its configuration.
#[derive(Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// The number of cores that this process can use at a time, limited by its affinity and quota.
    pub cores: usize,
    /// The number of cores that the affinity mask allows.
    pub allowed_cores: usize,
    /// The lowest cgroup quota, as a number of cores.
    pub quota_cores: Option<f64>,
    /// The kernel's release.
    pub kernel: String,
    /// The tier of kernel support (see `comity doctor`).
    pub os_tier: u8,
    /// The task groups of programs that ran together: `same` group, or `separate` groups. `separate-without-autogroup`:
    /// each program had its own session, but autogroup was off, so the kernel divided processor time among threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_grouping: Option<String>,
}

/// The versions of the software behind a result.
#[derive(Debug, Serialize, Deserialize)]
pub struct Versions {
    /// The version of this command.
    pub comity: String,
    /// The version of stock rayon.
    pub rayon: String,
    /// The version of the compiler.
    pub rustc: String,
}

/// Describes this machine. `task_grouping` is `Some` if programs ran together.
pub fn describe(task_grouping: Option<String>) -> Machine {
    Machine {
        cpu: cpu().unwrap_or_else(|| format!("unknown {}", std::env::consts::ARCH)),
        cores: cores::usable().get(),
        allowed_cores: cores::allowed().len(),
        quota_cores: quota::cores(),
        kernel: kernel().unwrap_or_else(|| "unknown".to_owned()),
        os_tier: Capabilities::detect().tier(),
        task_grouping,
    }
}

/// Returns the versions that this command was built with.
pub fn versions() -> Versions {
    Versions {
        comity: env!("CARGO_PKG_VERSION").to_owned(),
        rayon: env!("COMITY_RAYON").to_owned(),
        rustc: env!("COMITY_RUSTC").to_owned(),
    }
}

/// Returns the processor's name. Arm kernels report no name.
fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kernel() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/osrelease").ok()?.trim().to_owned())
}
