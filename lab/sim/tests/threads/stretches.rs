//! Checks of a host's timeline.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use comity_sim::threads::{Activity, Fate, Host, Stretch};

/// The stretches of a host that runs.
pub struct Stretches(Rc<RefCell<Vec<Stretch>>>);

impl Stretches {
    pub fn of(host: &mut Host) -> Stretches {
        let stretches = Rc::new(RefCell::new(Vec::new()));
        let told = Rc::clone(&stretches);
        host.trace(move |stretch| told.borrow_mut().push(stretch));
        Stretches(stretches)
    }

    /// Checks the invariants of the timeline after a run of programs that began at these times.
    pub fn check(&self, host: &Host, came: &[u64]) -> Result<(), String> {
        let fates: Vec<Fate> = (0..came.len() as u32).map(|program| host.fate(program)).collect();
        let stretches = self.0.borrow();
        let (mut threads, mut cores) = (BTreeMap::new(), BTreeMap::new());
        for stretch in stretches.iter() {
            let Stretch { program, worker, from, until, activity, core } = *stretch;
            let runs = matches!(activity, Activity::Task | Activity::Thief);
            if from >= until || runs != core.is_some() {
                return Err(format!("{stretch:?} cannot be"));
            }
            let before: Option<&Stretch> = threads.insert((program, worker), stretch);
            let since = before.map_or(came[program as usize], |before| before.until);
            if since != from {
                return Err(format!("{stretch:?} does not follow {before:?}"));
            }
            if let Some(core) = core
                && let Some(before) = cores.insert(core, stretch)
                && before.until > from
            {
                return Err(format!("{before:?} and {stretch:?} are on one core at once"));
            }
        }
        for (((program, _), last), fate) in threads.iter().map(|entry| (entry, &fates[entry.0.0 as usize])) {
            let end = fate.ended.or(fate.died).unwrap_or(host.now());
            if last.until != end {
                return Err(format!("program {program} ended at {end}, and after {last:?} nothing is told"));
            }
        }
        for (nth, fate) in (0..).zip(&fates) {
            let sum = |of: &dyn Fn(&Stretch) -> bool| -> u64 {
                let own = stretches.iter().filter(|stretch| stretch.program == nth && of(stretch));
                own.map(|stretch| stretch.until - stretch.from).sum()
            };
            let waits = |stretch: &Stretch| matches!(stretch.activity, Activity::Preempted | Activity::Throttled);
            // The waits that are not over at the end of the run: for each waiting thread, the begin and the end so far.
            let mut waiting = BTreeMap::new();
            for stretch in stretches.iter().filter(|stretch| stretch.program == nth) {
                match waits(stretch) {
                    true => waiting.entry(stretch.worker).or_insert((stretch.from, 0)).1 = stretch.until,
                    false => drop(waiting.remove(&stretch.worker)),
                }
            }
            let goes_on: u64 = waiting.values().map(|(from, until)| until - from).sum();
            let (ran, waited) = (sum(&|stretch| stretch.core.is_some()), sum(&waits));
            if ran < fate.spent.total() || !(waited - goes_on..=waited).contains(&host.waited(nth)) {
                return Err(format!(
                    "program {nth} ran for {ran} and waited for {waited} ({goes_on} at the end), not {}: {fate:?}",
                    host.waited(nth)
                ));
            }
        }
        Ok(())
    }
}
