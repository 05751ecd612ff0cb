//! Tests with several members of one table in this process: shares, transfers of cores, bells.

mod harness;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use comity_table::{Life, Member, Profile, REFUSALS, SLOTS, STOPPED_AFTER, Snapshot, Thieves, this_program};
use harness::{Seat as _, Steps as _, Table, claim_all, profile, set, wait_until};

/// Lets each member report its desire twice, because only the second round of a member knows the desire of all others.
fn rounds(members: &[(&Member, u32)]) -> Vec<u32> {
    for _ in 0..2 {
        for (member, desire) in members {
            member.round(*desire, 1);
        }
    }
    members.iter().map(|(member, _)| member.owned().len() as u32).collect()
}

#[test]
fn a_program_alone_owns_all_cores_and_gives_up_half_when_another_comes() {
    let table = Table::new();
    let one = table.join(1, 8);
    let standing = one.round(8, 1);
    assert_eq!((standing.owned, standing.own_free, standing.alone), (8, 8, true));
    assert_eq!(claim_all(&one, true), [0, 1, 2, 3, 4, 5, 6, 7]);

    let late = table.join(2, 8);
    let standing = late.round(8, 1);
    assert_eq!((standing.owned, standing.held, standing.free, standing.lent), (4, 0, 0, 4));
    assert!(!standing.alone && !one.round(8, 8).alone);
    // The first member continues to use all cores until the owner takes its own back.
    assert_eq!((one.held(), one.owned(), late.owned()), (set(0..8), set(0..4), set(4..8)));
    let heard = one.bell();
    let taken: Vec<usize> = std::iter::from_fn(|| late.take_back()).collect();
    assert_eq!((taken, one.held(), late.held()), (vec![4, 5, 6, 7], set(0..4), set(4..8)));
    assert_eq!(one.bell().wrapping_sub(heard), 4, "it is told of each");
    assert_eq!(late.take_back(), None);

    drop(late);
    let standing = one.round(8, 4);
    assert_eq!((standing.owned, standing.held, standing.own_free, standing.alone), (8, 4, 4, true));
}

#[test]
fn an_own_core_is_claimed_first_then_one_without_an_owner_then_one_that_may_be_taken_back() {
    let table = Table::new();
    let (one, other) = (table.join(1, 4), table.join(2, 4));
    assert_eq!(rounds(&[(&one, 1), (&other, 1)]), [1, 1]);
    assert_eq!((one.owned(), other.owned()), (set([0]), set([1])));
    assert_eq!(claim_all(&other, true), [1]);
    assert_eq!(claim_all(&other, false), [2, 3, 0]);
    assert_eq!((one.claim(false), one.take_back(), one.take_back()), (None, Some(0), None));
    // With a named core, `release` releases only that core. Without a name, it releases cores of other owners first,
    // then own cores.
    assert_eq!(
        [Some(3), Some(0), None, None, None].map(|core| other.release(core)),
        [Some(3), None, Some(2), Some(1), None],
        "core 0 is no longer its own to release"
    );
    assert_eq!((other.held(), one.held()), (set([]), set([0])));
}

#[test]
fn shares_follow_weights_and_desires() {
    let table = Table::new();
    let heavy = table.join_as(&Profile { weight: 300, ..profile(1, 0..8) });
    let light = table.join(2, 8);
    assert_eq!(rounds(&[(&heavy, 8), (&light, 8)]), [6, 2]);
    assert_eq!(rounds(&[(&heavy, 3), (&light, 8)]), [3, 5]);
    assert_eq!(rounds(&[(&heavy, 0), (&light, 8)]), [0, 8]);
    assert!(light.round(8, 1).alone, "a program without work does not count");
    // A weight of 0 has the effect of weight 1.
    let least = table.join_as(&Profile { weight: 0, ..profile(3, 0..8) });
    assert_eq!(rounds(&[(&heavy, 8), (&light, 8), (&least, 8)]).iter().sum::<u32>(), 8);
}

#[test]
fn two_parties_of_one_program_share_one_share() {
    let table = Table::new();
    let (one, other, second) = (table.join(1, 8), table.join(2, 8), table.join(1, 8));
    assert_eq!(rounds(&[(&one, 8), (&other, 8), (&second, 8)]), [2, 4, 2]);
    assert_eq!(rounds(&[(&one, 8), (&other, 0), (&second, 8)]), [4, 0, 4]);
    assert!(!one.round(8, 1).alone && !second.round(8, 1).alone, "they divide the cores");
    second.round(0, 0);
    assert!(one.round(8, 1).alone);
}

#[test]
fn with_more_programs_than_cores_each_core_has_an_owner_and_all_take_turns() {
    let table = Table::new();
    let members: Vec<Member> = (1..=5).map(|program| table.join(program, 2)).collect();
    let mut turns = [0; 5];
    wait_until("each of five has owned one of two cores", || {
        for member in &members {
            member.round(2, 1);
        }
        let owned: Vec<usize> = members.iter().map(|member| member.owned().len()).collect();
        assert_eq!(owned.iter().sum::<usize>(), 2);
        turns.iter_mut().zip(&owned).for_each(|(turns, owned)| *turns += owned);
        turns.iter().all(|turns| *turns > 0)
    });
}

#[test]
fn three_that_come_and_go_leave_no_core_without_an_owner() {
    let table = Table::new();
    let (one, two, three) = (table.join(1, 9), table.join(2, 9), table.join(3, 9));
    assert_eq!(rounds(&[(&one, 9), (&two, 9), (&three, 9)]), [3, 3, 3]);
    assert_eq!(claim_all(&two, false).len(), 9);
    drop(two);
    assert_eq!(rounds(&[(&one, 9), (&three, 9)]).iter().sum::<u32>(), 9);
    assert_eq!(one.round(9, 1).free, 9, "what it held and did not own is free too");
    assert_eq!(harness::unsound(&table.path()), [""; 0]);
    drop((one, three));
    assert_eq!(harness::unsound(&table.path()), [""; 0]);
}

#[test]
fn a_program_gets_only_cores_that_it_may_use() {
    let table = Table::new();
    let (low, high) = (table.join_as(&profile(1, 0..4)), table.join_as(&profile(2, 2..8)));
    rounds(&[(&low, 8), (&high, 8)]);
    assert_eq!(low.owned().union(high.owned()), set(0..8));
    assert!(claim_all(&low, false).iter().all(|core| *core < 4));
    assert!(claim_all(&high, false).iter().all(|core| *core >= 2));
    assert_eq!(low.held().union(high.held()), set(0..8));
}

#[test]
fn a_core_that_is_released_wakes_its_owner_or_else_one_that_waits_and_may_use_it() {
    let table = Table::new();
    let holder = table.join(1, 4);
    let elsewhere = table.join_as(&profile(2, 8..12));
    let (owner, waiter) = (table.join(3, 4), table.join(4, 4));
    let bells = || [&elsewhere, &owner, &waiter].map(Member::bell);
    claim_all(&holder, false);
    // Run a round of each member, so that no member counts as stopped on a slow machine.
    let come_by = || rounds(&[(&owner, 4), (&elsewhere, 0), (&waiter, 0)]);
    come_by();
    assert_eq!(owner.owned(), set(0..4));

    let quiet = bells();
    assert_eq!(holder.release(Some(0)), Some(0));
    assert_eq!(bells(), quiet, "no program waits");

    [&elsewhere, &owner, &waiter].iter().for_each(|member| member.want(true));
    come_by();
    assert_eq!(holder.release(Some(1)), Some(1));
    assert_eq!(bells(), [quiet[0], quiet[1] + 1, quiet[2]], "the owner first");

    owner.want(false);
    come_by();
    assert_eq!(holder.release(Some(2)), Some(2));
    assert_eq!(bells(), [quiet[0], quiet[1] + 1, quiet[2] + 1], "one that could not use it would be told in vain");

    // A ring wakes a waiting thread at once, before its timeout.
    let heard = waiter.bell();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let began = Instant::now();
            while waiter.bell() == heard {
                waiter.wait(heard, harness::LIMIT * 2);
            }
            began.elapsed()
        });
        std::thread::sleep(Duration::from_millis(20));
        come_by();
        assert_eq!(holder.release(Some(3)), Some(3));
        assert!(waits.join().unwrap() < harness::LIMIT);
    });

    let heard = owner.bell();
    owner.ring_own();
    owner.wait(heard, harness::LIMIT * 2);
    assert_eq!(owner.bell(), heard + 1);
    owner.wait(owner.bell(), Duration::from_millis(1));
}

#[test]
fn one_that_joins_rings_the_others_only_where_one_may_be_alone() {
    let table = Table::new();
    let (one, two) = (table.join(1, 4), table.join(2, 4));
    let second_party = table.join(1, 4);
    // Returns the numbers of rings that `one` and `two` get when another program joins. Repeats if the attempt took so
    // long that a member could count as stopped.
    let rings = |at_work: &[&Member]| loop {
        let began = Instant::now();
        [&one, &two, &second_party].iter().for_each(|member| _ = member.round(0, 0));
        at_work.iter().for_each(|member| _ = member.round(4, 1));
        let bells = || [&one, &two].map(Member::bell);
        let before = bells();
        drop(table.join(3, 4));
        let after = bells();
        if began.elapsed() < STOPPED_AFTER / 2 {
            break [after[0] - before[0], after[1] - before[1]];
        }
    };
    assert_eq!(rings(&[&one]), [1, 1], "one is at work, alone, and looks rarely");
    assert_eq!(rings(&[&one, &two]), [0, 0], "both are at work, and look soon");
    assert_eq!(rings(&[&one, &second_party]), [0, 0], "both parties of one program are at work");
}

#[test]
fn a_core_that_one_program_declines_is_offered_to_another() {
    let table = Table::new();
    let (holder, owner, waiter) = (table.join(1, 1), table.join(2, 1), table.join(3, 1));
    claim_all(&holder, false);
    [&owner, &waiter].iter().for_each(|member| member.want(true));
    rounds(&[(&owner, 1), (&waiter, 0)]);
    let heard = [&owner, &waiter].map(Member::bell);
    holder.release(None);
    assert_eq!([&owner, &waiter].map(Member::bell), [heard[0] + 1, heard[1]]);
    owner.want(false);
    owner.decline();
    assert_eq!([&owner, &waiter].map(Member::bell), [heard[0] + 1, heard[1] + 1]);
    // The core is no longer free.
    waiter.claim(false);
    owner.decline();
    assert_eq!([&owner, &waiter].map(Member::bell), [heard[0] + 1, heard[1] + 1]);
}

#[test]
fn cores_of_a_program_that_leaves_or_dies_wake_the_programs_that_wait() {
    let table = Table::new();
    let (holder, waiter) = (table.join(1, 2), table.join(2, 2));
    claim_all(&holder, false);
    waiter.want(true);
    let heard = waiter.bell();
    drop(holder);
    assert_ne!(waiter.bell(), heard);
    assert_eq!(waiter.claim(false), Some(0));
}

#[test]
fn a_stopped_programs_cores_are_used_by_others_until_it_goes_on() {
    let table = Table::new();
    let (other, stopped) = (table.join(2, 4), table.join(1, 4));
    rounds(&[(&stopped, 4), (&other, 4)]);
    claim_all(&stopped, true);
    claim_all(&other, true);
    assert_eq!((stopped.held().len(), other.held().len()), (2, 2));
    stopped.want(true);

    // From here on the member sends no heartbeat.
    std::thread::sleep(STOPPED_AFTER);
    wait_until("the other owns and claims all", || {
        let standing = other.round(4, 2);
        (standing.owned, standing.held + standing.free, standing.alone) == (4, 4, true)
    });
    assert!(other.any_free());
    let life = |member: &Member| {
        let snapshot = Snapshot::take(&table.location()).unwrap().unwrap();
        snapshot.programs.iter().find(|program| program.slot == member.slot()).unwrap().life
    };
    assert_eq!(life(&stopped), Life::Stopped);
    assert_eq!((claim_all(&other, false).len(), other.held(), stopped.held()), (2, set(0..4), set([])));
    // The stopped program waits for a core too. Ringing it would be useless, so `third` must be rung.
    let third = table.join(3, 4);
    third.want(true);
    let heard = third.bell();
    let released = other.release(None);
    assert_eq!(third.bell(), heard + 1);
    drop(third);
    assert_eq!(other.claim(false), released);

    // The stopped member continues. It no longer holds cores, and gets its share of the cores back.
    assert_eq!(stopped.release(Some(0)), None);
    assert_eq!(rounds(&[(&stopped, 4), (&other, 4)]), [2, 2]);
    assert_eq!(life(&stopped), Life::Living);
    while stopped.claim(true).or_else(|| stopped.take_back()).is_some() {}
    assert_eq!((stopped.held(), other.held().len()), (stopped.owned(), 2));
}

#[test]
fn a_snapshot_shows_what_was_done() {
    let table = Table::new();
    assert!(Snapshot::take(&table.location()).unwrap().is_none());
    let (one, other) = (table.join_as(&Profile { weight: 7, ..profile(11, 0..4) }), table.join(22, 4));
    rounds(&[(&one, 4)]);
    claim_all(&one, true);
    rounds(&[(&one, 4), (&other, 3)]);
    while other.take_back().is_some() {}
    one.note_lost(other.held().len() as u32);
    let released = one.release(None).unwrap();

    let snapshot = Snapshot::take(&table.location()).unwrap().unwrap();
    let [first, second] = snapshot.programs.as_slice() else { panic!("{snapshot:?}") };
    assert_eq!((first.slot, first.program, first.weight, first.desire), (one.slot(), 11, 7, 4));
    assert_eq!((first.name.as_str(), first.policy.as_str(), first.pid), ("program 11", "test", std::process::id()));
    assert_eq!((first.workers, first.awake, first.life), (4, 1, Life::Living));
    let lost = other.held().len() as u64;
    assert!(lost > 0);
    assert_eq!((first.claimed, first.taken_back, first.released, first.lost), (4, 0, 1, lost));
    assert_eq!((second.claimed, second.taken_back, second.released, second.lost), (0, lost, 0, 0));
    assert_eq!((first.held, first.owned, first.may_use), (one.held(), one.owned(), set(0..4)));
    assert_eq!((second.held, second.owned), (other.held(), other.owned()));
    assert_eq!(snapshot.cores.iter().map(|core| core.id).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(snapshot.cores[released].holder, None);
    assert!(first.age < harness::LIMIT && snapshot.cores[released].since.unwrap() < harness::LIMIT);
}

#[test]
fn members_that_join_from_one_process_get_the_share_of_one_program() {
    let table = Table::new();
    // The copies of the runtime in a process use the same number, that of the process.
    let [one, copy] = [(); 2].map(|()| table.join(this_program(), 2));
    let other = table.join(1, 2);
    let members = [&one, &copy, &other];
    members.iter().for_each(|member| _ = member.round(2, 1));
    assert_eq!(members.map(|member| member.round(2, 1).share_milli), [500, 500, 1000]);
    let snapshot = Snapshot::take(&table.location()).unwrap().unwrap();
    let shares: Vec<u32> = snapshot.programs.iter().map(|program| snapshot.share_milli(program)).collect();
    assert_eq!(shares, [500, 500, 1000]);
    one.publish(Duration::from_secs(1), None);
    let siblings = |member: &Member| member.siblings().map(|all| (all.cpu.as_secs(), all.joined_first));
    assert_eq!(members.map(siblings), [Some((0, true)), Some((1, false)), None]);
    // The two members divide the limit of the process between them while both have work.
    let parts = |cores| [&one, &copy].map(|member| member.siblings().unwrap().part(cores));
    assert_eq!([1, 2, 3, 4].map(parts), [[1, 1], [1, 1], [2, 1], [2, 2]]);
    copy.round(0, 0);
    assert_eq!(one.siblings().unwrap().part(3), 3);
    one.leave();
    assert_eq!(copy.siblings(), None);
}

#[test]
fn a_snapshot_shows_what_thieves_did_where_that_is_published() {
    let table = Table::new();
    let (one, other) = (table.join(1, 4), table.join(2, 4));
    let shown = |member: &Member| {
        let snapshot = Snapshot::take(&table.location()).unwrap().unwrap();
        snapshot.programs.into_iter().find(|program| program.slot == member.slot()).unwrap()
    };
    assert_eq!((shown(&one).thieves, shown(&other).thieves), (None, None));
    // A command or a program of an older build publishes no counters of thieves, but other values.
    other.publish(Duration::from_secs(1), None);
    let mut done = Thieves { steals: 5, accelerations: 3, ..Thieves::default() };
    for nth in 0..REFUSALS.len() {
        done.refusals[nth] = 10 + nth as u64;
    }
    one.publish_thieves(&done);
    assert_eq!((shown(&one).thieves, shown(&one).cpu), (Some(done), None));
    assert_eq!((shown(&other).thieves, shown(&other).cpu), (None, Some(Duration::from_secs(1))));
    assert_eq!(done.refused(), (10..19).sum());
    assert_eq!(done.by_reason().last(), Some(("kernel", 18)));
    done.steals += 1;
    one.publish_thieves(&done);
    assert_eq!(shown(&one).thieves, Some(done));
    // The words may hold any value.
    done.refusals = [u64::MAX; REFUSALS.len()];
    assert_eq!(done.refused(), u64::MAX);
}

#[test]
fn a_slot_that_is_used_again_has_nothing_of_its_last_program() {
    let table = Table::new();
    let one = table.join(1, 4);
    rounds(&[(&one, 4)]);
    claim_all(&one, true);
    one.want(true);
    one.publish_thieves(&Thieves { steals: 1, ..Thieves::default() });
    let slot = one.slot();
    drop(one);
    let next = table.join(2, 4);
    assert_eq!((next.slot(), next.held(), next.owned()), (slot, set([]), set([])));
    let snapshot = Snapshot::take(&table.location()).unwrap().unwrap();
    assert_eq!((snapshot.programs[0].claimed, snapshot.programs[0].released), (0, 0));
    assert_eq!(snapshot.programs[0].thieves, None);
}

#[test]
fn a_full_table_is_refused_with_a_sentence_and_open_again_when_one_leaves() {
    let table = Table::new();
    let mut members: Vec<Member> = (0..SLOTS as u64).map(|program| table.join(program, 2)).collect();
    let refused = Member::join(&table.location(), &profile(999, 0..2)).unwrap_err().to_string();
    assert!(refused.contains("is full: 256 programs") && refused.contains(table.path().to_str().unwrap()), "{refused}");
    let last = members.last().unwrap();
    last.round(2, 1);
    assert_eq!((last.owned(), claim_all(last, true).len()), (set(0..2), 2), "the last slot is as good as others");
    let left = members.swap_remove(100);
    let slot = left.slot();
    drop(left);
    assert_eq!(table.join(999, 2).slot(), slot);
}

#[test]
fn threads_that_claim_and_release_at_once_never_hold_one_core_twice() {
    let table = Table::new();
    let holders: [AtomicU32; 4] = Default::default();
    let twice = AtomicU32::new(0);
    let longest_ns = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for program in 0..4 {
            let (table, holders, twice, longest_ns) = (&table, &holders, &twice, &longest_ns);
            scope.spawn(move || {
                let member = table.join(program, 4);
                for _ in 0..2_000 {
                    let began = Instant::now();
                    // Without a desire no program owns a core, so no program can take a core from another program.
                    member.round(0, 1);
                    let Some(core) = member.claim(false) else { continue };
                    twice.fetch_add(holders[core].fetch_add(1, SeqCst), SeqCst);
                    holders[core].fetch_sub(1, SeqCst);
                    member.release(Some(core));
                    longest_ns.fetch_max(began.elapsed().as_nanos() as u64, SeqCst);
                }
            });
        }
    });
    // If the machine has delayed a thread for longer than `STOPPED_AFTER`, other threads may take its core.
    if u128::from(longest_ns.into_inner()) < STOPPED_AFTER.as_nanos() {
        assert_eq!(twice.into_inner(), 0);
    }
    assert_eq!(harness::unsound(&table.path()), [""; 0]);
}

/// Removes the table while programs use it, as `rm`, a cleaner of `/dev/shm` or a logout does.
#[test]
fn programs_of_a_removed_table_meet_those_that_begin_later() {
    let table = Table::new();
    let old = [1, 2].map(|program| table.join(program, 6));
    rounds(&[(&old[0], 6), (&old[1], 6)]);
    assert_eq!(claim_all(&old[0], true).len(), 3);
    std::fs::remove_file(table.path()).unwrap();
    let new = table.join(3, 6);
    assert!(new.round(6, 1).alone);
    for member in &old {
        member.follow().unwrap();
        assert!(member.held().is_empty());
    }
    rounds(&[(&old[0], 6), (&old[1], 6), (&new, 6), (&old[0], 6), (&old[1], 6)]);
    let programs = Snapshot::take(&table.location()).unwrap().unwrap().programs;
    let names: Vec<_> = programs.iter().map(|program| program.name.as_str()).collect();
    assert_eq!(names, ["program 3", "program 1", "program 2"]);
    for member in [&old[0], &old[1], &new] {
        assert_eq!(claim_all(member, true).len(), 2);
    }
    assert_eq!(harness::unsound(&table.path()), [""; 0]);
    // The member is notified of free cores in the new table.
    let heard = old[1].bell();
    old[1].want(true);
    new.release(None);
    assert_ne!(old[1].bell(), heard);
}

#[test]
fn programs_of_a_table_that_no_other_can_replace_go_on_sharing_it() {
    let table = Table::new();
    let members = [1, 2].map(|program| table.join(program, 6));
    rounds(&[(&members[0], 6), (&members[1], 6)]);
    std::fs::remove_dir_all(table.folder()).unwrap();
    for member in &members {
        member.follow().unwrap();
    }
    assert_eq!(members[0].round(6, 1).owned, 3);
    assert_eq!(claim_all(&members[0], true).len(), 3);
}
