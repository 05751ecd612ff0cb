//! Virtual machines on a hypervisor. Each guest is a [`Host`] whose cores are virtual CPUs. Each guest has its own
//! kernel, programs and core table.
//!
//! A guest handles each of its events completely. Only then does the hypervisor learn which cores of the guest got a
//! thread or lost their thread. Then the guests learn which of their cores got a physical CPU or lost it. The only
//! other communication is a hypercall, which reaches the hypervisor within an event of the guest. Of two events at the
//! same time, the hypervisor's event comes before the guest's.

use std::cell::RefCell;
use std::rc::Rc;

use crate::hypervisor::{Change, Counts, Hypervisor, Share, Vmm};
use crate::threads::Host;

/// A hypervisor and its guests.
pub struct Vms {
    hypervisor: Rc<RefCell<Hypervisor>>,
    guests: Vec<Host>,
    now: u64,
    handled: u64,
}

impl Vms {
    /// Creates a machine of `pcpus` physical CPUs with these guests, in which no program has begun.
    ///
    /// # Panics
    /// Panics if there are no guests, or if the hypervisor's parameters are invalid ([`Vmm::check`]).
    pub fn new(vmm: Vmm, pcpus: usize, guests: Vec<(Host, Share)>, seed: u64) -> Vms {
        assert!(!guests.is_empty(), "no guests");
        if let Err(what) = vmm.check(pcpus as u32) {
            panic!("{what}");
        }
        let (mut guests, shares): (Vec<Host>, Vec<Share>) = guests.into_iter().unzip();
        let hypervisor = Rc::new(RefCell::new(Hypervisor::new(vmm, pcpus, &shares, seed)));
        for (vm, guest) in guests.iter_mut().enumerate() {
            guest.virtualize(Rc::clone(&hypervisor), vm);
        }
        Vms { hypervisor, guests, now: 0, handled: 0 }
    }

    /// Returns a guest. Guests are numbered from 0.
    pub fn guest(&self, vm: usize) -> &Host {
        &self.guests[vm]
    }

    /// Returns a mutable reference to a guest, for example to submit programs to it.
    pub fn guest_mut(&mut self, vm: usize) -> &mut Host {
        &mut self.guests[vm]
    }

    /// Returns the guests in their current state.
    pub fn into_guests(self) -> Vec<Host> {
        self.guests
    }

    /// Sets the number of online physical CPUs from the time `at` on. At least one physical CPU stays online. The
    /// physical CPUs with the lowest numbers are online.
    pub fn resize(&mut self, at: u64, pcpus: usize) {
        self.hypervisor.borrow_mut().resize(at, pcpus);
    }

    /// The current time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the counts of switches between virtual CPUs, and of accelerations.
    pub fn counts(&self) -> Counts {
        self.hypervisor.borrow().counts()
    }

    /// Nanoseconds that physical CPUs idled while a virtual CPU waited, summed over the physical CPUs.
    pub fn idle_beside_work(&self) -> u64 {
        self.hypervisor.borrow().idle_beside_work()
    }

    /// Handles events until `end`, or until every program of every guest has ended or died, as [`Host::run`] does.
    /// Checks the invariants of the hypervisor after every `check_every`-th event. Checks all invariants of a guest
    /// after every `check_every`-th event of the guest.
    ///
    /// # Errors
    /// Names the invariant that did not hold, and when.
    pub fn run(&mut self, end: u64, check_every: u64) -> Result<(), String> {
        self.run_down_to(0, end, check_every)
    }

    /// Handles events as [`Vms::run`] does, but stops as soon as one of the programs ends or dies.
    ///
    /// # Errors
    /// See [`Vms::run`].
    pub fn run_to_next_end(&mut self, end: u64, check_every: u64) -> Result<(), String> {
        self.run_down_to(self.left().saturating_sub(1), end, check_every)
    }

    /// Returns the number of programs that have not ended or died. Endless programs count only if all programs are
    /// endless.
    fn left(&self) -> usize {
        self.count_left(self.is_endless())
    }

    fn is_endless(&self) -> bool {
        self.guests.iter().all(Host::is_endless)
    }

    fn count_left(&self, is_endless: bool) -> usize {
        let add = |sum: (usize, usize), one: (usize, usize)| (sum.0 + one.0, sum.1 + one.1);
        let (left, endless) = self.guests.iter().map(Host::left).fold((0, 0), add);
        if is_endless { left } else { left - endless }
    }

    fn run_down_to(&mut self, left: usize, end: u64, check_every: u64) -> Result<(), String> {
        let is_endless = self.is_endless();
        while self.count_left(is_endless) > left {
            let own = self.hypervisor.borrow().next_at().unwrap_or(u64::MAX);
            let guests = self.guests.iter().enumerate().filter_map(|(vm, guest)| Some((guest.next_at()?, vm)));
            let (at, vm) = guests.min().unwrap_or((u64::MAX, 0));
            if at.min(own) > end {
                break;
            }
            if own <= at {
                self.now = own;
                self.hypervisor.borrow_mut().step();
                self.tell();
                self.look(check_every)?;
                continue;
            }
            // Handle events of this guest until an event of the hypervisor or of another guest is earlier. Stop before
            // if the guest has told the hypervisor of a change or the hypervisor a guest, or if a program is over.
            let others = self.guests.iter().enumerate().filter(|(other, _)| *other != vm);
            let next =
                others.filter_map(|(other, guest)| Some((guest.next_at()?, other))).min().unwrap_or((u64::MAX, 0));
            while let Some(at) = self.guests[vm].next_at()
                && at < own
                && (at, vm) < next
                && at <= end
            {
                self.now = at;
                self.guests[vm].handle_next(check_every).map_err(|what| format!("machine {vm}, {what}"))?;
                let has_turned = self.hear(vm);
                let is_told = self.tell();
                self.look(check_every)?;
                if has_turned || is_told || self.guests[vm].lost_one() {
                    break;
                }
            }
        }
        if self.count_left(is_endless) > left {
            self.now = self.now.max(end);
        }
        self.hypervisor.borrow_mut().pass(self.now);
        for (vm, guest) in self.guests.iter_mut().enumerate() {
            guest.stop(self.now).map_err(|what| format!("machine {vm}, {what}"))?;
        }
        self.check().map_err(|what| format!("at {}: {what}", self.now))
    }

    /// Counts an event. Checks the invariants after every `check_every`-th event.
    fn look(&mut self, check_every: u64) -> Result<(), String> {
        self.handled += 1;
        if self.handled.is_multiple_of(check_every) {
            self.check().map_err(|what| format!("at {}: {what}", self.now))?;
        }
        Ok(())
    }

    /// Tells the hypervisor which cores of a guest have got a thread or lost their thread. Returns false if no core has
    /// changed.
    fn hear(&mut self, vm: usize) -> bool {
        let turned = self.guests[vm].take_turned();
        if turned.is_empty() {
            return false;
        }
        let mut hypervisor = self.hypervisor.borrow_mut();
        hypervisor.pass(self.now);
        for core in turned {
            hypervisor.set_wants(vm, core, self.guests[vm].wants(core));
        }
        true
    }

    /// Tells the guests which of their cores have got a physical CPU or lost it. Returns false if no core has changed.
    fn tell(&mut self) -> bool {
        let changes = self.hypervisor.borrow_mut().take_changes();
        let is_told = !changes.is_empty();
        for Change { vm, core, runs_after } in changes {
            match runs_after {
                Some(after) => self.guests[vm].resume(self.now, core, after),
                None => self.guests[vm].suspend(self.now, core),
            }
        }
        is_told
    }

    fn check(&self) -> Result<(), String> {
        let hypervisor = self.hypervisor.borrow();
        hypervisor.check()?;
        for (vm, guest) in self.guests.iter().enumerate() {
            for core in 0..guest.cores() {
                let (wants, runs) = hypervisor.is(vm, core);
                if (guest.wants(core), guest.runs(core)) != (wants, runs) {
                    return Err(format!(
                        "machine {vm}: the hypervisor and core {core} disagree about what the core does"
                    ));
                }
            }
        }
        Ok(())
    }
}
