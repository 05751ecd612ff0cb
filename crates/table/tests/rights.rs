//! Which files a program makes and uses, and for which user.

mod harness;

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use comity_os::environment;
use comity_table::{Location, Member};
use harness::roles::{command, play};
use harness::{Table, profile};

/// Users and groups that need not have a name.
const OWNER: u32 = 65_534;
const CALLER: u32 = 54_321;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Plays a role as `program` and returns what it printed.
fn run(program: &Path, role: &str, table: &Path, settings: impl FnOnce(&mut Command)) -> Output {
    let usual = command("child", role, 1, table);
    let mut command = Command::new(program);
    command.args(usual.get_args()).envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    settings(&mut command);
    let mut child = command.spawn().unwrap();
    // Its end would end the role.
    let _stdin = child.stdin.take();
    child.wait_with_output().unwrap()
}

/// A copy of this program that every user may run.
fn copy(folder: &Path) -> PathBuf {
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("program");
    // Written by another process: a child that another test forks meanwhile would have the file open, and it could not
    // be executed.
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
    // A user that no other test has, in a process of its own.
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

    // Another user was there before.
    DirBuilder::new().mode(0o777).create(&folder).unwrap();
    let refused = as_the_user();
    chown(&folder, Some(user), Some(user)).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let open = as_the_user();
    fs::remove_dir(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    let file = as_the_user();
    fs::remove_file(&folder).unwrap();
    assert!(said(&refused).contains("lies in a folder of another user (0)"), "{refused:?}");
    assert!(said(&open).contains("open to others; make its mode 0700"), "{open:?}");
    assert!(said(&file).contains("a file or a link has its name"), "{file:?}");
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
        "join the own table" => match Member::join(&Location::Own, &profile(1, 0..2)) {
            Ok(_) => println!("joined"),
            Err(error) => println!("{error}"),
        },
        other => panic!("no role is called '{other}'"),
    });
}
