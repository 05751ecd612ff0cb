//! Reads the processor time of sessions, and the idle time of cores since the machine started. Both are in seconds.

use std::fs;

use comity_console::Failure;
use comity_os::{census, cores};
use rustix::param::clock_ticks_per_second;

/// Returns the processor seconds of all processes in the session of `leader`, and of the children for which these
/// processes have waited.
pub fn used_in_session(leader: u32) -> f64 {
    let ticks = census::processes().into_iter().filter_map(|process| {
        let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        ticks_in_session(&line, leader)
    });
    ticks.sum::<u64>() as f64 / clock_ticks_per_second() as f64
}

/// Returns the ticks of a line of `/proc/PID/stat` if its process is in the session of `leader`.
///
/// The line is `id (name) state parent group session …`; the name may contain spaces and brackets. Fields 14 to 17
/// are the time in user mode and in the kernel, of the process and of its children.
fn ticks_in_session(line: &str, leader: u32) -> Option<u64> {
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let is_in = fields.get(3)?.parse() == Ok(leader);
    is_in.then(|| fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum())?
}

/// Returns the sum of the idle seconds of all cores that this process may use.
pub fn idle() -> Result<f64, Failure> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = cores::allowed().iter().map(|core| idle_ticks(&text, core.id)).sum::<Option<u64>>();
    let ticks = ticks.ok_or_else(|| Failure::Run("/proc/stat does not say how long cores were idle".to_owned()))?;
    Ok(ticks as f64 / clock_ticks_per_second() as f64)
}

/// Returns the idle ticks of a core, from `cpu7 user nice system idle iowait …`. The time `iowait`, in which an
/// operation of the core waits for a disk, counts as idle.
fn idle_ticks(text: &str, core: usize) -> Option<u64> {
    let name = format!("cpu{core}");
    let mut fields = text.lines().map(str::split_ascii_whitespace);
    let of_core = fields.find_map(|mut fields| (fields.next() == Some(&name)).then_some(fields))?;
    of_core.skip(3).take(2).map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_in_its_own_session_with_the_children_that_it_waited_for() {
        let line = "12 (a) b) (c) S 34 12 56 0 -1 4194304 92 0 0 0 3 4 5 6 20 0 1 0 7654321 10 20";
        assert_eq!(ticks_in_session(line, 56), Some(18));
        assert_eq!(ticks_in_session(line, 12), None);
        assert_eq!(ticks_in_session("12 (a", 12), None);
    }

    #[test]
    fn waiting_for_a_disk_is_idleness() {
        let text = "cpu  9 9 9 9 9\ncpu1 9 9 9 7 8 9\ncpu10 1 2 3 4 5 6 7\n";
        assert_eq!((idle_ticks(text, 1), idle_ticks(text, 10), idle_ticks(text, 2)), (Some(15), Some(9), None));
    }
}
