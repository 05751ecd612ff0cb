//! Detection of quotas that stop the threads of a process. Such a process leaves processor time unused although it has
//! work.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::{cgroup, quota};

/// The interval at which the groups are searched again, because a process may be moved and a quota may change.
const AGAIN: Duration = Duration::from_secs(1);

/// The time for which a process counts as throttled after a stop. The kernel updates the counts at the end of the
/// quota's period, which is usually 0.1 s and at most 1 s.
const MEMORY: Duration = Duration::from_secs(1);

/// The counts of the quotas that apply to one process.
///
/// [`Throttle::is_active`] takes 8 µs for each group with a quota. Once a second it takes another 15 µs, and 10 µs for
/// each group that contains the process.
#[derive(Debug)]
pub struct Throttle {
    process: u32,
    mounts: String,
    /// The groups that have a quota, each with the number of times that its quota has stopped it.
    groups: Vec<(PathBuf, u64)>,
    found: Option<Instant>,
    throttled: Option<Instant>,
}

impl Throttle {
    /// Creates the counts of a process, which must see the same file systems as the caller.
    pub fn of(process: u32) -> Throttle {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Throttle { process, mounts, groups: Vec::new(), found: None, throttled: None }
    }

    /// True if a quota stopped the process within the last second. Stops before the first call are not noticed.
    pub fn is_active(&mut self, now: Instant) -> bool {
        if self.found.is_none_or(|found| now.duration_since(found) >= AGAIN) {
            self.find();
            self.found = Some(now);
        }
        for (group, before) in &mut self.groups {
            let times = times_stopped(group);
            if times > *before {
                self.throttled = Some(now);
            }
            *before = times;
        }
        self.throttled.is_some_and(|last| now.duration_since(last) < MEMORY)
    }

    fn find(&mut self) {
        let membership = fs::read_to_string(format!("/proc/{}/cgroup", self.process)).unwrap_or_default();
        let groups = cgroup::groups_in("cpu", &membership, &self.mounts).into_iter();
        let limited = groups.filter(|(version, group)| quota::quota(*version, group).is_some());
        let known = std::mem::take(&mut self.groups);
        let before = |group: &PathBuf| known.iter().find(|(other, _)| other == group).map(|(_, times)| *times);
        self.groups = limited
            .map(|(_, group)| {
                let times = before(&group).unwrap_or_else(|| times_stopped(&group));
                (group, times)
            })
            .collect();
        if self.groups.is_empty() {
            self.throttled = None;
        }
    }
}

/// Returns the number of times that a group's quota has stopped it. Cgroup v1 and v2 both report it as `nr_throttled`
/// in `cpu.stat`.
fn times_stopped(group: &std::path::Path) -> u64 {
    let text = fs::read_to_string(group.join("cpu.stat")).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix("nr_throttled "));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_was_stopped_is_noticed_and_forgotten_without_its_quota() {
        let root = std::env::temp_dir().join(format!("comity-throttle-{}", std::process::id()));
        let own = root.join("job");
        fs::create_dir_all(&own).unwrap();
        let write = |file: &str, text: &str| fs::write(own.join(file), text).unwrap();
        write("cpu.max", "50000 100000");
        write("cpu.stat", "usage_usec 9\nnr_periods 5\nnr_throttled 3\nthrottled_usec 70\n");
        let mut throttle = Throttle::of(std::process::id());
        // In a real process, the kernel provides this path.
        throttle.mounts = format!("30 1 0:26 / {} rw - cgroup2 cgroup2 rw", root.display());
        let groups = cgroup::groups_in("cpu", "0::/job\n", &throttle.mounts);
        assert_eq!(groups.len(), 2);
        let now = Instant::now();
        throttle.groups = vec![(own.clone(), times_stopped(&own))];
        throttle.found = Some(now);
        assert!(!throttle.is_active(now));
        write("cpu.stat", "nr_throttled 4\n");
        assert!(throttle.is_active(now));
        assert!(throttle.is_active(now + MEMORY / 2));
        throttle.found = Some(now + MEMORY);
        assert!(!throttle.is_active(now + MEMORY));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_process_that_is_gone_is_not_throttled() {
        assert!(!Throttle::of(u32::MAX).is_active(Instant::now()));
    }
}
