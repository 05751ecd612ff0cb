//! Steal time: the time in which a CPU of a virtual machine had work, but its host ran something else.

use std::fs::File;
use std::path::Path;

use comity_values::CoreSet;
use comity_values::steal_time::Reading;

use crate::system::calls;

const STAT: &str = "/proc/stat";

/// The maximum length of a line about a CPU: its name, and ten numbers of up to 20 digits.
const LINE: usize = 256;

/// The kernel's counts of CPU time (`proc_stat(5)`), in a file that stays open.
///
/// A reading is one `pread`, and only the first reading allocates. For each reading, the kernel formats all of
/// `/proc/stat`, including the lines after the CPUs. This takes 7 µs with two CPUs, and grows with the number of
/// interrupt sources.
#[derive(Debug)]
pub struct Stat {
    file: File,
    buffer: Vec<u8>,
    /// The CPUs that the last reading found.
    found: CoreSet,
}

impl Stat {
    /// Opens the counts of this machine. `None` if the file cannot be opened.
    pub fn open() -> Option<Stat> {
        Stat::at(Path::new(STAT))
    }

    /// Opens a file of the same format, for example a recorded one. Each reading reads the current contents.
    pub fn at(path: &Path) -> Option<Stat> {
        Some(Stat { file: File::open(path).ok()?, buffer: Vec::new(), found: CoreSet::EMPTY })
    }

    /// Returns the total times of the CPUs in `cpus` since the machine started. `None` if the file cannot be read, or
    /// has no steal time for these CPUs. Also returns `None` once after the set of online or requested CPUs has
    /// changed, because the sums of two different sets cannot be compared.
    pub fn read(&mut self, cpus: CoreSet) -> Option<Reading> {
        let last = cpus.iter().last()?;
        // The first line is the sum of all CPUs.
        self.buffer.resize(LINE * (last + 2), 0);
        let length = calls::read_from_start(&self.file, &mut self.buffer).ok()?;
        let (reading, found) = sum(&self.buffer[..length], cpus)?;
        let before = std::mem::replace(&mut self.found, found);
        (before == found || before.is_empty()).then_some(reading)
    }
}

/// Returns the sum over the lines of the CPUs in `cpus`, and the CPUs that have a line. Offline CPUs have no line.
fn sum(text: &[u8], cpus: CoreSet) -> Option<(Reading, CoreSet)> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    // A truncated line is ignored.
    let lines = lines.take_while(|line| line.starts_with(b"cpu") && line.ends_with(b"\n"));
    let (mut sum, mut found) = (Reading::default(), CoreSet::EMPTY);
    for (cpu, Reading { run_ns, steal_ns }) in lines.filter_map(|line| of_line(line, cpus)) {
        sum.run_ns = sum.run_ns.saturating_add(run_ns);
        sum.steal_ns = sum.steal_ns.saturating_add(steal_ns);
        found.insert(cpu);
    }
    (!found.is_empty()).then_some((sum, found))
}

/// Parses the line of a CPU. `None` if the CPU is not in `cpus`, or if the line ends before the steal time.
fn of_line(line: &[u8], cpus: CoreSet) -> Option<(usize, Reading)> {
    let mut words = str::from_utf8(line).ok()?.split_ascii_whitespace();
    let cpu: usize = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    if !cpus.contains(cpu) {
        return None;
    }
    let mut ticks = [0; 8];
    for count in &mut ticks {
        *count = words.next()?.parse().ok()?;
    }
    // The time of this machine's own guests is included in `user` and `nice`.
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks;
    let run = [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add);
    Some((cpu, Reading { run_ns: nanos(run), steal_ns: nanos(steal) }))
}

fn nanos(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / calls::proc_ticks_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts of a KVM guest with four CPUs, the second of which is offline.
    const RECORDED: &[u8] = b"cpu  9120 12 3011 700120 311 0 140 4121 0 0\n\
        cpu0 3010 4 1000 233400 100 0 50 1400 0 0\n\
        cpu2 3100 5 1001 233360 111 7 40 1321 0 0\n\
        cpu3 3010 3 1010 233360 100 0 50 1400 0 0\n\
        intr 4711 0 9 0\nctxt 99\ncpu9 is no line about a CPU\n";

    fn of(text: &[u8], cpus: &[usize]) -> Option<[u64; 2]> {
        let tick = nanos(1);
        let (reading, _) = sum(text, cpus.iter().copied().collect())?;
        Some([reading.run_ns / tick, reading.steal_ns / tick])
    }

    #[test]
    fn the_cpus_that_are_asked_for_are_summed_and_no_others() {
        assert_eq!(of(RECORDED, &[2]), Some([3100 + 5 + 1001 + 7 + 40, 1321]));
        assert_eq!(of(RECORDED, &[0, 1, 3]), Some([4064 + 4073, 2800]));
        assert_eq!(of(RECORDED, &[1]), None);
        assert_eq!(of(RECORDED, &[9]), None);
        assert_eq!(of(RECORDED, &[]), None);
    }

    #[test]
    fn what_is_no_count_of_steal_time_is_none() {
        for text in [&b""[..], b"cpu0 1 2 3 4 5 6 7\n", b"cpu0 1 2 3 4 5 6 7 8", b"cpu0 1 2 3 4 5 6 7 x\n", b"\xff\n"] {
            assert_eq!(of(text, &[0]), None, "{}", String::from_utf8_lossy(text));
        }
        let largest = format!("cpu0{}\n", " 18446744073709551615".repeat(10));
        assert!(of(largest.as_bytes(), &[0]).is_some());
        assert!(largest.len() <= LINE);
    }

    #[test]
    fn a_file_is_read_as_it_is_at_each_reading() {
        let path = std::env::temp_dir().join(format!("comity-stat-{}", std::process::id()));
        std::fs::write(&path, "cpu  0 0 0 0 0 0 0 5\ncpu0 0 0 0 0 0 0 0 5\n").unwrap();
        let mut stat = Stat::at(&path).unwrap();
        let cpus = CoreSet::from_iter([0]);
        assert_eq!(stat.read(cpus).unwrap().steal_ns, nanos(5));
        std::fs::write(&path, "cpu  0 0 0 0 0 0 0 7\ncpu0 0 0 0 0 0 0 0 7\n").unwrap();
        assert_eq!(stat.read(cpus).unwrap().steal_ns, nanos(7));
        let other = "cpu  0 0 0 0 0 0 0 99\ncpu0 0 0 0 0 0 0 0 7\ncpu1 0 0 0 0 0 0 0 92\n";
        std::fs::write(&path, other).unwrap();
        assert!(stat.read(cpus).is_some());
        let cpus = CoreSet::from_iter([0, 1]);
        assert_eq!(stat.read(cpus), None, "another CPU came");
        assert_eq!(stat.read(cpus).unwrap().steal_ns, nanos(99));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    #[cfg_attr(comity_portable, ignore = "of Linux")]
    fn this_machines_counts_grow_and_never_shrink() {
        let Some(mut stat) = Stat::open() else {
            println!("skipped: {STAT} cannot be read");
            return;
        };
        let all = (0..crate::CORES).collect();
        let first = stat.read(all).unwrap();
        let next = stat.read(all).unwrap();
        assert!(first.run_ns > 0 && next.run_ns >= first.run_ns && next.steal_ns >= first.steal_ns);
    }
}
