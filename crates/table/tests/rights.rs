//! Tests of the files that a program creates and uses, for each user. Each row of the table in
//! `docs/guide/src/security.md` is a test here, with an attacker who has exactly the rights of that row. Attacks by a
//! program that may write to the table are in `hostile.rs`.

mod harness;

use std::fs::{self, DirBuilder, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use comity_os::environment;
use comity_table::{Location, Member, Request, Snapshot, clean, request};
use harness::roles::{command, play};
use harness::{Seat as _, Table, profile, wait_until};
use rustix::fs::{FlockOperation, XattrFlags};

/// Numbers of users and groups. No account with these numbers has to exist.
const OWNER: u32 = 65_534;
const CALLER: u32 = 54_321;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Starts a process that plays a role as `program`.
fn role(program: &Path, role: &str, table: &Path, settings: impl FnOnce(&mut Command)) -> Child {
    let usual = command("child", role, 1, table);
    let mut command = Command::new(program);
    command.args(usual.get_args()).envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    settings(&mut command);
    command.spawn().unwrap()
}

/// Plays a role as `program` and returns its output.
fn run(program: &Path, name: &str, table: &Path, settings: impl FnOnce(&mut Command)) -> Output {
    let mut child = role(program, name, table, settings);
    // Keep standard input open, because its end would end the child.
    let _stdin = child.stdin.take();
    child.wait_with_output().unwrap()
}

/// Returns the path of a copy of this program that every user may run.
fn copy(folder: &Path) -> PathBuf {
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("program");
    // Another process writes the file. If this process wrote it, a child that another test forks meanwhile would have
    // the file open for writing, and the file could not be executed.
    assert!(
        Command::new("cp").arg("-p").arg(std::env::current_exe().unwrap()).arg(&program).status().unwrap().success()
    );
    program
}

#[test]
fn a_program_with_more_rights_than_its_caller_does_not_obey_its_callers_environment() {
    let table = Table::new();
    let program = copy(table.folder());
    let private = table.folder().join("private");
    DirBuilder::new().mode(0o700).create(&private).unwrap();
    let group = rustix::process::getegid().as_raw();
    let output = if is_root() {
        chown(&private, Some(OWNER), Some(OWNER)).unwrap();
        chown(&program, Some(OWNER), Some(OWNER)).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
        run(&program, "join where the environment says", &private.join("table"), |command| {
            command.uid(CALLER).gid(CALLER);
        })
    } else {
        let others = rustix::process::getgroups().unwrap_or_default();
        let Some(other) = others.iter().map(|other| other.as_raw()).find(|other| *other != group) else {
            eprintln!(
                "skipped: this user is neither root nor in a second group, so no program can be given more rights"
            );
            return;
        };
        chown(&program, None, Some(other)).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o2755)).unwrap();
        run(&program, "join where the environment says", &private.join("table"), |_| {})
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if said.contains("no more rights") {
        eprintln!("skipped: the file system of {} gives programs no other user's rights", table.folder().display());
        return;
    }
    assert!(output.status.success() && said.contains("its own table"), "{said}");
    assert_eq!(fs::read_dir(&private).unwrap().count(), 0, "the caller had it make a file");
}

fn why_not(location: &Location) -> String {
    Member::join(location, &profile(2, 0..2)).expect_err("the table may not be used").to_string()
}

/// Tests an attacker who may only read the file and holds read locks on the bytes of all slots.
#[test]
fn who_may_only_read_a_table_keeps_nobody_out_of_it() {
    let table = Table::new();
    let member = table.join(1, 2);
    assert_eq!(member.round(2, 1).owned, 2);
    for mode in [0o644, 0o640, 0o664] {
        fs::set_permissions(table.path(), Permissions::from_mode(mode)).unwrap();
        assert!(why_not(&table.location()).contains("can be locked by users who may read it"), "{mode:o}");
    }
    // The member of the table leaves it, and joins again when it may use the table again.
    let left = member.follow().expect_err("readers could keep this program in when it is dead").to_string();
    assert!(left.contains("Set its mode to 0600, or to 0660"), "{left}");
    assert!(member.round(2, 1).alone && !table.file().is_used(member.slot()));

    let program = copy(table.folder());
    let as_reader = |command: &mut Command| {
        if is_root() {
            command.uid(CALLER).gid(CALLER);
        }
    };
    let mut reader = role(&program, "hold all places", &table.path(), as_reader);
    let mut said = BufReader::new(reader.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "held"));
    // The attacker has the file open, so it keeps the locks after its permission to read was removed.
    for mode in [0o600, 0o660] {
        fs::set_permissions(table.path(), Permissions::from_mode(mode)).unwrap();
        let locked = why_not(&table.location());
        assert!(locked.contains("has locks on all slots but no programs in them"), "{locked}");
    }
    member.follow().unwrap();
    assert!(member.round(2, 1).alone);
    reader.kill().unwrap();
    reader.wait().unwrap();
    wait_until("the program is in the table again", || member.round(2, 1).owned == 2 && member.has_its_place());
}

#[test]
fn a_table_that_an_access_control_list_lets_somebody_only_read_is_refused() {
    let table = Table::new();
    drop(table.join(1, 2));
    // The binary form of an access control list: the version, then the kind, permissions and number of each entry. The
    // entries are the owner, a user, the group, the mask and others.
    let list = |of_user: u16, mask: u16| -> Vec<u8> {
        let entry = |kind: u16, permissions: u16, number: u32| {
            [&kind.to_le_bytes()[..], &permissions.to_le_bytes(), &number.to_le_bytes()].concat()
        };
        let entries =
            [(1, 6, u32::MAX), (2, of_user, CALLER), (4, 0, u32::MAX), (16, mask, u32::MAX), (32, 0, u32::MAX)];
        let entries = entries.map(|(kind, permissions, number)| entry(kind, permissions, number)).concat();
        [&2u32.to_le_bytes()[..], &entries].concat()
    };
    let set = |list: &[u8]| rustix::fs::setxattr(table.path(), "system.posix_acl_access", list, XattrFlags::empty());
    if set(&list(6, 6)).is_err() {
        eprintln!("skipped: the file system of {} has no access control lists", table.folder().display());
        return;
    }
    drop(table.join(1, 2));
    for (of_user, mask) in [(4, 6), (6, 4)] {
        set(&list(of_user, mask)).unwrap();
        assert!(why_not(&table.location()).contains("can be locked by users who may read it"), "{of_user} {mask}");
    }
}

/// Tests an attacker who puts a link or a folder at the path of another user's own folder.
#[test]
fn who_has_taken_the_name_of_a_users_folder_has_nothing_of_that_users() {
    if !is_root() {
        eprintln!("skipped: only root can play two users");
        return;
    }
    let setpriv = ["-m", "setpriv", "--reuid=1", "true"];
    if !Command::new("unshare").args(setpriv).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: mount namespaces are not permitted here, or there is no setpriv");
        return;
    }
    let table = Table::new();
    let program = copy(table.folder());
    let user = 2_000_000 + std::process::id();
    let folder = PathBuf::from(format!("/dev/shm/comity-{user}"));
    let private = table.folder().join("private");
    DirBuilder::new().mode(0o700).create(&private).unwrap();
    fs::write(private.join("layout-2"), "").unwrap();
    for path in [&private, &private.join("layout-2")] {
        chown(path, Some(user), Some(user)).unwrap();
    }
    symlink(&private, &folder).unwrap();
    lchown(&folder, Some(CALLER), Some(CALLER)).unwrap();
    let said = |name: &str, of_the_system: bool| {
        // The process gets its own `/run`, with or without a folder of the user.
        let made = if of_the_system { "mkdir -p -m 755 /run/user && mkdir -m 700 $0 && chown $1 $0 &&" } else { "" };
        let script = format!("mount -t tmpfs tmpfs /run && {made} shift && exec \"$@\"");
        let usual = command("child", name, 1, Path::new(""));
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "sh", "-c", &script]).args([format!("/run/user/{user}"), user.to_string()]);
        unshare.args(["setpriv", &format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]);
        unshare.arg(&program).args(usual.get_args());
        unshare.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().and_then(|mut child| {
            let _stdin = child.stdin.take();
            child.wait_with_output()
        });
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let refused = [said("clean the own table", false), said("join the own table", false)];
    let is_kept = private.join("layout-2").exists();
    // If the system has made `/run/user/UID`, a program joins a table there, and `clean` finds that table.
    let instead = [said("join the own table", true), said("clean the own table", true)];
    let _ = fs::remove_file(&folder);
    let why = format!("is in a folder of another user ({CALLER}), and there is no folder /run/user/{user}");
    assert!(refused.iter().all(|said| said.contains(&why)), "{refused:?}");
    assert!(is_kept, "the link was followed");
    assert!(instead[0].contains("joined") && instead[1].contains("NoTable"), "{instead:?}");
}

/// Tests that root can read any table and send requests to its programs. A program of root joins only root's own table,
/// and tables that root names and trusts.
#[test]
fn root_looks_at_the_table_of_any_user() {
    if !is_root() {
        eprintln!("skipped: only root may do it");
        return;
    }
    let table = Table::new();
    let member = table.join(1, 2);
    member.round(2, 1);
    let _obeys = member.requests();
    chown(table.path(), Some(OWNER), Some(OWNER)).unwrap();
    let snapshot = Snapshot::take(&table.location()).unwrap().unwrap();
    request(&table.location(), &snapshot.programs[0], &[Request::Weight(Some(7))]).unwrap();
    assert_eq!(member.requests().weight, Some(7));
    assert!(why_not(&table.location()).contains("belongs to another user"));
}

#[test]
fn a_member_of_a_group_makes_no_table_of_its_own_in_place_of_the_groups() {
    if !is_root() {
        eprintln!("skipped: only root can give a folder to another user");
        return;
    }
    let table = Table::new();
    fs::set_permissions(table.folder(), Permissions::from_mode(0o2770)).unwrap();
    let members = [1, 2].map(|program| table.join(program, 2));
    members.iter().for_each(|member| _ = member.round(2, 1));
    // The folder now belongs to another user, so a new table here would be for this process's user alone.
    chown(table.folder(), Some(OWNER), Some(OWNER)).unwrap();
    fs::remove_file(table.path()).unwrap();
    members.iter().for_each(|member| member.follow().unwrap());
    assert!(!table.path().exists());
    assert!(!members[0].round(2, 1).alone && !members[1].round(2, 1).alone, "they share the removed one");
    chown(table.folder(), Some(0), Some(0)).unwrap();
    let new = table.join(3, 2);
    new.round(2, 1);
    members[0].follow().unwrap();
    assert!(!members[0].round(2, 1).alone && table.file().is_used(members[0].slot()));
}

#[test]
fn a_program_that_changes_its_folder_stays_in_its_table() {
    let table = Table::new();
    let elsewhere = table.folder().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let output = run(&std::env::current_exe().unwrap(), "change the folder", Path::new("table"), |command| {
        command.current_dir(table.folder());
    });
    assert!(String::from_utf8_lossy(&output.stdout).contains("stays"), "{output:?}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn only_in_a_folder_for_a_group_is_a_named_table_open_to_the_group() {
    for (folder_mode, file_mode) in [(0o755, 0o600), (0o770, 0o600), (0o2770, 0o660)] {
        let table = Table::new();
        fs::set_permissions(table.folder(), Permissions::from_mode(folder_mode)).unwrap();
        drop(table.join(1, 2));
        assert_eq!(
            fs::metadata(table.path()).unwrap().mode() & 0o7777,
            file_mode,
            "in a folder of mode {folder_mode:o}"
        );
    }
    if !is_root() {
        eprintln!("skipped in part: only root can give a folder to another user");
        return;
    }
    let table = Table::new();
    chown(table.folder(), Some(OWNER), Some(OWNER)).unwrap();
    fs::set_permissions(table.folder(), Permissions::from_mode(0o2777)).unwrap();
    drop(table.join(1, 2));
    assert_eq!(fs::metadata(table.path()).unwrap().mode() & 0o7777, 0o600, "the folder is another user's");
}

#[test]
fn the_own_table_lies_in_a_folder_of_the_users_alone() {
    if !is_root() {
        eprintln!("skipped: only root can run a program as a user without a table");
        return;
    }
    let table = Table::new();
    let program = copy(table.folder());
    // Use a user that no other test uses, in a separate process.
    let user = 1_000_000 + std::process::id();
    let folder = PathBuf::from(format!("/dev/shm/comity-{user}"));
    let as_the_user = || {
        run(&program, "join the own table", Path::new(""), |command| {
            command.uid(user).gid(user);
        })
    };
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let first = as_the_user();
    let modes = [&folder, &folder.join("layout-2")]
        .map(|path| fs::metadata(path).map(|found| (found.mode() & 0o777, found.uid())));
    let _ = fs::remove_dir_all(&folder);
    assert!(said(&first).contains("joined"), "{first:?}");
    assert_eq!(modes.map(Result::unwrap), [(0o700, user), (0o600, user)]);

    // Another user has already created the folder.
    DirBuilder::new().mode(0o777).create(&folder).unwrap();
    let refused = as_the_user();
    chown(&folder, Some(user), Some(user)).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let open = as_the_user();
    fs::remove_dir(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    chown(&folder, Some(user), Some(user)).unwrap();
    let file = as_the_user();
    fs::remove_file(&folder).unwrap();
    assert!(said(&refused).contains("is in a folder of another user (0)"), "{refused:?}");
    assert!(said(&open).contains("open to other users. Set the mode of the folder to 0700"), "{open:?}");
    assert!(said(&file).contains("a file or a link has the folder's name"), "{file:?}");
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    play(|role| match role {
        "join where the environment says" => {
            if !environment::has_more_rights_than_its_caller() {
                println!("no more rights");
                return;
            }
            match Location::from_environment() {
                Some(Location::Own) => println!("its own table"),
                other => drop(Member::join(&other.unwrap(), &profile(1, 0..2)).unwrap()),
            }
        }
        "change the folder" => {
            let member = harness::roles::join();
            let slot = member.slot();
            std::env::set_current_dir("elsewhere").unwrap();
            member.follow().unwrap();
            member.round(2, 1);
            assert!(member.has_its_place() && member.slot() == slot);
            println!("stays");
        }
        "hold all places" => {
            let Some(Location::At(path)) = Location::from_environment() else { panic!("a role has a table") };
            let file = fs::File::open(path).unwrap();
            rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockShared).unwrap();
            println!("held");
            std::thread::sleep(harness::LIMIT);
        }
        "clean the own table" => match clean(&Location::Own) {
            Ok(cleaned) => println!("{cleaned:?}"),
            Err(error) => println!("{error}"),
        },
        "join the own table" => match Member::join(&Location::Own, &profile(1, 0..2)) {
            Ok(_) => println!("joined"),
            Err(error) => println!("{error}"),
        },
        other => panic!("no role is called '{other}'"),
    });
}
