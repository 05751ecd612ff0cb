//! What pools, coordinators and members of the table said to the protocol on real threads, as it is filed, said
//! again by this driver.
//!
//! The driver has its words, [`Cells`], and its loop, in which effects are carried out as [`Host`](super::Host) has
//! them carried out. What is compared is said at `comity_record` and in the runtime's test of the same name. A
//! pool, a worker's hands and a table are answered by the record.

use std::fs;

use comity_policy::{Thief, WorkerId};
use comity_protocol::dialogue::{Dialogue, Effect, Outcome};
use comity_record::replay::{Crewed, Driver, Repeated, file, hold_all_again};

use super::platform::Cells;

/// The driver of simulated threads.
struct Simulated;

impl Driver for Simulated {
    type Platform = Cells;

    fn platform(&self) -> Cells {
        Cells::default()
    }

    fn hold(
        &self,
        dialogue: &mut Dialogue,
        thief: &mut dyn Thief,
        crew: &Crewed<Cells>,
        me: WorkerId,
        hands: &mut Repeated<'_, Cells>,
    ) -> u32 {
        let mut outcome = Outcome::Done;
        loop {
            let effect = dialogue.next(thief, crew, outcome);
            if let Effect::Begin { wakeups_owed } = effect {
                return wakeups_owed;
            }
            // A wait that begins here ends as the record says.
            outcome = effect.carry_out(me, hands).expect("the record has the end of each wait");
        }
    }
}

#[test]
fn what_threads_did_is_done_again_here() {
    for name in ["threads", "table"] {
        let record = fs::read_to_string(file(name)).expect("there is a record");
        let compared = hold_all_again(&Simulated, &record);
        assert!(compared.turns > 300 && compared.visits > 100 || compared.steps > 100, "{name}: {compared:?}");
    }
}
