//! What a step on the table asks of the table.

use comity_policy::allotment::{Claim, Proposal};
use comity_protocol::table::{self, Change, Report, Table};
use comity_protocol::{CoreSet, CoreWord, Party, SlotId, TaskGroup, Way};

use crate::answer::{Answer, Numbers};
use crate::crew::methods;
use crate::tape::{asks, closes, opens, says, turn};
use crate::{Recorded, Script};

macro_rules! table {
    ($how:ident) => {
        methods! { & $how self:
            slot() -> SlotId;
            cores() -> CoreSet;
            load(core: usize) -> CoreWord;
            exchange(core: usize, before: CoreWord, next: CoreWord) -> bool;
            grant(core: usize, before: CoreWord, next: CoreWord);
            is_stopped(slot: SlotId) -> bool;
            note(change: Change);
            fence();
            wants(slot: SlotId) -> bool;
            is_core_wanted() -> bool;
            set_wants(wants: bool);
            may_use(slot: SlotId, core: usize) -> bool;
            ring(slot: SlotId);
            waits() -> bool;
            set_waits(waits: bool);
            watches() -> bool;
            set_watches(watches: bool);
            lasts(core: usize) -> u64;
            lend_after() -> u64;
        }
    };
}

impl<T: Table> Table for Recorded<T> {
    table!(driver);
}

impl Table for Script {
    table!(script);
}

/// Takes the step that a line says: `claim true`, `take_back`, `reclaim`, `release`, `decline`, `want true`,
/// `any_free`, `heed`, `watch`, or `round` with the program, its weight and the time.
///
/// # Panics
/// If the line says none of them.
pub fn step(table: &impl Table, line: &str, reports: impl FnOnce() -> Vec<Report>) {
    opens(format_args!("{line}"));
    let number = |word: &str| word.parse::<u64>().expect("a number");
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["claim", own_only] => says(format_args!("claims {:?}", table::claim(table, own_only == "true"))),
        ["take_back"] => says(format_args!("takes back {:?}", table::take_back(table))),
        ["reclaim"] => table::reclaim(table),
        ["release"] => says(format_args!("releases {:?}", table::release(table, None))),
        ["decline"] => table::decline(table),
        ["want", wants] => table::want(table, wants == "true"),
        ["heed"] => table::heed(table),
        ["watch"] => says(format_args!("watches for {:?}", table::watch(table))),
        ["any_free"] => says(format_args!("is free {}", table::any_free(table))),
        ["round", program, weight, now] => {
            let reports = asks(format_args!("reports"), reports);
            let (weight, now) = (number(weight) as u32, number(now));
            says(format_args!("stands {:?}", table::round(table, number(program), weight, &reports, now)));
        }
        _ => panic!("{line:?} is no step on the table"),
    }
    says(format_args!("over"));
    turn();
    closes();
}

impl Answer for SlotId {
    fn put(&self, to: &mut Vec<u64>) {
        self.index().put(to);
    }

    fn take(from: &mut Numbers<'_>) -> Option<SlotId> {
        SlotId::new(usize::take(from)?)
    }
}

impl Answer for CoreWord {
    fn put(&self, to: &mut Vec<u64>) {
        self.to_bits().put(to);
    }

    fn take(from: &mut Numbers<'_>) -> Option<CoreWord> {
        from.next().map(CoreWord::from_bits)
    }
}

impl Answer for Vec<Report> {
    fn put(&self, to: &mut Vec<u64>) {
        self.len().put(to);
        for Report { party, awake, correction, knows_frames, proposal, takes_turns, way, group } in self {
            let Party { slot, claim: Claim { program, weight, desire }, may_use } = party;
            slot.put(to);
            to.extend([*program, u64::from(*weight), u64::from(*desire), u64::from(*awake)]);
            may_use.put(to);
            correction.put(to);
            knows_frames.put(to);
            proposal.map(Proposal::to_bits).put(to);
            takes_turns.put(to);
            to.push(way.to_bits());
            to.push(TaskGroup::to_bits(*group));
        }
    }

    fn take(from: &mut Numbers<'_>) -> Option<Vec<Report>> {
        let reports = usize::take(from)?;
        let mut report = || {
            let slot = SlotId::take(from)?;
            let claim = Claim { program: from.next()?, weight: u32::take(from)?, desire: u32::take(from)? };
            let awake = u32::take(from)?;
            let party = Party { slot, claim, may_use: CoreSet::take(from)? };
            let (correction, knows_frames) = (u32::take(from)?, bool::take(from)?);
            let proposal = <Option<u32> as Answer>::take(from)?.map(Proposal::from_bits);
            let takes_turns = bool::take(from)?;
            let way = Way::from_bits(from.next()?);
            let group = TaskGroup::from_bits(from.next()?);
            Some(Report { party, awake, correction, knows_frames, proposal, takes_turns, way, group })
        };
        (0..reports).map(|_| report()).collect()
    }
}
