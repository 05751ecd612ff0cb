//! The twin: a simulated host with the properties of this machine.

use std::collections::BTreeSet;
use std::fs;

use comity_console::Failure;
use comity_os::cores::{self, Core};
use comity_os::{clock, quota, task_group};
use comity_sim::threads::Host;
use comity_sim::threads::linux::{Groups, Linux, Version};
use serde::Serialize;

use crate::corun::Grouping;

/// A simulated host with the properties of the machine on which this command runs.
#[derive(Debug, Serialize)]
pub struct Twin {
    /// The number of cores that this command may use.
    pub cores: usize,
    /// The kernel of the host.
    pub linux: Linux,
    /// The known differences between the machine and the simulated host, as sentences.
    pub differs: Vec<String>,
}

/// The properties of the machine, as the kernel reports them.
struct MachineProperties {
    cores: Vec<Core>,
    /// The processors of each core's physical core, by number, in the order of `cores`. A set includes the core's own
    /// number.
    siblings: Vec<BTreeSet<usize>>,
    online: usize,
    release: String,
    hz: u32,
    quota: Option<f64>,
}

impl Twin {
    /// Makes the twin of this machine, from the properties that the kernel reports.
    ///
    /// # Errors
    /// If the simulator cannot model this machine.
    pub fn of_this_machine(grouping: Grouping) -> Result<Twin, Failure> {
        let cores = cores::allowed();
        let siblings = cores.iter().map(|core| siblings(core.id)).collect();
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let found = MachineProperties {
            cores,
            siblings,
            online: text("/proc/stat").matches("\ncpu").count(),
            release: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            hz: clock::ticks_per_second(),
            quota: quota::cores(),
        };
        let mut twin = found.twin().map_err(Failure::Run)?;
        if grouping == Grouping::Separate && task_group::autogroup_enabled() {
            match task_group::control_group() {
                None => twin.linux.groups = Groups::Separate,
                Some(group) => twin.differs.push(format!(
                    "the programs share one task group, because sessions in the control group {} are not task groups",
                    group.display()
                )),
            }
        }
        Ok(twin)
    }
}

impl MachineProperties {
    fn twin(&self) -> Result<Twin, String> {
        let cores = self.cores.len();
        if !(1..=Host::MOST_CORES).contains(&cores) {
            return Err(format!(
                "this command may use {cores} cores; the simulator supports 1 to {}",
                Host::MOST_CORES
            ));
        }
        let mut differs = Vec::new();
        let version = version(&self.release, &mut differs);
        let mut linux = Linux { hz: self.hz, ..Linux::new(version) };
        // The kernel scales its constants by the number of online processors, including processors that this command
        // may not use.
        linux.scaled_for = Some(self.online.max(cores) as u32);
        let packages: BTreeSet<usize> = self.cores.iter().map(|core| core.package).collect();
        let allowed: BTreeSet<usize> = self.cores.iter().map(|core| core.id).collect();
        let hardware_threads: BTreeSet<usize> =
            self.siblings.iter().map(|siblings| siblings.intersection(&allowed).count().max(1)).collect();
        match hardware_threads.into_iter().collect::<Vec<_>>().as_slice() {
            [one @ (1 | 2)] => linux.threads_per_core = *one as u32,
            numbers => differs.push(format!(
                "the simulated cores have one hardware thread each; this command's cores have {numbers:?}"
            )),
        }
        linux.sockets = packages.len().max(1) as u32;
        if linux.check(cores as u32).is_err() {
            let sockets = linux.sockets;
            differs.push(format!(
                "{cores} cores are not divided evenly among {sockets} sockets, so one socket is simulated"
            ));
            linux.sockets = 1;
        }
        linux.check(cores as u32)?;
        if let Some(quota) = self.quota.filter(|quota| *quota < cores as f64) {
            differs.push(format!("a quota of {quota} cores for all programs together is not simulated"));
        }
        Ok(Twin { cores, linux, differs })
    }
}

/// Returns the version of the simulated kernel whose rules are closest to the rules of a Linux release. Adds to
/// `differs` if the versions differ.
fn version(release: &str, differs: &mut Vec<String>) -> Version {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten().unwrap_or(0);
    let found: (u32, u32, u32) = (next(), next(), next());
    let (version, simulated) = match found {
        // EEVDF is in all kernels from this version on.
        (6, 6.., _) | (7.., _, _) => (Version::V6_18, "6.18 (EEVDF, as all versions from 6.6)"),
        (0, _, _) => (Version::V6_18, "6.18"),
        (2, 6, ..=32) => (Version::V2_6_32, "2.6.32"),
        (2, _, _) => (Version::V2_6_36, "2.6.36"),
        _ => (Version::V3_9, "3.9 (CFS, as all versions from 2.6.23 to 6.5)"),
    };
    if !matches!(found, (6, 18, _)) {
        differs.push(format!("Linux {release} is simulated with the rules of {simulated}"));
    }
    version
}

/// Returns the numbers of the processors of a physical core. Returns only `core` if the kernel does not list them.
fn siblings(core: usize) -> BTreeSet<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let text = fs::read_to_string(path).unwrap_or_default();
    let range = |piece: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().chain([core]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cores: usize, packages: usize, threads: usize, release: &str) -> MachineProperties {
        let core = |id| Core { id, package: id * packages / cores, node: 0 };
        let siblings = |id: usize| (id / threads * threads..(id / threads + 1) * threads).collect();
        MachineProperties {
            cores: (0..cores).map(core).collect(),
            siblings: (0..cores).map(siblings).collect(),
            online: cores,
            release: release.to_owned(),
            hz: 250,
            quota: None,
        }
    }

    #[test]
    fn a_machine_is_read() {
        let twin = found(32, 2, 2, "6.18.44-generic").twin().unwrap();
        let linux = Linux { sockets: 2, threads_per_core: 2, scaled_for: Some(32), ..Linux::new(Version::V6_18) };
        assert_eq!((twin.cores, twin.linux, twin.differs), (32, linux, Vec::new()));
    }

    #[test]
    fn what_is_otherwise_is_said() {
        let uneven = MachineProperties { quota: Some(1.5), ..found(5, 2, 1, "5.15.0-91-generic") };
        let twin = uneven.twin().unwrap();
        assert_eq!((twin.linux.version, twin.linux.sockets), (Version::V3_9, 1));
        for (said, part) in twin.differs.iter().zip(["rules of 3.9", "not divided evenly among 2", "quota of 1.5"]) {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(twin.differs.len(), 3);
        assert!(found(0, 1, 1, "6.18").twin().is_err());
    }

    #[test]
    fn each_kernel_has_the_rules_nearest_to_its_own() {
        for (release, expected) in [
            ("7.0.1", Version::V6_18),
            ("6.6.0", Version::V6_18),
            ("6.5.13", Version::V3_9),
            ("5.4.0", Version::V3_9),
            ("3.9.4", Version::V3_9),
            ("2.6.39", Version::V2_6_36),
            ("2.6.32-5-amd64", Version::V2_6_32),
        ] {
            assert_eq!(version(release, &mut Vec::new()), expected, "{release}");
        }
    }

    #[test]
    fn the_twin_has_this_machines_cores() {
        let twin = Twin::of_this_machine(Grouping::Same).unwrap();
        assert_eq!(twin.cores, cores::allowed().len());
        assert!((100..=10_000).contains(&twin.linux.hz), "{:?}", twin.linux);
        assert_eq!(twin.linux.groups, Groups::Same);
    }
}
