//! A neighbour: another program in the core table, which claims cores and computes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use comity_os::affinity;
use comity_os::cpu_clock::ThreadId;
use comity_protocol::table;
use comity_table::{Location, Member, Profile, Seat as _};

/// A program in the table that requests cores until the value is dropped.
pub struct Neighbour {
    desire: Arc<AtomicU32>,
    ends: Arc<AtomicBool>,
}

impl Neighbour {
    /// Joins the table that the environment names, and requests all cores.
    pub fn start() -> Neighbour {
        let cores = affinity::of(ThreadId::current());
        let profile = Profile {
            program: 1,
            name: "neighbour".into(),
            policy: "none".into(),
            weight: 100,
            workers: cores.len() as u32,
            may_use: cores,
            lend_after: Duration::ZERO,
        };
        let member = Member::join(&Location::from_environment().unwrap(), &profile).unwrap();
        let desire = Arc::new(AtomicU32::new(cores.len() as u32));
        let ends = Arc::new(AtomicBool::new(false));
        std::thread::spawn({
            let (desire, ends) = (Arc::clone(&desire), Arc::clone(&ends));
            move || {
                while !ends.load(Ordering::Relaxed) {
                    let desire = desire.load(Ordering::Relaxed);
                    member.round(desire, 1);
                    // The neighbour claims the cores that it owns. When it requests fewer cores than before, it
                    // releases cores.
                    let changes_one = || {
                        let view = member.view()?;
                        match desire {
                            0 => table::release(&view, None),
                            _ => table::claim(&view, true).or_else(|| table::take_back(&view)),
                        }
                    };
                    while changes_one().is_some() {}
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        Neighbour { desire, ends }
    }

    /// Sets the number of cores that the neighbour requests from its next round on.
    #[allow(dead_code, reason = "not every test program changes it")]
    pub fn desire(&self, cores: u32) {
        self.desire.store(cores, Ordering::Relaxed);
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}
