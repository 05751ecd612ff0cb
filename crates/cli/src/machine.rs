//! The machine that a result was taken on.

use std::fs;

use comity_os::{Capabilities, cores, quota};

use crate::json::{Machine, Versions};

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
    Versions { comity: env!("CARGO_PKG_VERSION"), rayon: env!("COMITY_RAYON"), rustc: env!("COMITY_RUSTC") }
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
