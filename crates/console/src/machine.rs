//! The machine that a result was taken on, and what it was computed with.

use std::fs;

use comity_os::{Capabilities, cores, quota};

use serde::{Deserialize, Serialize};

/// The machine and how it is set up.
#[derive(Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores that this process can use at a time: affinity and quota considered.
    pub cores: usize,
    /// Cores that the affinity mask allows.
    pub allowed_cores: usize,
    /// Cores' worth of time that the tightest cgroup quota grants.
    pub quota_cores: Option<f64>,
    /// The kernel's release.
    pub kernel: String,
    /// The tier of kernel support (see `comity doctor`).
    pub os_tier: u8,
    /// `same`, `separate`, or `separate-without-autogroup` where the kernel shares cores between threads all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_grouping: Option<String>,
}

/// What a result was computed with.
#[derive(Debug, Serialize, Deserialize)]
pub struct Versions {
    /// This command.
    pub comity: String,
    /// Stock rayon.
    pub rayon: String,
    /// The compiler.
    pub rustc: String,
}

/// Describes this machine; `task_grouping` is stated where programs ran together.
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

/// What the result was computed with.
pub fn versions() -> Versions {
    Versions {
        comity: env!("CARGO_PKG_VERSION").to_owned(),
        rayon: env!("COMITY_RAYON").to_owned(),
        rustc: env!("COMITY_RUSTC").to_owned(),
    }
}

/// The processor's name. Arm kernels do not tell one.
fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kernel() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/osrelease").ok()?.trim().to_owned())
}
