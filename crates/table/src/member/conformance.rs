//! What members said to the steps on the table, on real threads, said again: see `comity_record`. The steps have no
//! words of their own, so what is held again has no driver. A member calls each step as here, with the view of the
//! table that ships.

use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{env, fs, thread};

use comity_os::clock::now_ns;
use comity_record::replay::{choose, file, take_steps_again};
use comity_record::{begin_life, filed, seen, step};

use super::reports;
use crate::harness::{Table, profile};
use crate::{Member, Profile};

const MEMBERS: u64 = 4;
const STEPS: u32 = 1500;

/// Takes steps at random. All but the last desire cores.
fn live(member: &Member, nth: u64) {
    begin_life(format_args!("member {nth}"), None, STEPS);
    let mut random = nth * 2 + 1;
    for _ in 0..STEPS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let now = now_ns();
        member.own().heartbeat.store(now, Ordering::Relaxed);
        let (kind, bit) = (random >> 33, random >> 63 == 1);
        let line = match kind % 12 {
            0 | 1 => format!("claim {bit}"),
            2 => "take_back".to_owned(),
            3 | 4 => "release".to_owned(),
            5 => "decline".to_owned(),
            6 => format!("want {bit}"),
            7 => "any_free".to_owned(),
            8 => "watch".to_owned(),
            9 => "heed".to_owned(),
            10 => "reclaim".to_owned(),
            _ => {
                member.own().desire.store(kind as u32 / 12 % 5, Ordering::Release);
                format!("round {} 100 {now}", nth + 1)
            }
        };
        step(&seen(member.view(member.slot(), now)), &line, || reports(member.layout(), now));
    }
}

#[test]
fn what_members_did_is_done_again() {
    let table = Table::new();
    // Two of them wait before they claim what others have left.
    let lend_after = |nth| Duration::from_micros(nth % 2 * 20);
    let join = |nth| table.join_as(&Profile { lend_after: lend_after(nth), ..profile(nth + 1, 0..6) });
    let members: Vec<Member> = (0..MEMBERS).map(join).collect();
    thread::scope(|scope| {
        for (member, nth) in members.iter().zip(0..) {
            scope.spawn(move || live(member, nth));
        }
    });
    let record = filed().concat();
    let compared = take_steps_again(&record);
    assert_eq!(compared, MEMBERS as usize * STEPS as usize);
    if env::var_os("COMITY_FILE_RECORDS").is_some() {
        fs::write(file("table"), choose(&record, 2, 30)).expect("the record is filed");
    }
}

#[test]
fn what_was_filed_is_done_again() {
    assert!(take_steps_again(&fs::read_to_string(file("table")).expect("there is a record")) > 100);
}
