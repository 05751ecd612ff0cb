//! Tests of `comity top`: its output, and that it restores the terminal however it ends.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use comity_os::process;
use serde_json::Value;

use crate::table::member;
use crate::{comity, send, table_at, wait_until};

fn top(path: &Path, words: &[&str]) -> String {
    let output = comity().env("COMITY_TABLE", path).arg("top").args(words).assert().success().get_output().clone();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_table_without_programs_and_one_that_is_off_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let text = top(&folder.path().join("table"), &["--once", "--interval-ms", "50"]);
    assert!(text.starts_with("0 programs, 0 cores: ") && text.contains("  comity run make -j8\n"), "{text}");
    let text = top(Path::new("off"), &["--once", "--interval-ms", "50"]);
    assert!(text.contains("COMITY_TABLE is off"), "{text}");
}

#[test]
fn a_look_is_told_in_words_as_json_and_for_prometheus() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let look = |words: &[&str]| top(&path, &[&["--once", "--interval-ms", "50"], words].concat());
    let mut child = member(&path);
    let report: Value = serde_json::from_str(&look(&["--json"])).unwrap();
    assert_eq!(report["schema"], "comity-top/1");
    let [program] = report["programs"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((&program["pid"], &program["weight"]), (&child.id().into(), &250.into()));
    assert!(program["cpu"].as_f64().is_some_and(|cpu| cpu >= 0.0), "{report}");
    assert!(!report["cores"].as_array().unwrap().is_empty(), "{report}");
    wait_until("it says what its thieves did", || table_at(&path)["programs"][0]["steals"].is_u64());
    let report: Value = serde_json::from_str(&look(&["--json"])).unwrap();
    let program = &report["programs"][0];
    for (field, expected) in [("steals", 0.0), ("accelerations", 0.0), ("steals_per_s", 0.0), ("refused_per_s", 0.0)] {
        assert_eq!(program[field].as_f64(), Some(expected), "{field} in {report}");
    }
    assert!(program["refused"]["mask"] == 0 && program["refused_for"].is_null(), "{report}");

    let name = program["name"].as_str().unwrap();
    let text = look(&["--sort", "cpu"]);
    for word in ["1 program, ", " held, ", " used  ", "desire", "lost/s", "weight", " 250", &name[..6], "core 0"] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    assert!(!look(&["--filter", "no-such"]).contains(" 250"));
    let filtered: Value = serde_json::from_str(&look(&["--json", "--filter", "no-such"])).unwrap();
    assert_eq!(filtered["programs"].as_array().unwrap().len(), 0);
    assert!(look(&["--filter", "DWS"]).contains(" 250"), "by the policy, in any case");

    let file = folder.path().join("comity.prom");
    look(&["--prometheus", file.to_str().unwrap()]);
    let text = fs::read_to_string(&file).unwrap();
    let labels = format!("{{slot=\"0\",pid=\"{}\",program=\"{name}\"", child.id());
    assert!(text.contains("\ncomity_programs 1\n"), "{text}");
    assert!(text.contains(&format!("\ncomity_program_weight{labels}")), "{text}");
    assert!(text.contains(&format!("\ncomity_program_steals_total{labels}")), "{text}");
    let refused = text.lines().filter(|line| line.starts_with("comity_program_refused_accelerations_total{"));
    assert_eq!(refused.clone().count(), comity::Refusal::ALL.len(), "{text}");
    assert!(refused.clone().any(|line| line.ends_with(",reason=\"no_hypervisor\"} 0")), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let report: Value = serde_json::from_str(&look(&["--json"])).unwrap();
    assert_eq!(report["programs"][0]["life"], "dead");
    assert!(look(&[]).contains(" dead "));
}

/// The command `comity top` in a terminal made by script(1). The terminal then shows the exit code of `comity top`
/// and the settings of the terminal.
struct InATerminal {
    script: Child,
    folder: tempfile::TempDir,
}

impl InATerminal {
    fn start(columns: u16, rows: u16) -> Option<InATerminal> {
        let folder = tempfile::tempdir().unwrap();
        let line = format!(
            "stty cols {columns} rows {rows}; sh -c 'echo $$ >{0}/pid; exec {1} top'; echo \"code $?\"; stty -a; echo over",
            folder.path().display(),
            env!("CARGO_BIN_EXE_comity"),
        );
        let started = Command::new("script")
            .args(["-qefc", &line])
            .arg(folder.path().join("seen"))
            .env("COMITY_TABLE", folder.path().join("table"))
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        match started {
            Ok(script) => Some(InATerminal { script, folder }),
            Err(error) => {
                println!("skipped: script: {error}");
                None
            }
        }
    }

    fn seen(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.path().join("seen")).unwrap_or_default()).into_owned()
    }

    fn pid(&self) -> u32 {
        fs::read_to_string(self.folder.path().join("pid")).unwrap().trim().parse().unwrap()
    }

    fn press(&mut self, keys: &str) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Checks that the command has ended with 0, and that it restored the terminal.
    #[track_caller]
    fn assert_ends_well(self) {
        wait_until("it ends", || self.seen().contains("\nover"));
        let seen = self.seen();
        let (screen, after) = seen.rsplit_once("code ").unwrap();
        assert!(after.starts_with('0'), "{after}");
        // `comity top` must have left the alternate screen, shown the cursor, and restored lines with an echo.
        assert!(screen.contains("\x1b[?1049l") && screen.contains("\x1b[?25h"), "{screen:?}");
        let words: Vec<&str> = after.split([' ', ';', '\r', '\n']).collect();
        for setting in ["icanon", "echo", "isig", "opost"] {
            assert!(words.contains(&setting), "{setting} is off: {after}");
        }
    }
}

impl Drop for InATerminal {
    fn drop(&mut self) {
        let _closed = self.script.stdin.take();
        if std::thread::panicking() {
            let pid = fs::read_to_string(self.folder.path().join("pid")).unwrap_or_default();
            let _gone = Command::new("sh").args(["-c", &format!("kill -KILL {pid} 2>&-")]).status();
        }
        let _ended = self.script.wait();
    }
}

#[test]
fn keys_signals_and_narrow_terminals_leave_the_terminal_as_it_was() {
    for (columns, rows, seen_at_least) in [(120, 30, "enable"), (60, 12, "enable"), (10, 3, "0 program"), (1, 1, "")] {
        // If the tests run with ignored signals, the command ignores them too, so they are left out.
        let is_handled =
            |end: &&str| !matches!(*end, "HUP" if process::ignores(1)) && !matches!(*end, "INT" if process::ignores(2));
        for end in ["q", "\x03", "TERM", "HUP", "INT"].into_iter().filter(is_handled) {
            let Some(mut top) = InATerminal::start(columns, rows) else { return };
            wait_until("it draws", || {
                top.seen().split_once("\x1b[?1049h").is_some_and(|(_, drawn)| drawn.contains(seen_at_least))
            });
            match end {
                // The keys select all orders and two filters.
                "q" => top.press("srsssssss/x\x7fy\r/zz\rq"),
                "\x03" => top.press(end),
                signal => send(signal, top.pid()),
            }
            top.assert_ends_well();
        }
    }
}

#[test]
fn bad_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("file"), "dear").unwrap();
    let nowhere = path("no/such.prom");
    let below = path("file/x");
    let directory = path("");
    for (words, part) in [
        (&["--interval-ms", "49"][..], "from 50 to 3600000"),
        (&["--interval-ms", "3600001"], "from 50 to 3600000"),
        (&["--interval-ms", "soon"], "from 50 to 3600000"),
        (&["--interval-ms", "-1"], "from 50 to 3600000"),
        (&["--interval-ms", ""], "from 50 to 3600000"),
        (&["--sort", "size"], "invalid value 'size'"),
        (&["--sort"], "a value is required"),
        (&["--filter"], "a value is required"),
        (&["--oncee"], "similar argument exists: '--once'"),
        (&["--once=yes"], "unexpected value"),
        (&["--once", "--once"], "multiple times"),
        (&["now"], "unexpected argument"),
        (&["--json", "--prometheus", "x"], "cannot be used with"),
        (&["--prometheus"], "a value is required"),
        (&["--once", "--prometheus", &nowhere], "its folder does not exist"),
        (&["--once", "--prometheus", &below], "cannot write"),
        (&["--once", "--prometheus", &directory], "it is a directory. Choose another file for --prometheus"),
        (&["--once", "--prometheus", "/proc/x.prom"], "cannot write"),
        (&[], "are not a terminal. Use --once"),
        (&["--sort", "cpu"], "are not a terminal. Use --once"),
    ] {
        let output = comity().arg("top").args(words).assert().code(2).get_output().clone();
        let errors = String::from_utf8(output.stderr).unwrap();
        let is_said = errors.starts_with("error: ") && errors.contains(part);
        assert!(is_said && output.stdout.is_empty(), "{words:?}: {errors}");
    }
    assert_eq!(fs::read_to_string(path("file")).unwrap(), "dear");
    // The path of the table is a file that is no table, or a folder.
    for (place, words) in [("file", &["top", "--once"][..]), ("", &["top", "--once", "--json"])] {
        let output = comity().env("COMITY_TABLE", path(place)).args(words).assert().code(1).get_output().clone();
        assert!(output.stdout.is_empty() && output.stderr.starts_with(b"error: the core table '"));
    }
}
