//! Tests of `comity rayon` on real projects: the packages that cargo links afterwards, and that no file of the
//! project is ever lost.
//!
//! Nothing is compiled. Cargo only resolves, which takes a fraction of a second.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

use crate::{comity, json};

const STOCK: &str = "the stock rayon-core 1.12.1";

/// A folder with a cargo project.
struct Project {
    folder: TempDir,
    /// The folder for the undo files of `enable`.
    states: TempDir,
}

impl Project {
    fn empty() -> Project {
        Project { folder: tempfile::tempdir().unwrap(), states: tempfile::tempdir().unwrap() }
    }

    /// Returns a package with this line among its dependencies, and without a lock file.
    fn package(dependency: &str) -> Project {
        let project = Project::empty();
        project.write("Cargo.toml", &manifest("app", dependency));
        project.write("src/lib.rs", "");
        project
    }

    /// Returns a package that has rayon 1.10.0 and rayon-core 1.12.1 in its lock file.
    fn locked() -> Project {
        static LOCK: LazyLock<String> = LazyLock::new(|| {
            let first = Project::package("rayon = \"1\"");
            first.lock_old_rayon();
            first.read("Cargo.lock")
        });
        let project = Project::package("rayon = \"1\"");
        project.write("Cargo.lock", &LOCK);
        project
    }

    fn lock_old_rayon(&self) {
        self.cargo(&["update", "--package", "rayon", "--precise", "1.10.0"]);
        self.cargo(&["update", "--package", "rayon-core", "--precise", "1.12.1"]);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn append(&self, name: &str, text: &str) {
        self.write(name, &(self.read(name) + text));
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn cargo(&self, words: &[&str]) {
        let output = Command::new(env!("CARGO")).args(words).current_dir(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns every file with its content and the time of its last change.
    fn files(&self) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let changed = fs::metadata(&path).unwrap().modified().unwrap();
                    found.insert(path.clone(), (fs::read(path).unwrap(), changed));
                }
            }
        }
        found
    }

    /// Returns the command `comity rayon` with these words, which runs in the project's folder.
    fn comity(&self, words: &[&str]) -> assert_cmd::Command {
        let mut command = comity();
        command.arg("rayon").args(words).current_dir(self.folder.path()).env("XDG_STATE_HOME", self.states.path());
        command
    }

    /// Starts `comity rayon` with these words. The test can wait for the child or kill it. `cargo` is the value of
    /// `CARGO`.
    fn start(&self, words: &[&str], cargo: Option<&Path>) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_comity"));
        command.arg("rayon").args(words).current_dir(self.folder.path()).env("XDG_STATE_HOME", self.states.path());
        if let Some(cargo) = cargo {
            command.env("CARGO", cargo);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Deletes the undo file of `enable`.
    fn forget(&self) {
        fs::remove_dir_all(self.states.path().join("comity")).unwrap();
    }

    fn both(&self) -> (String, String) {
        (self.read("Cargo.toml"), self.read("Cargo.lock"))
    }

    /// Runs a task that succeeds, and returns its output.
    #[track_caller]
    fn says(&self, words: &[&str]) -> String {
        let output = self.comity(words).assert().success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Enables Comity with these words, passes the output to `between`, and disables Comity. Cargo.toml and
    /// Cargo.lock must then be as before. Does this twice: with the undo file of `enable`, and after its removal.
    #[track_caller]
    fn there_and_back(&self, words: &[&str], between: impl Fn(&str)) {
        for forgets in [false, true] {
            let before = self.both();
            between(&self.says(&[&["enable"], words].concat()));
            if forgets {
                self.forget();
            }
            self.says(&["disable"]);
            assert_eq!(self.both(), before, "forgets: {forgets}");
        }
    }

    /// Runs a task that fails, and returns its error sentence. Every file must be as before.
    #[track_caller]
    fn fails(&self, code: i32, words: &[&str]) -> String {
        self.fails_with(code, &mut self.comity(words))
    }

    #[track_caller]
    fn fails_with(&self, code: i32, command: &mut assert_cmd::Command) -> String {
        let before = self.files();
        let output = command.assert().code(code).get_output().clone();
        assert!(self.files() == before, "a file has changed");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.starts_with("error: "), "{errors}");
        errors
    }

    #[track_caller]
    fn status(&self) -> Value {
        let report = json(&mut self.comity(&["status", "--json"]));
        assert_eq!(report["schema"], "comity-rayon/1");
        report
    }

    /// Returns a program for CARGO, which runs `script` and then cargo itself.
    fn cargo_that(&self, script: &str) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let [text, path] = ["script", "cargo"].map(|name| folder.path().join(name));
        fs::write(&text, format!("#!/bin/sh\n{script}\nexec '{}' \"$@\"\n", env!("CARGO"))).unwrap();
        // Another process writes the file. If this process wrote it, a child that another test forks meanwhile could
        // have it open for writing, and execve(2) would fail.
        assert!(Command::new("install").args(["-m", "755"]).args([&text, &path]).status().unwrap().success());
        (folder, path)
    }
}

fn manifest(name: &str, dependency: &str) -> String {
    format!(
        "# Dear to its author.\n[package]\nname = \"{name}\" # mine\nversion = \"0.1.0\"\nedition = \"2021\"\n\n\
         [dependencies]\n{dependency}\n\n# The end.\n"
    )
}

/// Returns a package that looks like Comity's rayon-core without dependencies. It contains a package that looks like
/// the recording variant.
fn core(version: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[package]\nname = \"rayon-core\"\nversion = \"{version}\"\nedition = \"2021\"\nlinks = \"rayon-core\"\n\
         build = \"src/build.rs\"\n[package.metadata.comity]\n[features]\nweb_spin_lock = []\n[workspace]\n"
    );
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("Cargo.toml"), &text).unwrap();
    fs::write(folder.path().join("src/lib.rs"), "").unwrap();
    fs::write(folder.path().join("src/build.rs"), "fn main() {}").unwrap();
    let recording = text
        .replace("\"src/build.rs\"", "\"../src/build.rs\"\npublish = false")
        .replace("metadata.comity]\n", "metadata.comity]\nrecords = true\n")
        .replace("[workspace]", "[lib]\npath = \"../src/lib.rs\"\n[workspace]");
    fs::create_dir(folder.path().join("recording")).unwrap();
    fs::write(folder.path().join("recording/Cargo.toml"), recording).unwrap();
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn an_older_locked_rayon_core_gives_way_and_comes_back() {
    let project = Project::locked();
    let before = project.read("Cargo.toml");
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rayon-core").canonicalize().unwrap();
    assert!(project.says(&["status"]).contains(STOCK));
    project.there_and_back(&[], |said| {
        for part in
            ["(rayon 1.10.0) runs on Comity now", text(&core), "comity rayon disable", "COMITY_POLICY", "COMITY=off"]
        {
            assert!(said.contains(part), "{part} is not in\n{said}");
        }
        // The output also explains how other machines can build the project.
        assert!(said.contains("of this machine") && said.contains("enable --git URL"), "{said}");
        let status = project.status();
        assert_eq!((&status["links"], &status["enabled"]), (&"comity".into(), &true.into()));
        assert_eq!(status["rayon"], serde_json::json!(["1.10.0"]));
        assert_eq!(status["rayon_core"][0]["from"], text(&core));
        assert_eq!(status["rayon_core"].as_array().unwrap().len(), 1);
        let enabled = project.read("Cargo.toml");
        assert!(enabled.starts_with(&before), "{enabled}");
        assert!(project.says(&["enable"]).contains("runs on Comity already"));
        assert_eq!(project.read("Cargo.toml"), enabled);
    });
    project.says(&["enable"]);
    assert!(project.says(&["disable"]).contains(&format!("does not use Comity any more: rayon 1.10.0 links {STOCK}.")));
}

#[test]
fn what_only_the_stock_crate_needs_comes_back_at_its_old_version() {
    let project = Project::locked();
    // A newer version of the first package needs newer versions of the two other packages.
    for (name, version) in [("crossbeam-deque", "0.8.5"), ("crossbeam-epoch", "0.9.17"), ("crossbeam-utils", "0.8.19")]
    {
        project.cargo(&["update", "--package", name, "--precise", version]);
    }
    project.there_and_back(&["--source", text(core("1.13.0").path())], |_| {
        assert!(!project.read("Cargo.lock").contains("crossbeam"));
    });
}

/// Returns the version of a package in a lock file.
fn version(lock: &str, name: &str) -> String {
    let after = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).unwrap().1;
    after.split('"').next().unwrap().to_owned()
}

#[test]
fn what_is_too_old_for_comity_moves_to_the_lowest_version_that_serves() {
    let floors = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../rayon-core/Cargo.lock")).unwrap();
    let project = Project::package("rayon = \"1\"\nlibc = \"0.2\"\nonce_cell = \"1\"");
    project.lock_old_rayon();
    project.cargo(&["update", "--package", "libc", "--precise", "0.2.100"]);
    project.cargo(&["update", "--package", "once_cell", "--precise", "1.17.0"]);
    project.there_and_back(&[], |said| {
        let floor = version(&floors, "libc");
        assert!(said.contains("runs on Comity now") && said.contains(&format!("libc 0.2.100 -> {floor}")), "{said}");
        let lock = project.read("Cargo.lock");
        assert_eq!((version(&lock, "libc"), version(&lock, "once_cell")), (floor, "1.17.0".to_owned()));
    });
}

/// Tests a small version of `halo2_proofs`, in which only the stock rayon-core needs some packages. Cargo alone would
/// update these packages to their newest versions together with rayon-core.
#[test]
fn what_only_the_stock_crate_needed_moves_no_further_either() {
    let floors = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../rayon-core/Cargo.lock")).unwrap();
    let project = Project::package("rayon = \"=1.7.0\"");
    let old = [
        ("rayon-core", "1.11.0"),
        ("crossbeam-channel", "0.5.8"),
        ("crossbeam-deque", "0.8.3"),
        ("crossbeam-epoch", "0.9.14"),
        ("crossbeam-utils", "0.8.15"),
    ];
    for (name, version) in old.into_iter().chain([("libc", "0.2.140")]) {
        project.cargo(&["update", "--package", name, "--precise", version]);
    }
    project.there_and_back(&[], |_| {
        for name in ["crossbeam-deque", "crossbeam-epoch", "crossbeam-utils", "libc"] {
            assert_eq!(version(&project.read("Cargo.lock"), name), version(&floors, name), "{name}");
        }
    });
}

/// Tests a small version of `fclones`: xattr 1.0.1 builds with libc up to 0.2.186.
#[test]
fn a_package_that_builds_with_no_new_libc_still_builds() {
    let project = Project::package("rayon = \"1.8\"\nxattr = \"=1.0.1\"");
    project.lock_old_rayon();
    project.cargo(&["update", "--package", "libc", "--precise", "0.2.155"]);
    project.there_and_back(&[], |_| {
        let patch: u32 = version(&project.read("Cargo.lock"), "libc").strip_prefix("0.2.").unwrap().parse().unwrap();
        assert!(patch <= 171, "0.2.{patch}");
    });
}

#[test]
fn the_one_that_records_comes_and_goes() {
    let project = Project::locked();
    let records = || project.status()["rayon_core"][0]["records"].as_bool().unwrap();
    project.there_and_back(&["--record"], |said| {
        assert!(said.contains("is built to be recorded now") && said.contains("comity-lab record --out"), "{said}");
        assert!(records() && project.status()["links"] == "comity");
        assert!(project.says(&["status"]).contains("recording rayon-core"));
        assert!(project.read("Cargo.toml").contains("rayon-core/recording\""));
        assert!(project.says(&["enable", "--record"]).contains("is built to be recorded already"));
        assert!(project.says(&["enable"]).contains("runs on Comity now") && !records());
        assert!(!project.read("Cargo.lock").contains("comity-recording"));
        assert!(project.says(&["enable", "--record"]).contains("recorded now") && records());
    });
}

#[test]
fn what_links_comity_through_something_else_must_be_the_wanted_one_itself() {
    let core = core("1.13.0");
    let project = Project::package("rayon = \"1\"");
    project
        .write(".cargo/config.toml", &format!("[patch.crates-io]\nrayon-core.path = \"{}\"\n", core.path().display()));
    let why = project.fails(1, &["enable", "--record"]);
    assert!(why.contains("does not record") && why.contains("The cause is not its own"), "{why}");
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rayon-core/recording");
    project.write(".cargo/config.toml", &format!("[patch.crates-io]\nrayon-core.path = \"{}\"\n", recording.display()));
    let why = project.fails(1, &["enable"]);
    assert!(why.contains(", which records.") && why.contains("The cause is not its own"), "{why}");
}

#[test]
fn a_lock_file_of_version_3_stays_one() {
    let project = Project::locked();
    let three = project.read("Cargo.lock").replace("version = 4", "version = 3");
    project.write("Cargo.lock", &three);
    let before = project.both();
    project.says(&["enable"]);
    project.says(&["disable"]);
    assert_eq!(project.both(), before);
}

#[test]
fn the_users_own_metadata_and_the_owner_of_the_files_stay() {
    let project = Project::locked();
    project.append("Cargo.toml", "[package.metadata.comity]\nmine = true\n");
    let other = |name| std::os::unix::fs::chown(project.path(name), Some(12_345), Some(12_345)).is_ok();
    let given = other("Cargo.toml") && other("Cargo.lock");
    if !given {
        println!("skipped: only root may give files away");
    }
    project.there_and_back(&[], |_| {
        assert!(project.read("Cargo.toml").contains("[package.metadata.comity]\nmine = true\n"));
    });
    for name in ["Cargo.toml", "Cargo.lock"] {
        assert_eq!(fs::metadata(project.path(name)).unwrap().uid() == 12_345, given, "{name}");
    }
}

#[test]
fn calls_take_turns() {
    let project = Project::locked();
    let before = project.both();
    for _ in 0..2 {
        let calls =
            ["enable", "disable", "enable", "disable", "enable", "disable"].map(|task| project.start(&[task], None));
        for call in calls {
            let output = call.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let status = project.status();
        assert_eq!((&status["links"] == "comity", &status["links"] == "stock"), {
            let enabled = status["enabled"] == true;
            (enabled, !enabled)
        });
    }
    project.says(&["disable"]);
    assert_eq!(project.both(), before);
}

/// Runs a task with a cargo whose n-th call kills the command. Returns true if the command was killed.
fn killed(project: &Project, task: &str, nth: u32) -> bool {
    let (folder, cargo) = project.cargo_that(&format!(
        "n=$(cat \"$0\"-n 2>&-); n=$((${{n:-0}} + 1)); echo $n >\"$0\"-n; [ $n != {nth} ] || kill -KILL $PPID"
    ));
    let output = project.start(&[task], Some(&cargo)).wait_with_output().unwrap();
    drop(folder);
    !output.status.success()
}

#[test]
fn a_call_that_is_killed_at_any_moment_is_taken_back_by_the_next() {
    for (task, is_locked) in [("enable", true), ("enable", false), ("disable", true)] {
        let mut kills = 0;
        for nth in 1..10 {
            let project = if is_locked { Project::locked() } else { Project::package("rayon = \"1\"") };
            let both = || (project.read("Cargo.toml"), fs::read_to_string(project.path("Cargo.lock")).ok());
            let before = both();
            if task == "disable" {
                project.says(&["enable"]);
                // Without the record, `disable` calls cargo.
                project.forget();
            }
            if !killed(&project, task, nth) {
                break;
            }
            kills += 1;
            project.says(&["enable"]);
            assert_eq!(project.status()["links"], "comity");
            project.says(&["disable"]);
            assert_eq!(both(), before, "{task} was killed at cargo's call {nth}");
            let files = 2 + usize::from(is_locked);
            assert_eq!(fs::read_dir(project.folder.path()).unwrap().count(), files, "nothing is left behind");
        }
        assert!(kills >= 3, "{task}: {kills}");
    }
}

#[test]
fn what_was_edited_after_a_kill_stays() {
    let project = Project::locked();
    interrupted(&project, "-KILL");
    project.append("Cargo.toml", "\n[profile.dev]\ndebug = 1\n");
    let output = project.start(&["disable"], None).wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && errors.contains("files were edited since"), "{errors}");
    let manifest = project.read("Cargo.toml");
    assert!(manifest.ends_with("[profile.dev]\ndebug = 1\n") && !manifest.contains("rayon-core"), "{manifest}");
}

#[test]
fn what_keeps_comity_out_is_said_in_a_sentence() {
    let folder = core("1.13.0");
    let text_of_core = fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
    fs::write(folder.path().join("Cargo.toml"), text_of_core.replace("[package.metadata.comity]\n", "")).unwrap();
    let path = Project::package(&format!("rayon-core = {{ path = \"{}\" }}", folder.path().display()));
    assert!(path.fails(1, &["enable"]).contains("through a path dependency, which no patch of crates.io replaces"));

    let exact = Project::package("rayon = \"1.10\"\nrayon-core = \"=1.12.1\"");
    let why = exact.fails(1, &["enable"]);
    assert!(why.contains("Comity's rayon-core is 1.13.0") && why.contains("cargo tree -i rayon-core"), "{why}");

    let vendored = Project::locked();
    vendored.cargo(&["vendor", "--quiet"]);
    vendored.write(
        ".cargo/config.toml",
        "[source.crates-io]\nreplace-with = \"vendored\"\n[source.vendored]\ndirectory = \"vendor\"\n",
    );
    let why = vendored.fails(1, &["enable"]);
    assert!(why.contains(".cargo/config.toml' replaces crates.io by another source"), "{why}");

    let pinned = Project::locked();
    let (_folder, cargo) =
        pinned.cargo_that("[ \"$3\" != --version ] || { echo 'cargo 1.70.0 (abc 2023-06-01)'; exit; }");
    let why = pinned.fails_with(1, pinned.comity(&["enable"]).env("CARGO", &cargo));
    assert!(why.contains("cargo 1.70.0") && why.contains("Comity needs Rust 1."), "{why}");
}

#[test]
fn what_the_project_has_outgrown_does_not_come_back_and_is_named() {
    let project = Project::locked();
    let manifest = project.read("Cargo.toml");
    project.says(&["enable"]);
    project.cargo(&["update", "--package", "rayon", "--precise", "1.11.0"]);
    let said = project.says(&["disable"]);
    assert!(said.contains("rayon-core 1.13.0") && said.contains("did not restore rayon-core 1.12.1"), "{said}");
    assert_eq!(project.read("Cargo.toml"), manifest);
}

#[test]
fn the_root_of_a_workspace_is_edited_whichever_member_is_named() {
    let member = manifest("member", "rayon = \"1\"");
    for root in
        ["[workspace]\nmembers = [\"member\"]\n", "[package]\nname = \"root\"\n[workspace]\nmembers = [\"member\"]\n"]
    {
        let project = Project::empty();
        for (name, text) in
            [("Cargo.toml", root), ("src/lib.rs", ""), ("member/Cargo.toml", &member), ("member/src/lib.rs", "")]
        {
            project.write(name, text);
        }
        project.lock_old_rayon();
        project.there_and_back(&["member"], |_| {
            assert!(project.read("Cargo.toml").contains("[patch.crates-io.rayon-core]"));
            assert_eq!(project.read("member/Cargo.toml"), member);
            assert_eq!(project.status()["links"], "comity");
        });
        let before = project.both();
        project.says(&["enable"]);
        project.says(&["disable", "member/Cargo.toml"]);
        assert_eq!(project.both(), before);
    }
}

/// Tests two properties that an entry in `.cargo/config.toml` would not have.
#[test]
fn a_call_of_cargo_from_elsewhere_is_served_and_a_workspace_below_is_left_alone() {
    let project = Project::locked();
    project.write("fuzz/Cargo.toml", &format!("{}[workspace]\n", manifest("fuzz", "rayon = \"1\"")));
    project.write("fuzz/src/lib.rs", "");
    project.write("fuzz/Cargo.lock", &project.read("Cargo.lock").replace("\"app\"", "\"fuzz\""));
    let core = core("1.13.0");
    project.says(&["enable", "--source", text(core.path())]);
    for (name, version) in [("Cargo.toml", "1.13.0"), ("fuzz/Cargo.toml", "1.12.1")] {
        let words =
            ["tree", "--locked", "--depth", "0", "--prefix", "none", "--invert", "rayon-core", "--manifest-path"];
        let output = Command::new(env!("CARGO")).args(words).arg(project.path(name)).current_dir("/").output().unwrap();
        let tree = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && tree.starts_with(&format!("rayon-core v{version}")), "{tree}");
    }
}

#[test]
fn other_patches_stay_however_they_are_written() {
    for patches in [
        "[patch.crates-io]\nextra = { path = \"extra\" } # dear\n",
        "[patch]\ncrates-io.extra.path = \"extra\"\n",
        "[patch]\ncrates-io = { extra = { path = \"extra\" } }\n",
    ] {
        let project = Project::package("rayon = \"1\"");
        project.write("extra/Cargo.toml", "[package]\nname = \"extra\"\n");
        project.write("extra/src/lib.rs", "");
        project.append("Cargo.toml", patches);
        project.append("Cargo.toml", "[workspace]\nexclude = [\"extra\"]\n");
        project.lock_old_rayon();
        project.there_and_back(&[], |_| {
            assert_eq!(project.status()["links"], "comity", "{patches}");
            assert!(project.read("Cargo.toml").contains("path = \"extra\""), "{patches}");
        });
    }
}

#[test]
fn another_patch_of_rayon_core_is_refused_and_named() {
    let fork = core("1.13.0");
    let unmarked =
        fs::read_to_string(fork.path().join("Cargo.toml")).unwrap().replace("[package.metadata.comity]\n", "");
    fs::write(fork.path().join("Cargo.toml"), unmarked).unwrap();
    let project = Project::package("rayon = \"1\"");
    let entry = format!("rayon-core = {{ path = \"{}\" }}", fork.path().display());
    project.append("Cargo.toml", &format!("[patch.crates-io]\n{entry}\n"));
    for task in ["enable", "disable"] {
        let why = project.fails(1, &[task]);
        assert!(why.contains(&entry) && why.contains("Cargo.toml'"), "{why}");
    }
    assert_eq!(project.status()["links"], "other");
    assert!(project.fails(2, &["enable", "--source", text(fork.path())]).contains("not Comity's"));
}

#[test]
fn an_entry_of_ours_moves_to_another_folder() {
    let (first, second) = (core("1.12.9"), core("1.13.0"));
    let project = Project::locked();
    let before = project.both();
    let said = project.says(&["enable", "--source", text(first.path())]);
    assert!(said.contains("Without this folder, the project does not build"), "{said}");
    let enabled = project.read("Cargo.toml");
    project.says(&["enable", "--source", text(second.path())]);
    let moved = project.read("Cargo.toml");
    let path = |core: &TempDir| core.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    assert_eq!(moved, enabled.replace(&path(&first), &path(&second)));
    // Cargo cannot read the project while its source is missing. `enable` and `disable` must still work.
    let gone = path(&second);
    drop(second);
    let why = project.fails(1, &["status"]);
    assert!(why.contains(&format!("folder '{gone}', which no longer exists. `comity rayon disable`")), "{why}");
    project.says(&["enable"]);
    assert_eq!(project.status()["links"], "comity");
    project.says(&["enable", "--source", text(first.path())]);
    drop(first);
    project.says(&["disable"]);
    assert_eq!(project.both(), before);
}

#[test]
fn an_entry_by_hand_that_the_lock_file_ignores_is_seen_and_mended() {
    let project = Project::locked();
    let lock = project.read("Cargo.lock");
    let core = core("1.13.0");
    project.append("Cargo.toml", &format!("[patch.crates-io]\nrayon-core.path = \"{}\"\n", core.path().display()));
    let before = project.files();
    let said = project.says(&["status"]);
    assert!(said.contains(STOCK) && said.contains("Repair it: `comity rayon enable`"), "{said}");
    assert!(project.files() == before);
    project.says(&["enable", "--source", text(core.path())]);
    assert_eq!(project.status()["links"], "comity");
    project.says(&["disable"]);
    assert_eq!(project.read("Cargo.lock"), lock);
    assert!(!project.read("Cargo.toml").contains("comity"));
}

#[test]
fn older_rayons_are_served_down_to_the_one_that_had_no_core() {
    for version in ["0.9", "=1.5.3"] {
        let project = Project::package(&format!("rayon = \"{version}\""));
        project.cargo(&["generate-lockfile"]);
        project.there_and_back(&[], |_| assert_eq!(project.status()["links"], "comity", "{version}"));
    }
    let project = Project::package("rayon = \"0.6\"");
    assert!(project.fails(1, &["enable"]).contains("uses rayon 0.6.0, which has no rayon-core"));
    assert_eq!(project.status()["links"], "none");
}

#[test]
fn a_project_without_rayon_is_left_alone() {
    let project = Project::package("");
    assert!(project.fails(1, &["enable"]).contains("does not use rayon"));
    assert!(project.says(&["status"]).contains("does not use rayon"));
    assert!(project.says(&["disable"]).contains("Comity is not enabled in"));
}

#[test]
fn a_rayon_behind_a_feature_counts() {
    let project = Project::package("rayon = { version = \"1\", optional = true }");
    project.says(&["enable"]);
    assert_eq!(project.status()["links"], "comity");
}

#[test]
fn disabling_what_is_not_enabled_changes_nothing() {
    let project = Project::locked();
    let before = project.files();
    assert!(project.says(&["disable"]).contains("Comity is not enabled in"));
    assert!(project.files() == before);
}

#[test]
fn without_a_lock_file_none_is_left_behind() {
    let project = Project::package("rayon = \"1\"");
    let manifest = project.read("Cargo.toml");
    project.says(&["enable"]);
    assert!(!project.path("Cargo.lock").exists());
    assert_eq!(project.status()["links"], "comity");
    project.says(&["disable"]);
    assert!(!project.path("Cargo.lock").exists());
    assert_eq!(project.read("Cargo.toml"), manifest);
    // A build may write a lock file after `enable`. `disable` keeps this file and removes Comity from it.
    project.says(&["enable"]);
    project.cargo(&["generate-lockfile"]);
    assert!(project.read("Cargo.lock").contains("\"comity\""));
    project.says(&["disable"]);
    assert!(!project.read("Cargo.lock").contains("comity"));
}

#[test]
fn status_changes_no_file() {
    let locked = Project::locked();
    let stale = Project::locked();
    stale.append("Cargo.toml", "[build-dependencies]\ntempfile = \"3\"\n");
    let unlocked = Project::package("rayon = \"1\"");
    for (project, links) in [(locked, "stock"), (stale, "stock"), (unlocked, "stock")] {
        let before = project.files();
        assert_eq!(project.status()["links"], links);
        project.says(&["status"]);
        assert!(project.files() == before);
    }
}

#[test]
fn a_patch_in_cargos_configuration_is_seen_and_not_touched() {
    let core = core("1.13.0");
    let project = Project::package("rayon = \"1\"");
    project
        .write(".cargo/config.toml", &format!("[patch.crates-io]\nrayon-core.path = \"{}\"\n", core.path().display()));
    let before = project.files();
    let status = project.status();
    assert_eq!((&status["links"], &status["enabled"]), (&"comity".into(), &false.into()));
    let said = project.says(&["enable"]);
    assert!(said.contains("already") && said.contains("The cause is not its own"), "{said}");
    assert!(project.fails(1, &["disable"]).contains(".cargo/config.toml"));
    assert!(project.files() == before);
    // `disable` fails if the project has a second patch, because Comity would stay linked.
    project.append("Cargo.toml", &format!("[patch.crates-io]\nrayon-core.path = \"{}\"\n", core.path().display()));
    assert!(project.fails(1, &["disable"]).contains("another [patch]"));
}

#[test]
fn several_are_told_apart() {
    let project = Project::package("rayon = \"1\"\nfork = { package = \"rayon-core\", path = \"fork\" }");
    project.write("fork/Cargo.toml", "[package]\nname = \"rayon-core\"\nversion = \"2.0.0\"\n[workspace]\n");
    project.write("fork/src/lib.rs", "");
    let status = project.status();
    assert_eq!(status["links"], "several");
    let mut kinds: Vec<&str> =
        status["rayon_core"].as_array().unwrap().iter().map(|core| core["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["other", "stock"]);
    assert!(project.fails(1, &["enable"]).contains("through a path dependency"));
}

/// Makes a folder a repository with one commit. Returns its address and the commit.
fn repository(folder: &Path) -> (String, String) {
    let git = |words: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"];
        let output = Command::new("git").args(identity).args(words).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "core"]);
    (format!("file://{}", folder.display()), git(&["rev-parse", "HEAD"]))
}

#[test]
fn a_repository_serves_as_the_source() {
    let core = core("1.13.0");
    let (url, rev) = repository(core.path());
    let project = Project::locked();
    let before = project.both();
    project.says(&["enable", "--git", &url, "--rev", &rev]);
    let enabled = project.read("Cargo.toml");
    assert!(enabled.contains(&format!("rayon-core]\ngit = \"{url}\"\nrev = \"{rev}\"\n")), "{enabled}");
    assert_eq!(project.status()["links"], "comity");
    // If a repository has two packages with the same name, cargo takes the one in the folder of lower depth.
    assert_eq!(project.status()["rayon_core"][0]["records"], false);
    // Another `enable` keeps the repository and does not select the built-in folder.
    let said = project.says(&["enable"]);
    assert!(
        said.contains(&format!("names the repository '{url}'")) && said.contains("`comity rayon disable`"),
        "{said}"
    );
    assert_eq!(project.read("Cargo.toml"), enabled);
    project.says(&["disable"]);
    assert_eq!(project.both(), before);
    let nowhere = format!("file://{}", project.path("nowhere").display());
    let mut command = project.comity(&["enable", "--git", &nowhere]);
    assert!(project.fails_with(1, command.env("CARGO_NET_RETRY", "0")).contains("nowhere"));
}

#[test]
fn every_source_takes_the_place_of_every_other() {
    let [folder, first, second] = ["1.13.1", "1.13.2", "1.13.3"].map(core);
    let [first, second] = [&first, &second].map(|core| repository(core.path()));
    let sources = [
        &[][..],
        &["--source", text(folder.path())],
        &["--git", &first.0, "--rev", &first.1],
        &["--git", &second.0],
        &["--record"],
    ];
    let project = Project::locked();
    let before = project.both();
    let enable = |source: &[&str]| {
        project.says(&[&["enable"], source].concat());
        let status = project.status();
        assert_eq!((&status["links"], &status["enabled"]), (&"comity".into(), &true.into()), "{source:?}");
        let from = status["rayon_core"][0]["from"].as_str().unwrap();
        // A repository stays in use until another source is named.
        let is_named = source.get(1).is_none_or(|place| from.contains(place.trim_start_matches("file://")));
        assert!(is_named, "{source:?}: {from}");
        assert_eq!(status["rayon_core"][0]["records"], source == ["--record"], "{source:?}");
    };
    for (nth, source) in sources.iter().enumerate() {
        enable(source);
        for other in &sources[nth + 1..] {
            enable(other);
            enable(source);
        }
    }
    project.says(&["disable"]);
    assert_eq!(project.both(), before);
}

#[test]
fn a_failing_step_puts_both_files_back_and_passes_on_what_cargo_said() {
    let project = Project::locked();
    let (_folder, cargo) =
        project.cargo_that("[ \"$3\" != update ] || { echo mess > Cargo.lock; echo 'error: it rains' >&2; exit 101; }");
    let why = project.fails_with(1, project.comity(&["enable"]).env("CARGO", &cargo));
    for part in ["`cargo update --package rayon-core` failed", "    error: it rains", "are unchanged"] {
        assert!(why.contains(part), "{part} is not in\n{why}");
    }
    project.says(&["enable"]);
    // Without the record, `disable` calls cargo.
    project.forget();
    project.fails_with(1, project.comity(&["disable"]).env("CARGO", &cargo));
    // Comity's rayon-core has a version that is too old for this rayon, so cargo keeps the stock one. Only the
    // resolved tree shows this.
    project.says(&["disable"]);
    let old = core("1.11.0");
    let why = project.fails(1, &["enable", "--source", text(old.path())]);
    assert!(why.contains("in spite of the patch") && why.contains("the stock rayon-core 1."), "{why}");
}

#[test]
fn what_another_program_edits_while_a_call_fails_stays() {
    let project = Project::locked();
    let lock = project.read("Cargo.lock");
    let (_folder, cargo) =
        project.cargo_that("[ \"$3\" != update ] || { echo '# theirs' >>Cargo.toml; echo mess >Cargo.lock; exit 1; }");
    let output = project.start(&["enable"], Some(&cargo)).wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("Another program has changed") && errors.contains("Cargo.lock is unchanged"), "{errors}");
    assert!(project.read("Cargo.toml").ends_with("# theirs\n") && project.read("Cargo.lock") == lock);
    project.says(&["disable"]);
    assert!(!project.read("Cargo.toml").contains("comity") && project.read("Cargo.lock") == lock);
}

/// Sends a signal to `comity rayon enable` while cargo updates the lock file. Cargo then fails.
fn interrupted(project: &Project, signal: &str) -> Output {
    let (folder, cargo) = project.cargo_that("[ \"$3\" != update ] || { touch \"$0\"-waits; sleep 0.5; exit 1; }");
    let waiting = folder.path().join("cargo-waits");
    let child = project.start(&["enable"], Some(&cargo));
    let start = Instant::now();
    while !waiting.exists() {
        assert!(start.elapsed() < Duration::from_secs(600), "cargo is not asked to update");
        sleep(Duration::from_millis(10));
    }
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_signal_puts_both_files_back() {
    let project = Project::locked();
    let before = project.files();
    let output = interrupted(&project, "-TERM");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && errors.contains("interrupted by a signal"), "{errors}");
    assert!(project.files() == before);
}

#[test]
fn what_a_killed_command_has_begun_can_be_finished_or_taken_back() {
    for task in [&["disable"][..], &["enable", "disable"]] {
        let project = Project::locked();
        let before = project.both();
        interrupted(&project, "-KILL");
        assert_ne!(project.read("Cargo.toml"), before.0);
        for task in task {
            project.says(&[task]);
        }
        assert_eq!(project.both(), before);
    }
}

#[test]
fn a_project_that_cannot_be_written_stays_as_it_is() {
    let project = Project::locked();
    let folder = project.folder.path().display();
    // Not even root can write to a read-only mount.
    let script = format!(
        "mount --bind '{folder}' '{folder}' && mount -o remount,bind,ro '{folder}' || exit 77; exec \"$0\" rayon enable '{folder}'"
    );
    let run = |unshare: &[&str]| {
        let words = ["sh", "-c", &script, env!("CARGO_BIN_EXE_comity")];
        Command::new("unshare").args(unshare).args(words).output().ok().filter(|output| output.status.code() == Some(1))
    };
    let before = project.files();
    let output = run(&["--mount"]).or_else(|| run(&["--mount", "--map-root-user"]));
    let errors =
        output.map(|output| String::from_utf8(output.stderr).unwrap()).filter(|text| text.starts_with("error: "));
    let Some(errors) = errors else {
        eprintln!("SKIPPED: this machine lets no user mount a folder read-only");
        return;
    };
    assert!(errors.contains("cannot write '") && errors.contains("are unchanged"), "{errors}");
    assert!(project.files() == before);
}

#[test]
fn a_path_that_is_no_project_is_refused() {
    let project = Project::package("rayon = \"1\"");
    for task in ["enable", "status", "disable"] {
        for (path, part) in
            [("no/such", "does not exist"), ("src", "has no Cargo.toml"), ("src/lib.rs", "is not a Cargo.toml")]
        {
            assert!(project.fails(2, &[task, path]).contains(&format!("'{path}' {part}")));
        }
    }
    // Without a path the project is searched upwards, as cargo does.
    let mut inside = project.comity(&["enable"]);
    inside.current_dir(project.path("src")).assert().success();
    let empty = tempfile::tempdir().unwrap();
    let output = comity().args(["rayon", "enable"]).current_dir(empty.path()).assert().code(2).get_output().clone();
    assert!(String::from_utf8(output.stderr).unwrap().contains("nor a folder above it has a Cargo.toml"));
}

#[test]
fn a_broken_manifest_or_a_missing_cargo_is_said() {
    let project = Project::package("rayon = \"1\"");
    let mut command = project.comity(&["enable"]);
    command.env_remove("CARGO").env("PATH", project.path("src"));
    let why = project.fails_with(1, &mut command);
    assert!(why.contains("cannot start 'cargo'") && why.contains("Install Rust"), "{why}");
    project.write("Cargo.toml", "[package\n");
    for task in ["enable", "status", "disable"] {
        let why = project.fails(1, &[task]);
        assert!(why.contains("`cargo locate-project") && why.contains("    error: "), "{why}");
    }
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let project = Project::package("rayon = \"1\"");
    for (words, part) in [
        (&["enable", "--git", "u", "--source", "s"][..], "cannot be used with"),
        (&["enable", "--rev", "r"], "--git <URL>"),
        (&["enable", "--record", "--git", "u"], "cannot be used with"),
        (&["enable", "--record", "--source", "src"], "--source 'src' has no Cargo.toml"),
        (&["enable", "--source", "src"], "--source 'src' has no Cargo.toml"),
        (&["status", "--source", "s"], "unexpected argument"),
    ] {
        assert!(project.fails(2, words).contains(part), "{words:?}");
    }
}
