//! Tests of requests: only the addressed program gets a request, immediately and as a whole.

mod harness;

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use comity_os::clock::now_ns;
use comity_table::{Member, Program, Request, RequestError, Requests, Snapshot, request};
use harness::roles::SHARED;
use harness::{SLOT_BYTES, SLOTS_AT, Table};

fn shown(table: &Table, member: &Member) -> Program {
    let programs = Snapshot::take(&table.location()).unwrap().unwrap().programs;
    programs.into_iter().find(|program| program.slot == member.slot()).unwrap()
}

#[test]
fn a_program_is_asked_each_thing_by_itself_and_is_rung_for_it() {
    let table = Table::new();
    let (member, other) = (table.join(1, SHARED), table.join(2, SHARED));
    assert_eq!((member.requests(), other.requests()), (Requests::default(), Requests::default()));
    let heard = member.bell();
    let ask = |asked: &[Request]| request(&table.location(), &shown(&table, &member), asked).unwrap();
    ask(&[Request::Weight(Some(300)), Request::Cores(Some(2))]);
    assert_eq!(member.bell(), heard.wrapping_add(1));
    assert_eq!(member.requests(), Requests { weight: Some(300), cores: Some(2), paused_until: None });
    let before = now_ns();
    ask(&[Request::Pause(Duration::from_secs(60))]);
    let until = member.requests().paused_until.unwrap();
    assert!((before..=now_ns() + 61_000_000_000).contains(&until));
    assert_eq!(shown(&table, &member).requests, Some(member.requests()), "and all may see it");
    ask(&[Request::Weight(None), Request::Resume]);
    assert_eq!(member.requests(), Requests { weight: None, cores: Some(2), paused_until: None });
    ask(&[Request::Pause(Duration::MAX)]);
    let until = member.requests().paused_until.unwrap();
    assert!(until <= now_ns() + 24 * 3600 * 1_000_000_000 + 1_000_000, "for a day at most");
    assert_eq!(other.requests(), Requests::default());
    // The weight in the table changes only when the program itself publishes it.
    member.set_weight(300);
    assert_eq!(shown(&table, &member).weight, 300);
}

#[test]
fn a_pause_runs_out() {
    let table = Table::new();
    let member = table.join(1, SHARED);
    member.requests();
    request(&table.location(), &shown(&table, &member), &[Request::Pause(Duration::from_millis(30))]).unwrap();
    let until = member.requests().paused_until;
    harness::wait_until("it has run out", || member.requests().paused_until.is_none());
    assert!(until.is_none_or(|until| until <= now_ns()));
    assert_eq!(shown(&table, &member).requests, Some(Requests::default()));
}

/// A process sees one program in a slot, another program takes the slot, and the process then writes its request.
#[test]
fn the_next_program_in_a_place_is_asked_nothing_whatever_was_asked_of_the_one_before() {
    let table = Table::new();
    let (member, stays) = (table.join(1, SHARED), table.join(2, SHARED));
    member.requests();
    let ask = |program: &Program| request(&table.location(), program, &[Request::Weight(Some(7))]);
    let before = shown(&table, &member);
    ask(&before).unwrap();
    let place = member.slot();
    let words_at = (SLOTS_AT + SLOT_BYTES * place.index() + 320) as u64;
    let file = fs::OpenOptions::new().read(true).write(true).open(table.path()).unwrap();
    let mut words = [0; 24];
    file.read_exact_at(&mut words, words_at).unwrap();
    drop(member);
    let next = table.join(3, SHARED);
    assert_eq!((next.slot(), next.requests()), (place, Requests::default()));
    assert!(matches!(ask(&before), Err(RequestError::Gone)));
    // A process of an older build may write its request late, after another program has taken the slot.
    file.write_all_at(&words, words_at).unwrap();
    assert_eq!((next.requests(), shown(&table, &next).requests), (Requests::default(), Some(Requests::default())));
    ask(&shown(&table, &next)).unwrap();
    assert_eq!(next.requests().weight, Some(7));
    drop((next, stays));
    assert!(matches!(ask(&before), Err(RequestError::Gone)));
}

#[test]
fn a_program_that_does_not_say_that_it_obeys_is_not_asked() {
    let table = Table::new();
    let member = table.join(1, SHARED);
    let older = shown(&table, &member);
    assert_eq!(older.requests, None);
    let asked = request(&table.location(), &older, &[Request::Cores(Some(1))]);
    assert!(matches!(asked, Err(RequestError::Deaf)), "{asked:?}");
    // The program fills in other fields before and after its first call of `requests`. The bit OBEYS must remain.
    member.publish(Duration::from_secs(1), None);
    member.requests();
    member.publish(Duration::from_secs(2), Some([1, 2]));
    let now = shown(&table, &member);
    assert_eq!((now.requests, now.cpu), (Some(Requests::default()), Some(Duration::from_secs(2))));
    request(&table.location(), &older, &[Request::Cores(Some(1))]).unwrap();
    assert_eq!(member.requests().cores, Some(1));
}

#[test]
fn nonsense_in_the_words_asks_for_no_more_than_a_setter_may() {
    let table = Table::new();
    let member = table.join(1, SHARED);
    member.requests();
    let file = fs::OpenOptions::new().read(true).write(true).open(table.path()).unwrap();
    let at = (SLOTS_AT + SLOT_BYTES * member.slot().index() + 312) as u64;
    // Overwrite the tenure and all request words. The program compares requests with the tenure in its own memory.
    file.write_all_at(&[0xff; 32], at).unwrap();
    assert_eq!(member.requests(), Requests::default());
    let mine = (u64::MAX << 24 | 1).to_le_bytes();
    file.write_all_at(&[mine, mine, mine].concat(), at + 8).unwrap();
    let asked = member.requests();
    assert_eq!((asked.weight, asked.paused_until), (Some(10_000), None));
}
