//! Tests of the table: which core a program claims, takes back or releases, which program it notifies, and what its
//! round decides.

mod place;

use comity_policy::allotment::{Division, Proposal};
use comity_protocol::table::{self, Change, PROBES_EVERY, Report};
use comity_protocol::{SlotId, Standing, TURN, TaskGroup, Way};

use place::Step::{Beat, Exchanged, Fenced, Granted, Looked, Noted, Rang, Waits, Wants, Watches};
use place::{Place, Step, Table, report, slot};

const ME: usize = 1;

/// Makes a table for the program at place 1. `words` has the owner and the holder of each core.
fn table(words: &[(Option<usize>, Option<usize>)]) -> Place {
    let table = Table::new(words.len(), 0);
    for (word, (owner, holder)) in table.words.iter().zip(words) {
        let owned = word.get().granted(owner.map(slot)).unwrap_or(word.get());
        word.set(holder.map_or(owned, |holder| owned.claimed(slot(holder)).unwrap()));
    }
    Place::new(&table, ME)
}

/// Makes a table in which a core of another owner may be claimed once it has been free for 1000 ns.
fn aged(words: &[(Option<usize>, Option<usize>)], lasts: &[u64]) -> Place {
    let table = table(words);
    table.lend_after.set(1000);
    table.lasts.replace(lasts.to_vec());
    table
}

impl Place {
    fn effects(&self) -> Vec<Step> {
        self.steps.take()
    }

    fn word(&self, core: usize) -> (Option<usize>, Option<usize>) {
        let word = self.words[core].get();
        (word.owner().map(SlotId::index), word.holder().map(SlotId::index))
    }
}

#[test]
fn an_own_core_is_claimed_first_then_one_without_an_owner_then_any() {
    let table = &table(&[(Some(2), None), (None, None), (Some(1), None), (None, Some(3))]);
    let claim = |own_only| table::claim(&table, own_only).map(|(core, _)| core);
    assert_eq!(claim(false), Some(2));
    assert_eq!(table.effects(), [Beat, Exchanged(2), Noted(Change::Claimed(2))]);
    assert_eq!(claim(true), None);
    assert_eq!([claim(false), claim(false), claim(false)], [Some(1), Some(0), None]);
    assert_eq!(table.word(3), (None, Some(3)));
}

#[test]
fn a_core_that_its_owner_has_just_left_is_claimed_by_the_owner_alone() {
    let table = &aged(&[(Some(2), None), (Some(1), None), (None, None), (Some(2), Some(3))], &[999, 0, 0, 5000]);
    let claim = || table::claim(&table, false).map(|(core, _)| core);
    assert_eq!([claim(), claim(), claim()], [Some(1), Some(2), None]);
    assert!(!table::any_free(&table));
    table.lasts.borrow_mut()[0] = 1000;
    assert!(table::any_free(&table));
    assert_eq!(claim(), Some(0));
}

#[test]
fn a_program_that_watches_a_core_is_told_of_no_other_until_it_comes_by() {
    let table = &aged(&[(Some(2), None), (Some(2), None), (None, Some(3))], &[300, 400, 0]);
    let take = |core: usize| table.words[core].set(table.words[core].get().claimed(slot(2)).unwrap());
    assert_eq!((table::watch(&table), table.effects()), (None, vec![]), "it does not wait");
    table::want(&table, true);
    assert_eq!(
        table.effects(),
        [Waits(true), Fenced, Wants(true), Fenced, Rang(ME)],
        "its coordinator is to watch them"
    );
    // The second core is the first that may be claimed.
    assert_eq!(table::watch(&table), Some(600));
    assert_eq!(table.effects(), [Watches(true), Wants(false), Fenced]);
    table::want(&table, false);
    table::want(&table, true);
    assert_eq!(table.effects(), [Waits(false), Fenced, Waits(true), Fenced], "it comes by");
    // The program first publishes that it waits, and then looks at the cores.
    table::stop_watching(&table);
    assert_eq!(table.effects(), [Watches(false), Fenced, Wants(true), Fenced]);
    take(0);
    take(1);
    assert_eq!((table::watch(&table), table.effects()), (None, vec![]), "there is none to watch");
    table::stop_watching(&table);
    table::want(&table, true);
    assert_eq!(table.effects(), [], "all is said");
}

#[test]
fn a_program_that_watches_and_needs_no_core_any_more_leaves_it_to_those_that_do() {
    let table = &aged(&[(Some(2), None)], &[0]);
    table::want(&table, true);
    assert_eq!(table::watch(&table), Some(1000));
    table::want(&table, false);
    table.wanting.borrow_mut().push(3);
    table.effects();
    table::stop_watching(&table);
    assert_eq!(table.effects(), [Watches(false), Fenced, Fenced, Looked, Rang(3)]);
}

#[test]
fn cores_that_are_free_at_different_times_are_waited_for_together() {
    let table = &aged(&[(Some(2), None)], &[999]);
    table::want(&table, true);
    assert_eq!(table::watch(&table), Some(125));
}

#[test]
fn a_core_that_another_program_was_faster_to_change_is_passed_over() {
    let table = &table(&[(None, None), (None, None)]);
    table.contended.set(Some(0));
    assert_eq!(table::claim(&table, false).map(|(core, _)| core), Some(1));
}

#[test]
fn only_cores_that_the_program_may_use_are_claimed_and_released() {
    let table = &table(&[(None, None), (None, Some(1))]);
    table.barred.replace(vec![(ME, 0), (ME, 1)]);
    assert!(!table::any_free(&table));
    assert_eq!(
        (table::claim(&table, false), table::release(&table, None), table::release(&table, Some(1))),
        (None, None, None)
    );
}

#[test]
fn what_a_stopped_program_uses_is_free_but_not_to_itself() {
    let table = &table(&[(Some(2), Some(2)), (None, Some(1))]);
    assert!(!table::any_free(&table));
    table.stopped.replace(vec![1, 2]);
    assert!(table::any_free(&table));
    let (core, before) = table::claim(&table, false).unwrap();
    assert_eq!((core, before.holder()), (0, Some(slot(2))));
    assert_eq!(table.word(0), (Some(2), Some(1)));
    assert!(!table::any_free(&table));
}

#[test]
fn the_borrower_is_told_once_its_core_is_taken_back() {
    let table = &table(&[(Some(1), Some(1)), (Some(2), Some(3)), (Some(1), Some(3))]);
    assert_eq!(table::take_back(&table).map(|(core, _)| core), Some(2));
    assert_eq!(table.effects(), [Beat, Exchanged(2), Noted(Change::TakenBack(2)), Rang(3)]);
    assert_eq!((table.word(2), table::take_back(&table)), ((Some(1), Some(1)), None));
}

#[test]
fn for_a_worker_that_is_woken_a_lent_core_is_taken_back_and_left_free_unless_one_is_free() {
    let (own, lent, others) = ((Some(1), Some(1)), (Some(1), Some(2)), (Some(2), Some(2)));
    let reclaimed = |words: &[(Option<usize>, Option<usize>)], wanting: &[usize]| {
        let table = &table(words);
        table.wanting.borrow_mut().extend(wanting);
        table::reclaim(&table);
        (0..words.len()).for_each(|core| assert_eq!(table.word(core).0, words[core].0, "no core has another owner"));
        let free = (0..words.len()).filter(|core| table.word(*core).1.is_none()).collect::<Vec<_>>();
        (free, table.effects())
    };
    let freed = [Exchanged(2), Noted(Change::TakenBack(2)), Noted(Change::Released(2)), Rang(2), Fenced, Looked];
    assert_eq!(reclaimed(&[own, others, lent, lent], &[]), (vec![2], freed.to_vec()), "one of two");
    // The woken worker may not need the core. So a program that waits is notified, as of any released core.
    assert_eq!(reclaimed(&[own, others, lent], &[3]), (vec![2], [&freed[..], &[Rang(3)]].concat()));
    let free = (Some(1), None);
    assert_eq!(reclaimed(&[lent, free], &[3]), (vec![1], vec![]));
    assert_eq!(reclaimed(&[own, others, (None, Some(2)), (None, None)], &[3]), (vec![3], vec![]));
    // The core that a stopped program uses can be claimed directly.
    let table = &table(&[own, (Some(1), Some(3)), lent]);
    table.stopped.replace(vec![3]);
    table::reclaim(&table);
    assert_eq!(table.effects(), []);
    // Another program was faster. The worker will claim another core.
    table.stopped.take();
    table.contended.set(Some(1));
    table::reclaim(&table);
    assert_eq!(table.effects(), []);
}

#[test]
fn a_core_of_another_is_released_first_and_the_one_that_is_named_only_if_held() {
    let table = &table(&[(Some(1), Some(1)), (Some(2), Some(1)), (None, Some(3)), (Some(1), Some(1))]);
    let release = |core| table::release(&table, core).map(|(core, _)| core);
    assert_eq!([release(Some(2)), release(Some(3)), release(None)], [None, Some(3), Some(1)]);
    assert_eq!([release(None), release(None)], [Some(0), None]);
    assert_eq!(table.word(2), (None, Some(3)));
}

#[test]
fn the_releaser_fences_between_the_core_and_the_look_for_those_that_wait() {
    let table = &table(&[(Some(2), Some(1))]);
    table.wanting.replace(vec![0, 2, 5]);
    table::release(&table, Some(0)).unwrap();
    assert_eq!(table.effects(), [Exchanged(0), Noted(Change::Released(0)), Fenced, Looked, Rang(2)]);
}

#[test]
fn the_program_that_waits_fences_once_it_has_said_so() {
    let table = &table(&[]);
    [true, true, false].into_iter().for_each(|wants| table::want(&table, wants));
    assert_eq!(table.effects(), [Waits(true), Fenced, Wants(true), Fenced, Waits(false), Fenced, Wants(false), Fenced]);
}

#[test]
fn the_owner_is_told_if_it_waits_or_else_the_next_program_that_can_use_the_core() {
    let told = |owner: Option<usize>, wanting: &[usize], barred: &[usize], stopped: &[usize]| {
        let table = &table(&[(None, None)]);
        table.wanting.replace(wanting.to_vec());
        table.barred.replace(barred.iter().map(|slot| (*slot, 0)).collect());
        table.stopped.replace(stopped.to_vec());
        table::offer(&table, 0, owner.map(slot));
        let rung = |effect| if let Rang(slot) = effect { Some(slot) } else { None };
        table.effects().into_iter().filter_map(rung).collect::<Vec<_>>()
    };
    assert_eq!(told(Some(7), &[0, 3, 7], &[], &[]), [7]);
    assert_eq!(told(Some(7), &[0, 3], &[], &[]), [3]);
    assert_eq!(told(None, &[0, 255], &[], &[]), [255]);
    assert_eq!(told(None, &[0], &[], &[]), [0]);
    assert_eq!(told(Some(7), &[3, 4, 7, 9], &[7, 3], &[4]), [9]);
    // The program that notifies others does not notify itself.
    assert_eq!(told(Some(ME), &[ME], &[], &[]), []);
    assert_eq!(told(Some(ME), &[ME, 0], &[], &[]), [0]);
}

#[test]
fn what_is_declined_is_offered_core_by_core() {
    let table = &table(&[(Some(2), None), (Some(2), Some(2)), (Some(3), None)]);
    table.wanting.replace(vec![2, 3]);
    table::decline(&table);
    assert_eq!(table.effects(), [Fenced, Looked, Rang(2), Fenced, Looked, Rang(3)]);
}

/// Runs a round of the program that has `table`. Returns the program's standing.
fn round(table: &Place, reports: &[Report], now: u64) -> Standing {
    let own = reports.iter().find(|report| report.party.slot == table.slot).unwrap().party.claim;
    table::round(&table, own.program, own.weight, reports, now)
}

/// Runs a round on `cores` free cores without owners. Returns the program's standing.
fn round_of(cores: usize, reports: &[Report], now: u64) -> Standing {
    round(&table(&vec![(None, None); cores]), reports, now)
}

/// Reports of two programs that can use six cores.
fn two(proposals: [Option<Proposal>; 2]) -> [Report; 2] {
    [1, 2].map(|nth| Report { proposal: proposals[nth - 1], ..report(nth, 10 * nth as u64, 6, 1, 6) })
}

#[test]
fn programs_are_even_if_they_are_more_than_cores_and_each_has_as_many_threads_for_its_weight() {
    let is_even = |programs: &[(u32, u32, Way)]| {
        let of = |(nth, (awake, weight, way)): (usize, &(u32, u32, Way))| {
            let mut report = report(nth + 1, 10 + nth as u64, 1, *awake, 2);
            (report.party.claim.weight, report.way) = (*weight, *way);
            report
        };
        let reports: Vec<Report> = programs.iter().enumerate().map(of).collect();
        round_of(2, &reports, 0).is_even
    };
    let (cores, team) = (Way::Cores, Way::Team);
    assert!(is_even(&[(1, 100, cores), (1, 100, cores), (1, 100, cores)]));
    assert!(is_even(&[(2, 200, cores), (1, 100, cores), (4, 400, cores)]));
    assert!(is_even(&[(4, 100, cores), (5, 100, cores), (5, 100, cores)]), "about");
    assert!(!is_even(&[(1, 100, cores), (1, 100, cores)]), "there is a core for each");
    assert!(!is_even(&[(1, 100, cores), (1, 100, cores), (2, 100, cores)]));
    assert!(!is_even(&[(1, 100, cores), (1, 100, cores), (1, 300, cores)]));
    assert!(
        is_even(&[(1, 100, cores), (1, 100, cores), (1, 100, cores), (8, 100, team)]),
        "what is apart does not count"
    );
    assert!(!is_even(&[(1, 100, cores), (1, 100, cores), (8, 100, team)]));
    let parties = [(1, 10), (2, 20), (3, 30), (4, 30)].map(|(index, program)| report(index, program, 1, 1, 2));
    let standing = round_of(2, &parties, 0);
    assert!(!standing.is_even, "two parties of a process have together twice the threads of the others");
}

#[test]
fn programs_take_turns_if_one_needs_them_and_each_can_use_all_cores_and_halts_out_of_turn() {
    let slowdown = Some(Proposal::Slowdown { efficiency: 1000 });
    let team = || Report { proposal: Some(Proposal::Together), ..report(1, 10, 2, 2, 2) };
    let other = || Report { proposal: slowdown, ..report(2, 20, 2, 2, 2) };
    let standing = |reports: &[Report]| {
        // At time 0 a probe of efficiencies would give each program all cores in turn.
        let now = 4 * TURN.as_nanos() as u64;
        let standing = round_of(2, reports, now);
        (standing.may_take_turns, standing.division)
    };
    assert_eq!(standing(&[team(), other()]), (true, Division::Time));
    assert_eq!(standing(&[team(), Report { proposal: Some(Proposal::Together), ..other() }]), (true, Division::Time));
    assert_eq!(standing(&[team(), Report { proposal: slowdown, ..report(2, 20, 1, 2, 2) }]), (true, Division::Time));
    assert_eq!(standing(&[team(), Report { proposal: slowdown, ..report(2, 20, 1, 1, 2) }]), (false, Division::Equal));
    assert_eq!(standing(&[team(), Report { takes_turns: false, ..other() }]), (false, Division::Equal));
    assert_eq!(standing(&[team(), Report { proposal: Some(Proposal::Equal), ..other() }]), (true, Division::Time));
    assert!(!standing(&[team()]).0, "there is no other program");
    let narrow = Report { proposal: slowdown, ..report(2, 20, 2, 2, 1) };
    assert_eq!(standing(&[team(), narrow]), (false, Division::Equal), "its mask has one core");
    let small = |index, awake| Report { proposal: slowdown, ..report(index, 10 * index as u64, 0, awake, 2) };
    assert!(standing(&[team(), other(), small(3, 1)]).0, "a program that uses less than its share runs at any time");
    assert!(!standing(&[team(), small(2, 1)]).0, "and no other program takes turns");
    let many = |programs: usize| -> Vec<Report> {
        let nth = |nth: usize| Report { proposal: slowdown, ..report(nth, 10 * nth as u64, 2, 2, 2) };
        (2..=programs).map(nth).chain([team()]).collect()
    };
    assert_eq!([4, 5].map(|programs| standing(&many(programs)).0), [true, false]);
    assert_eq!(
        standing(&[Report { proposal: slowdown, ..team() }, other()]),
        (true, Division::Equal),
        "no program needs turns"
    );
    // While programs take turns, the operating system must not divide the time, neither by groups nor by threads.
    let group = |id| Some(TaskGroup { id, parent: 0, milli: 1000 });
    let third = Report { proposal: slowdown, ..report(3, 30, 2, 2, 2) };
    let of = |report: Report| Report { group: group(report.party.claim.program as u32), ..report };
    let reports = [team(), other(), third].map(of);
    let standing = round_of(2, &reports, 0);
    assert_eq!((standing.is_grouped, standing.is_even), (Some(false), false));
}

#[test]
fn programs_are_grouped_if_each_has_a_task_group_that_weighs_what_it_weighs() {
    /// A program, its weight, and its group.
    type Grouped = (u64, u32, Option<TaskGroup>);
    let is_grouped = |programs: &[Grouped]| {
        let of = |(nth, (program, weight, group)): (usize, &Grouped)| {
            let mut report = report(nth + 1, *program, 1, 1, 2);
            (report.party.claim.weight, report.group) = (*weight, *group);
            report
        };
        let reports: Vec<Report> = programs.iter().enumerate().map(of).collect();
        round_of(2, &reports, 0).is_grouped
    };
    let (yes, no) = (Some(true), Some(false));
    let group = |id: u32| Some(TaskGroup { id, parent: 0, milli: 1000 });
    let own = (10, 100, group(1));
    assert_eq!(is_grouped(&[own, (20, 100, group(2)), (30, 100, group(3))]), yes);
    assert_eq!(
        is_grouped(&[own, (20, 10, Some(TaskGroup { id: 2, parent: 0, milli: 107 }))]),
        yes,
        "nice 10 has weight 0.107"
    );
    assert_eq!(is_grouped(&[own, (20, 100, group(2)), (20, 100, group(2))]), yes, "two pools of a program");
    assert_eq!(is_grouped(&[own]), None, "there is no other program");
    assert_eq!(is_grouped(&[own, (20, 100, group(1))]), no);
    assert_eq!(is_grouped(&[own, (20, 100, group(2)), (30, 100, group(2))]), no, "two others share one");
    assert_eq!(is_grouped(&[own, (20, 100, None)]), no);
    assert_eq!(is_grouped(&[(10, 100, None), (20, 100, group(2))]), no);
    assert_eq!(is_grouped(&[(10, 300, group(1)), (20, 100, group(2))]), no, "the weights of the groups are others");
    assert_eq!(
        is_grouped(&[own, (20, 100, Some(TaskGroup { id: 2, parent: 7, milli: 1000 }))]),
        no,
        "they have different parents"
    );
}

#[test]
fn a_round_brings_the_owners_up_to_date_before_the_program_looks_how_it_stands() {
    let table = &table(&[(Some(1), Some(1)), (Some(1), None), (Some(1), Some(2)), (Some(1), None)]);
    let standing = round(table, &[report(1, 10, 4, 1, 4), report(2, 20, 4, 1, 4)], 0);
    assert_eq!(table.effects(), [Granted(2), Granted(3)]);
    let expected = Standing {
        owned: 2,
        held: 1,
        free: 2,
        own_free: 1,
        lent: 0,
        alone: false,
        share_milli: 2000,
        programs: 2,
        allotted: 2,
        until_change: None,
        frame: 2 * TURN.as_nanos() as u64,
        most_out: 2 * TURN.as_nanos() as u64,
        division: Division::Equal,
        is_even: false,
        is_grouped: Some(false),
        may_take_turns: true,
    };
    assert_eq!(standing, expected);
}

#[test]
fn a_core_that_a_stopped_borrower_uses_is_free_and_not_lent() {
    let table = &table(&[(Some(1), Some(2)), (Some(1), Some(3))]);
    table.stopped.replace(vec![3]);
    let Standing { owned, free, own_free, lent, .. } = round(table, &[report(1, 10, 2, 1, 2)], 0);
    assert_eq!([owned, free, own_free, lent], [2, 1, 1, 1]);
}

#[test]
fn a_program_that_shares_time_has_a_share_and_no_cores() {
    let table = &table(&[(None, None); 4]);
    let reports = [report(1, 10, 4, 1, 4), report(2, 20, 0, 3, 4), report(3, 30, 0, 0, 4)];
    let standing = round(table, &reports, 0);
    assert_eq!((standing.owned, standing.alone, standing.programs, standing.share_milli), (4, true, 2, 2000));
    // This program has three times the weight of the others.
    assert_eq!(table::round(&table, 10, 300, &reports, 0).share_milli, 3000);
}

#[test]
fn parties_of_one_process_divide_what_one_program_gets() {
    let stands = |reports: &[Report]| {
        let standing = round_of(4, reports, 0);
        (standing.alone, standing.programs, standing.owned, standing.share_milli)
    };
    let [one, other] = [1, 2].map(|index| report(index, 10, 4, 4, 4));
    assert_eq!(stands(&[one, other]), (false, 2, 2, 2000));
    assert_eq!(stands(&[one, other, report(3, 20, 4, 4, 4)]), (false, 3, 1, 1000));
    // A party without work has no share.
    assert_eq!(stands(&[one, report(2, 10, 0, 0, 4), report(3, 20, 4, 4, 4)]), (false, 2, 2, 2000));
    // On two cores, each of two parties has one core for half of a frame of three turns, and the other program has the
    // other core.
    let turn = TURN.as_nanos() as u64;
    let at = |now: u64| {
        let table = &table(&[(None, None); 2]);
        let reports = [report(1, 10, 2, 2, 2), report(2, 10, 2, 2, 2), report(3, 20, 2, 2, 2)];
        let standing = round(table, &reports, now);
        let owners = [table.word(0).0, table.word(1).0];
        ([1, 2, 3].map(|index| owners.contains(&Some(index))), standing.share_milli, standing.until_change)
    };
    assert_eq!(at(0), ([true, false, true], 500, Some(3 * turn / 2 + 1)));
    assert_eq!(at(2 * turn), ([false, true, true], 500, Some(turn + 1)));
}

#[test]
fn the_owners_stay_where_no_program_desires_a_core_and_beyond_those_that_any_may_use() {
    let table = &table(&[(Some(2), None), (Some(3), None)]);
    round(table, &[report(1, 10, 0, 1, 2)], 0);
    assert_eq!(table.effects(), []);
    round(table, &[report(1, 10, 1, 1, 1)], 0);
    assert_eq!((table.word(0).0, table.word(1).0), (Some(1), Some(3)));
}

#[test]
fn beside_a_program_that_knows_no_frames_cores_go_round_the_slower_the_more_programs_there_are_for_each() {
    let mut reports: Vec<Report> = (0..8).map(|nth| report(nth, nth as u64, 1, 1, 1)).collect();
    reports[5].knows_frames = false;
    reports[2].correction = 2000;
    let turn = TURN.as_nanos() as u64;
    let table = &table(&[(None, None)]);
    let owner = |now| {
        round(table, &reports, now);
        table.word(0).0.unwrap()
    };
    let owners: Vec<usize> = (0..32).map(|quarter| owner(quarter * 2 * turn)).collect();
    assert!(owners.chunks(4).all(|turn| turn.iter().all(|owner| *owner == turn[0])), "{owners:?}");
    assert!(owners.chunks(4).map(|turn| turn[0]).collect::<std::collections::HashSet<_>>().len() > 4, "{owners:?}");
}

#[test]
fn what_is_left_over_rotates_in_frames_and_a_program_knows_when_its_turn_begins_and_ends() {
    let mut reports: Vec<Report> = (0..3).map(|nth| report(nth, nth as u64, 2, 1, 2)).collect();
    for (report, weight) in reports.iter_mut().zip([100, 200, 300]) {
        report.party.claim.weight = weight;
    }
    // Of two cores, the programs get a third of a core, two thirds, and one core.
    let frame = 3 * TURN.as_nanos() as u64;
    let table = &table(&[(None, None); 2]);
    let allotted = |now| {
        let standing = round(table, &reports, now);
        assert_eq!((standing.owned, standing.frame), (standing.allotted, frame));
        (standing.allotted, standing.until_change.expect("it has no whole core"))
    };
    let step = frame / 300;
    let at: Vec<u32> = (0..900).map(|nth| allotted(7 * frame + nth * step).0).collect();
    let turns = [0, 300, 600].map(|begin| at[begin..begin + 300].iter().sum::<u32>());
    assert!(turns.iter().all(|turn| (199..=201).contains(turn)), "two thirds of the frame: {turns:?}");
    assert_eq!(at.windows(2).filter(|pair| pair[0] < pair[1]).count(), 3, "one turn in each frame");
    for nth in 0..300 {
        let now = 5 * frame + nth * step;
        let (has, until) = allotted(now);
        let changes = now + until;
        assert_eq!([changes - step / 2, changes].map(|now| allotted(now).0), [has, 1 - has], "at {nth}");
        assert!(changes <= now + frame + 1);
    }
}

#[test]
fn what_a_program_publishes_corrects_its_share_to_half_or_twice_at_the_outside() {
    let owned = |corrections: [u32; 2]| {
        let mut reports = [report(1, 10, 6, 1, 6), report(2, 20, 6, 1, 6)];
        reports[0].correction = corrections[0];
        reports[1].correction = corrections[1];
        let Standing { owned, share_milli, .. } = round_of(6, &reports, TURN.as_nanos() as u64);
        assert_eq!(share_milli, 3000, "what it is due stays");
        owned
    };
    assert_eq!([[1000, 1000], [2000, 1000], [500, 1000]].map(owned), [3, 4, 2]);
    assert_eq!([[u32::MAX, 1000], [0, 1000], [2000, 500], [0, u32::MAX]].map(owned), [4, 2, 5, 1], "or liars");
}

#[test]
fn shares_are_in_proportion_to_efficiencies_where_all_programs_propose_an_equal_slowdown() {
    let stands = |proposals: [Option<Proposal>; 2]| {
        let standing = round_of(6, &two(proposals), 3 * TURN.as_nanos() as u64);
        (standing.owned, standing.share_milli)
    };
    let slowed = |efficiency| Some(Proposal::Slowdown { efficiency });
    assert_eq!(
        [[1000, 1000], [500, 1000], [1000, 500]].map(|of| stands(of.map(slowed))),
        [(3, 3000), (2, 2000), (4, 4000)]
    );
    for other in [None, Some(Proposal::Equal), Some(Proposal::Time)] {
        assert_eq!(stands([slowed(500), other]), (3, 3000), "{other:?}");
        assert_eq!(stands([other, slowed(500)]), (3, 3000), "{other:?}");
    }
    // The correction changes the program's cores, but not its share.
    let mut reports = two([slowed(500); 2]);
    reports[1].correction = 500;
    let standing = round_of(6, &reports, 3 * TURN.as_nanos() as u64);
    assert_eq!((standing.owned, standing.share_milli), (4, 3000));
    // If only one program wants cores, the division is equal.
    let mut reports = [report(1, 10, 6, 1, 6), report(2, 20, 0, 1, 6)];
    reports[0].proposal = slowed(500);
    let standing = round_of(6, &reports, 3 * TURN.as_nanos() as u64);
    assert_eq!((standing.owned, standing.share_milli), (6, 3000));
}

#[test]
fn programs_that_are_slowed_alike_have_all_cores_in_turn_now_and_then() {
    const FRAME: u64 = 2 * TURN.as_nanos() as u64;
    let at = |now: u64, efficiencies: [u32; 2]| {
        round_of(6, &two(efficiencies.map(|efficiency| Some(Proposal::Slowdown { efficiency }))), now)
    };
    for nth in 0..2 * PROBES_EVERY {
        let is_probe = nth % PROBES_EVERY == 0;
        let owned = [0, FRAME - 1].map(|over| at(nth * FRAME + over, [500, 1000]).owned);
        assert_eq!(owned, if is_probe { [6, 0] } else { [2, 2] }, "{nth}");
    }
    // All programs look again when a probe begins, and when it ends.
    let until_change = |now| at(now, [1000, 1000]).until_change;
    assert_eq!(until_change(FRAME), Some((PROBES_EVERY - 1) * FRAME + 1));
    assert_eq!(until_change(PROBES_EVERY * FRAME - 1), Some(2));
    assert_eq!(until_change(1), Some(FRAME / 2), "its turn is over there");
    assert_eq!(until_change(FRAME / 2 + 1), Some(FRAME / 2));
    // If all programs have a similar speedup, cores do not rotate between probes.
    let division = |of| at(FRAME, of).division;
    assert_eq!(
        [[950, 1000], [949, 1000], [500, 550]].map(division),
        [Division::Equal, Division::Slowdown, Division::Equal]
    );
}

#[test]
fn many_programs_are_not_probed_and_a_crowd_is_told_apart_by_nothing() {
    let divided = |programs: usize, cores: usize, now: u64| {
        let mut reports: Vec<Report> = (1..=programs).map(|nth| report(nth, nth as u64, 6, 1, cores)).collect();
        for report in &mut reports {
            report.proposal = Some(Proposal::Slowdown { efficiency: 500 });
        }
        reports[0].proposal = Some(Proposal::Slowdown { efficiency: 1000 });
        let standing = round_of(cores, &reports, now);
        (standing.division, standing.most_out / standing.frame)
    };
    assert_eq!(divided(4, 4, 0), (Division::Time, 2), "from the turn in a frame to that in a probe");
    assert_eq!(divided(5, 6, 0), (Division::Slowdown, 1));
    assert_eq!(divided(7, 2, 0), (Division::Slowdown, 1));
    assert_eq!(divided(8, 2, 0), (Division::Equal, 1));
}

#[test]
fn each_has_all_cores_in_turn_where_all_programs_propose_that() {
    let turn = TURN.as_nanos() as u64;
    let stands = |now: u64, proposals: [Option<Proposal>; 2]| {
        let Standing { owned, share_milli, until_change, .. } = round_of(6, &two(proposals), now);
        (owned, share_milli, until_change.map(|until| until / 1_000_000))
    };
    let gangs = [Some(Proposal::Time); 2];
    let at = [0, turn / 2, turn - 1, turn + 1_000_000, 2 * turn - 1, 2 * turn].map(|now| stands(now, gangs));
    let turns = [(6, Some(100)), (6, Some(50)), (6, Some(0)), (0, Some(99)), (0, Some(0)), (6, Some(100))];
    assert_eq!(at, turns.map(|(owned, until)| (owned, 3000, until)));
    // A program that requests fewer cores is due these cores for the time of its turns.
    let few = |proposal| {
        let mut reports = [report(1, 10, 2, 1, 6), report(2, 20, 6, 1, 6)];
        reports.iter_mut().for_each(|report| report.proposal = proposal);
        let Standing { share_milli, division, .. } = round_of(6, &reports, 0);
        (share_milli, division)
    };
    assert_eq!([few(gangs[0]), few(None)], [(1000, Division::Time), (3000, Division::Equal)]);
    assert_eq!(stands(0, [Some(Proposal::Time), Some(Proposal::Equal)]), (3, 3000, None));
    assert_eq!(stands(0, [Some(Proposal::Time), None]), (3, 3000, None));
}

#[test]
fn others_are_told_of_a_program_that_joins_unless_several_are_at_work() {
    let [own, one, idle] = [report(1, 10, 4, 1, 4), report(2, 20, 0, 1, 4), report(3, 30, 0, 0, 4)];
    let is_told = |reports: &[Report]| table::is_joining_told(slot(1), reports);
    assert!(is_told(&[own]));
    assert!(is_told(&[own, one, idle]));
    assert!(is_told(&[own, report(4, 10, 2, 1, 4)]), "another party of its process was alone");
    assert!(!is_told(&[own, one, report(4, 20, 2, 0, 4)]));
    assert!(!is_told(&[own, one, report(4, 40, 2, 0, 4)]));
}
