//! The coordinator of a command: a process beside it that keeps its account with the core table.
//!
//! Once each quantum it looks what the command's threads do, reports what they can use, holds exactly the cores that are the
//! command's own, as `Claims::Owned` has a pool do, and keeps the threads on them. A command that does nothing desires
//! nothing, holds nothing and runs where it likes; then its coordinator looks rarely. It ends with the command.
//!
//! This is a loop and not a [`Coordinator`](comity_policy::Coordinator) of the policy crate: the account that those get is of
//! workers and tasks, of which a command has none to tell, and a row of the catalog must suit any pool.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use comity_os::census::{self, Stat};
use comity_os::cores;
use comity_table::{CoreSet, Location, Member, Profile, draw_program};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::demand::Demand;
use super::tree::Tree;
use crate::failure::Failure;

/// A quantum of a command that does something.
const QUANTUM: Duration = Duration::from_millis(10);

/// How often one that does nothing is looked at.
const IDLE: Duration = Duration::from_millis(50);

/// Keeps a process's account with the core table; started by `comity run`
#[derive(Args)]
pub struct Arguments {
    /// The process
    #[arg(long)]
    pub process: u32,
    /// What others call it
    #[arg(long)]
    pub name: String,
    /// How much it counts
    #[arg(long)]
    pub weight: u32,
    /// How many cores it desires [default: as many as its threads can use]
    #[arg(long)]
    pub cores: Option<u32>,
    /// The most that it can use
    #[arg(long)]
    pub most: u32,
}

/// Runs the verb. On standard output it says in a line that the process takes part, or in a sentence why not.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut joined = Coordination::begin(arguments);
    if let Ok(coordination) = &mut joined {
        coordination.share(0);
    }
    let line = joined.as_ref().map_or_else(String::as_str, |_| super::JOINED);
    // Who listens may have been killed; then this ends soon.
    let _nobody_listens = writeln!(std::io::stdout(), "{line}");
    if let Ok(coordination) = joined {
        coordination.serve();
    }
    Ok(())
}

struct Coordination {
    root: u32,
    start: u64,
    /// Dropped before the cores are given up: then the command is free.
    tree: Tree,
    member: Member,
    demand: Demand,
    cores: Option<u32>,
    most: u32,
    desire: u32,
    held: CoreSet,
    alone: bool,
    looked: Instant,
    /// A signal asks this process to end.
    ended: Arc<AtomicBool>,
}

impl Coordination {
    fn begin(arguments: &Arguments) -> Result<Coordination, String> {
        let Arguments { process, name, weight, cores, most } = arguments;
        let root = Stat::of_process(*process).ok_or("/proc does not show the command")?;
        let may_use: CoreSet = cores::allowed().iter().map(|core| core.id).collect();
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&ended)).map_err(|error| error.to_string())?;
        }
        let location = Location::from_environment().ok_or("COMITY_TABLE is off")?;
        let profile = Profile {
            program: draw_program(),
            name: name.clone(),
            policy: "run".to_owned(),
            weight: *weight,
            workers: cores.unwrap_or(*most),
            may_use,
        };
        let member = Member::join(&location, &profile).map_err(|error| error.to_string())?;
        member.stand_for(*process);
        Ok(Coordination {
            root: *process,
            start: root.start,
            tree: Tree::new(*process, root.start, may_use),
            member,
            demand: Demand::starting(),
            cores: *cores,
            most: *most,
            desire: 0,
            held: CoreSet::EMPTY,
            alone: true,
            looked: Instant::now(),
            ended,
        })
    }

    /// Comes by until the command has ended.
    fn serve(mut self) {
        let mut next = self.looked + QUANTUM;
        loop {
            let heard = self.member.bell();
            if self.ended.load(Ordering::Relaxed) || !census::lives(self.root, self.start) {
                break;
            }
            let now = Instant::now();
            if now >= next {
                let look = self.tree.look(now - self.looked);
                self.looked = now;
                self.demand.note(&look);
                self.share(look.runnable);
                next = now + if self.desire == 0 { IDLE } else { QUANTUM };
            } else {
                // A core was taken back.
                self.note_losses();
                self.place();
            }
            self.member.wait(heard, next.saturating_duration_since(Instant::now()));
        }
    }

    /// Reports what the command can use, of which so many threads run or wait for a core, and brings up to date what it has.
    fn share(&mut self, runnable: u32) {
        let desire = self.cores.unwrap_or_else(|| self.demand.desire(self.most));
        if (desire, self.desire) == (0, 0) {
            return;
        }
        self.desire = desire;
        self.note_losses();
        self.alone = self.member.round(desire, runnable).alone;
        self.hold_the_allotment();
        self.place();
    }

    fn note_losses(&mut self) {
        let held = self.member.held();
        let lost = self.held.iter().filter(|core| !held.contains(*core)).count();
        if lost > 0 {
            self.member.note_lost(lost as u32);
        }
        self.held = held;
    }

    fn hold_the_allotment(&mut self) {
        // Where nobody desires any, the owners stay as they are.
        let owned = if self.desire == 0 { CoreSet::EMPTY } else { self.member.owned() };
        for core in self.held.iter().filter(|core| !owned.contains(*core)) {
            self.member.release(Some(core));
        }
        // No more often than there are cores, whatever others write into the table.
        (0..owned.len()).take_while(|_| self.member.claim(true).is_some()).for_each(drop);
        (0..owned.len()).take_while(|_| self.member.take_back().is_some()).for_each(drop);
        self.held = self.member.held();
    }

    /// Who is alone leaves nothing to others, and who has no core has to run somewhere.
    fn place(&mut self) {
        let is_free = self.alone || self.held.is_empty();
        self.tree.confine((!is_free).then_some(self.held));
    }
}
