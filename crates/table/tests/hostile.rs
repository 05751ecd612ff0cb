//! Tests with hostile files. A file that is not a table is refused with an error message and stays unchanged. With a
//! table of any content, every function returns.
//!
//! A fuzz target would need a nightly compiler. Instead there are property tests here, and the corpus in `corpus/`. A
//! test writes each file of the corpus over a valid table.

mod harness;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use comity_table::{Cleaned, Location, Member, Snapshot, clean};
use harness::roles::{Random, command, play};
use harness::{BYTES, CORES_AT, SLOTS_AT, Seat as _, Steps as _, Table, profile};
use proptest::prelude::*;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the bytes of a valid table without a program.
fn good(table: &Table) -> Vec<u8> {
    drop(table.join(1, 2));
    fs::read(table.path()).unwrap()
}

/// Checks that a program cannot join, and that the error names the path and contains `parts`.
fn is_refused(path: &Path, parts: &[&str]) {
    let location = Location::At(path.to_owned());
    let sentence = match Member::join(&location, &profile(1, 0..2)) {
        Ok(_) => panic!("{} was accepted", path.display()),
        Err(error) => error.to_string(),
    };
    let start = format!("the core table '{}' ", path.display());
    assert!(sentence.starts_with(&start) && parts.iter().all(|part| sentence.contains(part)), "{sentence}");
}

#[test]
fn what_is_no_table_is_refused_and_stays_as_it_is() {
    let table = Table::new();
    let good = good(&table);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let clean = "`comity table clean` removes it";
    let cases: Vec<(&str, Vec<u8>, [&str; 2])> = vec![
        ("empty", Vec::new(), ["cut short", clean]),
        ("a part of the header", good[..100].to_vec(), ["cut short", clean]),
        ("the header alone", good[..CORES_AT].to_vec(), ["has the wrong size", clean]),
        ("one byte too few", good[..BYTES - 1].to_vec(), ["has the wrong size", clean]),
        ("one byte too many", with(&|bytes| bytes.push(0)), ["has the wrong size", clean]),
        ("says another size", with(&|bytes| bytes[12] ^= 1), ["has the wrong size", clean]),
        ("another magic", with(&|bytes| bytes[0] = b'c'), ["is not a core table", "Set COMITY_TABLE to another file"]),
        ("a text", b"Dear diary, ".repeat(BYTES / 12), ["is not a core table", "Set COMITY_TABLE to another file"]),
        ("zeros", vec![0; BYTES], ["is not a core table", "Set COMITY_TABLE to another file"]),
    ];
    for (name, bytes, parts) in cases {
        let path = table.folder().join(name);
        fs::write(&path, &bytes).unwrap();
        is_refused(&path, &parts);
        assert!(Snapshot::take(&Location::At(path.clone())).is_err(), "{name}");
        assert!(fs::read(&path).unwrap() == bytes, "{name} was changed");
        assert_eq!(fs::read_dir(table.folder()).unwrap().count(), 2, "{name}: nothing else is left behind");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let table = Table::new();
    let good = good(&table);
    let at = |name: &str| table.folder().join(name);
    symlink(table.path(), at("link")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    fs::create_dir(at("folder")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for (path, parts) in [
        (at("link"), ["symbolic link", "to its target"]),
        (at("dangling"), ["symbolic link", "to its target"]),
        (at("pipe"), ["is not a regular file", "to another file"]),
        (at("folder"), ["directory", "COMITY_TABLE"]),
        (at("socket"), ["cannot be opened", "COMITY_TABLE"]),
        (PathBuf::from("/dev/null"), ["is not a regular file", "to another file"]),
        (at("no/folder"), ["cannot be created", "COMITY_TABLE"]),
        (at("table/below"), ["directory", "COMITY_TABLE"]),
    ] {
        is_refused(&path, &parts);
    }
    assert!(!at("nowhere").exists() && !at("no").exists());
    assert!(fs::read(table.path()).unwrap() == good);
}

#[test]
fn a_table_that_others_may_write_is_refused() {
    let table = Table::new();
    let good = good(&table);
    assert_eq!(fs::metadata(table.path()).unwrap().mode() & 0o7777, 0o600);
    fs::set_permissions(table.path(), Permissions::from_mode(0o662)).unwrap();
    is_refused(&table.path(), &["can be written by all users", "chmod o-w"]);
    fs::set_permissions(table.path(), Permissions::from_mode(0o660)).unwrap();
    if is_root() {
        chown(table.path(), Some(65534), Some(65534)).unwrap();
        is_refused(&table.path(), &["belongs to another user", "comity table --help"]);
        assert!(fs::read(table.path()).unwrap() == good);
        // A table that its group may write to is accepted if this process is in the group.
        chown(table.path(), Some(65534), Some(0)).unwrap();
        drop(table.join(1, 2));
        fs::set_permissions(table.path(), Permissions::from_mode(0o600)).unwrap();
        is_refused(&table.path(), &["belongs to another user"]);
    } else {
        println!("skipped in part: only root can give a file away");
    }
}

/// Tests a table on a read-only mount, because file permissions do not stop root.
#[test]
fn a_table_that_cannot_be_written_is_refused() {
    let table = Table::new();
    let good = good(&table);
    let permitted = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    if !permitted.is_ok_and(|status| status.success()) {
        println!("skipped: mount namespaces are not permitted here");
        return;
    }
    for role in ["refused: read-only file", "refused: read-only folder"] {
        let program = command("child", role, 1, &table.path());
        let script = r#"mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@""#;
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "sh", "-c", script]).arg(table.folder());
        unshare.arg(program.get_program()).args(program.get_args());
        unshare.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = unshare.spawn().unwrap();
        // Keep standard input open, because its end would end the child.
        let _stdin = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{role}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(fs::read(table.path()).unwrap() == good);
}

#[test]
fn clean_removes_broken_tables_and_nothing_else() {
    let table = Table::new();
    let good = good(&table);
    let clean_at = |name: &str, bytes: &[u8]| {
        let path = table.folder().join(name);
        fs::write(&path, bytes).unwrap();
        let cleaned = clean(&Location::At(path.clone()));
        (cleaned.map_err(|error| error.to_string()), path.exists())
    };
    for broken in [&good[..0], &good[..7], &good[..500], &[good.clone(), vec![1]].concat()] {
        assert_eq!(clean_at("broken", broken), (Ok(Cleaned::Removed), false));
    }
    let (refused, still_there) = clean_at("diary", b"Dear diary");
    assert!(refused.unwrap_err().contains("is not a core table, and was not removed") && still_there);
    let member = table.join(1, 2);
    assert_eq!(clean(&table.location()).unwrap(), Cleaned::InUse { programs: 1 });
    member.round(2, 1);
    drop(member);
    assert_eq!(clean(&table.location()).unwrap(), Cleaned::Removed);
    assert_eq!(clean(&table.location()).unwrap(), Cleaned::NoTable);
}

#[test]
fn a_program_that_joins_while_a_table_is_cleaned_away_joins_the_next() {
    let table = Table::new();
    std::thread::scope(|scope| {
        let cleaner = scope.spawn(|| {
            for _ in 0..100 {
                let _ = clean(&table.location());
            }
        });
        while !cleaner.is_finished() {
            let member = table.join(1, 2);
            // `clean` does not remove the table that this member is in.
            for _ in 0..3 {
                member.round(2, 1);
                assert!(table.file().is_taken(member.slot()));
            }
        }
    });
}

/// Calls all methods of a member, in a table with any content. Every method must return, and the file must keep its
/// size.
fn live(table: &Table, seed: u64) {
    let began = Instant::now();
    let mut random = Random(seed);
    let members = [table.join(random.below(3), 1024), table.join(random.below(3), 5)];
    for _ in 0..20 {
        let member = &members[random.below(2) as usize];
        let standing = member.round(random.below(1 << 16) as u32, random.below(1 << 16) as u32);
        assert!(standing.held + standing.free <= 1024 && standing.owned <= 1024);
        assert!(standing.own_free <= standing.free && standing.own_free + standing.lent <= standing.owned);
        member.claim(random.below(2) == 0);
        member.take_back();
        member.release((random.below(2) == 0).then(|| random.below(1 << 16) as usize));
        member.note_lost(random.below(1 << 16) as u32);
        member.want(random.below(2) == 0);
        member.wait(member.bell().wrapping_add(random.below(2) as u32), Duration::from_micros(10));
        member.ring_own();
        let _ = member.any_free();
    }
    let snapshot = Snapshot::take(&table.location()).unwrap().unwrap();
    let printed = format!("{snapshot:?}");
    assert!(!printed.contains('\x1b') && snapshot.programs.len() <= 256 && snapshot.cores.len() <= 1024);
    assert_eq!(table.file().bytes(), BYTES);
    // A program that joins finds a slot even if all are marked as used, because their locks are free.
    drop(table.join(9, 2));
    drop(members);
    let alone = table.join(1, 8);
    alone.round(8, 1);
    assert_eq!(alone.round(8, 1).owned, 8, "what the dead have left is gone");
    assert!(began.elapsed() < harness::LIMIT, "{:?}", began.elapsed());
}

/// Returns a table with `bytes` written over it at `at`.
fn laid_over(at: usize, bytes: &[u8]) -> Table {
    let table = Table::new();
    let mut content = good(&table);
    let at = 16 + at % (BYTES - 16);
    let end = BYTES.min(at + bytes.len());
    content[at..end].copy_from_slice(&bytes[..end - at]);
    fs::write(table.path(), content).unwrap();
    table
}

/// The number of cases, from `PROPTEST_CASES`. It is small, because each case writes a file.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn any_header_is_a_table_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), head: bool, seed: u64) {
        let table = Table::new();
        let mut content = good(&table);
        let at = if head { 0 } else { 16 };
        content[at..at + bytes.len()].copy_from_slice(&bytes);
        fs::write(table.path(), &content).unwrap();
        match Member::join(&table.location(), &profile(1, 0..2)) {
            Ok(member) => {
                drop(member);
                live(&table, seed);
            }
            Err(_) => prop_assert!(fs::read(table.path()).unwrap() == content),
        }
    }

    #[test]
    fn any_words_of_cores_break_nothing(
        // Most words are words that a program could have written, because random bits rarely name a program.
        words in proptest::collection::vec((any::<u32>(), 0u64..260, 0u64..260, any::<bool>()), 0..1100),
        seed: u64,
    ) {
        let words = words.into_iter().map(|(generation, owner, holder, any)| {
            let word = u64::from(generation) << 32 | owner << 16 | holder;
            if any { word.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { word }
        });
        live(&laid_over(CORES_AT - 16, &words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>()), seed);
    }

    #[test]
    fn any_bytes_anywhere_break_nothing(at: u32, seed: u64, length in 1usize..300_000, sparse: bool) {
        let mut random = Random(seed);
        let byte = |_| if sparse && random.below(16) > 0 { 0 } else { random.below(256) as u8 };
        live(&laid_over(at as usize, &(0..length).map(byte).collect::<Vec<u8>>()), seed);
    }
}

#[test]
fn the_corpus_breaks_nothing() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut entries = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        // The file's name ends with the offset at which its bytes are written, so that files can be short. The bytes
        // are repeated up to the end of the table.
        let at: usize = path.file_name().unwrap().to_str().unwrap().rsplit_once('@').unwrap().1.parse().unwrap();
        let pattern = fs::read(&path).unwrap();
        let bytes: Vec<u8> = pattern.into_iter().cycle().take(BYTES).collect();
        println!("{}", path.display());
        live(&laid_over(at - 16, &bytes), 1);
        entries += 1;
    }
    assert!(entries >= 6, "{entries}");
}

/// Tests members of a table in which a hostile thread changes words all the time.
#[test]
fn a_writer_that_never_rests_breaks_nothing() {
    use std::os::unix::fs::FileExt;
    let table = Table::new();
    drop(table.join(1, 2));
    let end = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = fs::OpenOptions::new().write(true).open(table.path()).unwrap();
            let mut random = Random(5);
            while !end.load(std::sync::atomic::Ordering::Relaxed) {
                // The words name slots 0 to 7, which belong to living programs or are dead, or no slot.
                let word = random.below(9) << 16 | random.below(9);
                file.write_all_at(&word.to_le_bytes(), CORES_AT as u64 + 8 * random.below(1024)).unwrap();
                if random.below(4) == 0 {
                    file.write_all_at(&random.below(u64::MAX).to_le_bytes(), 64 + 8 * random.below(8)).unwrap();
                    let at = SLOTS_AT as u64 + 8 * random.below(256 * 128);
                    file.write_all_at(&random.below(u64::MAX).to_le_bytes(), at).unwrap();
                }
            }
        });
        for _ in 0..20 {
            let members = [1, 2].map(|program| Member::join(&table.location(), &profile(program, 0..1024)).unwrap());
            for member in &members {
                member.round(1024, 1);
                member.claim(false);
                member.take_back();
                member.want(true);
                member.release(None);
                member.wait(member.bell(), Duration::from_micros(10));
            }
        }
        end.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    play(|role| {
        let Some(Location::At(path)) = Location::from_environment() else { panic!("a role has a table") };
        match role {
            "refused: read-only file" => is_refused(&path, &["cannot be opened", "Read-only", "COMITY_TABLE"]),
            "refused: read-only folder" => {
                is_refused(&path.with_file_name("new"), &["cannot be created", "Read-only", "COMITY_TABLE"]);
            }
            other => panic!("no role is called '{other}'"),
        }
    });
}
