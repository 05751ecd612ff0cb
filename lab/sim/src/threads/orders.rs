//! What programs are asked from outside while they run, as `comity set` asks them.
//!
//! A setter looks which place of the table a program has and what it is asked there, and asks a moment later. By
//! then another program may have the place. What a program obeys, and when, is decided by `comity_protocol`;
//! `check.rs` looks whether it has come to that.

use comity_protocol::SlotId;
use comity_protocol::orders::Request;

use super::{Due, Host};

/// A process that asks a program once.
#[derive(Clone, Copy)]
pub(super) struct Setter {
    pub(super) program: u32,
    request: Request,
    /// Once it has looked: the place of the program that it means, that place's tenure, and what stands where it
    /// would ask.
    meant: Option<(SlotId, u64, u64)>,
}

impl Host {
    /// From then on the program is asked this, if it is there and in the table.
    pub fn order(&mut self, at: u64, program: u32, request: Request) {
        self.plan(at, Due::Asks(self.setters.len() as u32));
        self.setters.push(Setter { program, request, meant: None });
    }

    /// The setter looks for its program; or it has found it, and asks.
    pub(super) fn asks(&mut self, setter: u32) {
        let Setter { program, request, meant } = self.setters[setter as usize];
        let Some((slot, tenure, before)) = meant else {
            let pool = self.pool(program);
            let share = pool.share.as_ref().filter(|_| pool.is_there());
            let look = |slot| (slot, self.table.tenure(slot), self.table.seen(slot, request));
            self.setters[setter as usize].meant = share.map(|share| look(share.slot));
            if self.setters[setter as usize].meant.is_some() {
                self.plan(self.now + self.costs.look, Due::Asks(setter));
            }
            return;
        };
        if !self.table.ask(slot, tenure, before, request) {
            return;
        }
        // The program that has the place by now hears its bell, whether it is meant or not.
        let heard = self.now + self.most_latency();
        if let Some(share) = self.table.program_of(slot).and_then(|program| self.pool(program).share.as_ref()) {
            share.is_asked(heard);
        }
        self.deliver_bells();
    }
}
