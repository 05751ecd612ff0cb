//! Requests to running programs from outside, like those of `comity set`.
//!
//! A setter looks up the program's slot (its entry in the core table) and the present request in the slot. It sends its
//! own request a moment later, when another program may have the slot. `comity_protocol` decides which requests a
//! program follows, and when. `check.rs` checks the result.

use comity_protocol::SlotId;
use comity_protocol::orders::Request;

use super::{Due, Host};

/// A process that sends one request to a program.
#[derive(Clone, Copy)]
pub(super) struct Setter {
    pub(super) program: u32,
    request: Request,
    /// The result of the setter's look: the slot of the program, the slot's tenure, and the value of the request
    /// word.
    meant: Option<(SlotId, u64, u64)>,
}

impl Host {
    /// Sends this request to the program at the time `at`, if the program is running and in the table.
    pub fn order(&mut self, at: u64, program: u32, request: Request) {
        self.plan(at, Due::Asks(self.setters.len() as u32));
        self.setters.push(Setter { program, request, meant: None });
    }

    /// Makes the setter look up its program. If it has already done so, makes it send the request.
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
        // The bell of the program that now has the slot rings, even if the request is for another program.
        let heard = self.now + self.most_latency();
        if let Some(share) = self.table.program_of(slot).and_then(|program| self.pool(program).share.as_ref()) {
            share.is_asked(heard);
        }
        self.deliver_bells();
    }
}
