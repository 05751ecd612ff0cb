//! Tests with programs that were built at different times.

mod harness;

use std::fs;
use std::os::unix::fs::FileExt;

use comity_table::{Cleaned, OtherLayout, REFUSALS, Snapshot, Thieves, clean, other_layouts};
use harness::roles::{Process, SHARED, play};
use harness::{SLOT_BYTES, SLOTS_AT, Seat as _, Steps as _, Table, reap, slots, wait_until};

const CHILD: &str = "child";

/// The offset of the layout's number, in every layout.
const VERSION_AT: u64 = 8;

#[test]
fn beside_a_table_of_another_layout_a_program_uses_one_of_its_own_and_says_which_programs_do_not() {
    let table = Table::new();
    // A program of another layout holds the same locks, and its directory is at the same place.
    let mut other = Process::start(CHILD, "hold half", 1, &table.path());
    wait_until("the other has joined", || table.path().exists() && table.file().is_taken(slots().next().unwrap()));
    assert_eq!(other_layouts(&table.location()), []);
    let file = fs::OpenOptions::new().write(true).open(table.path()).unwrap();
    file.write_all_at(&3u32.to_le_bytes(), VERSION_AT).unwrap();

    let member = table.join(1, SHARED);
    assert!(member.round(SHARED as u32, 1).alone);
    let beside = table.folder().join("table.layout-2");
    assert!(beside.exists() && table.location().path() == beside);
    assert_eq!(Snapshot::take(&table.location()).unwrap().unwrap().programs.len(), 1);
    let expected = OtherLayout {
        path: table.path(),
        layout: 3,
        programs: vec![format!("program {0} (process {0})", other.pid())],
        more: 0,
    };
    assert_eq!(other_layouts(&table.location()), std::slice::from_ref(&expected));
    let sentence = expected.to_string();
    for part in ["has layout 3", "is used by program", "another version of Comity"] {
        assert!(sentence.contains(part), "{sentence}");
    }
    other.kill();
    assert_eq!(other_layouts(&table.location()), [], "no program uses it");

    // The second member of this layout finds the first. Both keep using the file next to the named file, even after
    // the named file was removed.
    let second = table.join(2, SHARED);
    assert!(!second.round(SHARED as u32, 1).alone || !member.round(SHARED as u32, 1).alone);
    fs::remove_file(table.path()).unwrap();
    assert_eq!(table.location().path(), beside);
    drop((member, second));
    assert_eq!(clean(&table.location()).unwrap(), Cleaned::Removed);
    assert_eq!(table.location().path(), table.path());
}

#[test]
fn what_a_newer_program_adds_to_its_slot_is_left_alone_and_what_an_older_one_lacks_is_not_read() {
    let table = Table::new();
    let (member, newer) = (table.join(1, SHARED), table.join(2, SHARED));
    let file = fs::OpenOptions::new().read(true).write(true).open(table.path()).unwrap();
    let slot = (SLOTS_AT + SLOT_BYTES * newer.slot().index()) as u64;
    // Set all feature bits and all spare words, as a newer program might. See `layout.rs`.
    let (features_at, spare_at) = (slot + 280, slot + 352);
    let spare = vec![0xa5; SLOT_BYTES - 352];
    file.write_all_at(&[0xff; 8], features_at).unwrap();
    file.write_all_at(&spare, spare_at).unwrap();
    for _ in 0..3 {
        member.round(SHARED as u32, 1);
        newer.round(SHARED as u32, 1);
        newer.claim(false);
    }
    let mut left = vec![0; spare.len()];
    file.read_exact_at(&mut left, spare_at).unwrap();
    assert!(left == spare, "they are the newer program's");

    // An older program fills in fewer fields.
    let cpu = |nth: usize| Snapshot::take(&table.location()).unwrap().unwrap().programs[nth].cpu;
    let second = std::time::Duration::from_secs(1);
    member.publish(second, Some([3, 4]));
    assert_eq!(cpu(0), Some(second));
    file.write_all_at(&[0; 8], (SLOTS_AT + SLOT_BYTES * member.slot().index()) as u64 + 280).unwrap();
    assert_eq!(cpu(0), None);

    // The counts of a later build, for reasons that only that build knows, must not appear as this program's counts.
    let later_at = (SLOTS_AT + SLOT_BYTES * member.slot().index()) as u64 + 384 + 8 * REFUSALS.len() as u64;
    let mut later = [0xa5; 8 * (16 - REFUSALS.len())];
    file.write_all_at(&later, later_at).unwrap();
    member.publish_thieves(&Thieves { steals: 5, ..Thieves::default() });
    file.read_exact_at(&mut later, later_at).unwrap();
    assert!(later.iter().all(|byte| *byte == 0));

    // The next program in the same slot sets the bits of its own fields.
    let place = newer.slot();
    drop(newer);
    reap(&member, &table, SHARED as u32);
    let successor = table.join(3, SHARED);
    assert_eq!((successor.slot(), cpu(1)), (place, None));
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    play(|role| panic!("no role is called '{role}'"));
}
