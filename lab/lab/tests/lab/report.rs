//! Tests `comity-lab report`: pages of every kind of file, their content, and the files that are refused.
//! checks/report.sh tests pages in a browser.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bad_input::refused;
use crate::lab;

const SCRIPT: &str = "<script>alert('x')</script>&\"";

/// A folder with files, and with the page about them.
struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        Desk(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), text).unwrap();
        self.name(name)
    }

    /// Makes the page of these files, and checks that it is complete.
    #[track_caller]
    fn page(&self, files: &[&str]) -> String {
        let files: Vec<String> = files.iter().map(|file| self.name(file)).collect();
        let out = self.name("page.html");
        let output = lab().args(["report", "--out", &out]).args(&files).assert().success().get_output().clone();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with(&format!("{out}: {} file", files.len())), "{said}");
        let page = fs::read_to_string(out).unwrap();
        assert_whole(&page);
        page
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Checks that every element ends, that the page loads and runs no other content, and that each chart has a label and
/// a caption.
#[track_caller]
fn assert_whole(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("a tag ends");
        let name = tag.trim_start_matches('/').split_whitespace().next().unwrap();
        match tag.strip_prefix('/') {
            Some(_) => assert_eq!(open.pop(), Some(name)),
            None if ["!DOCTYPE", "meta", "link"].contains(&name) => {}
            None => open.push(name),
        }
        assert!(!text.contains('>') || open.last() == Some(&"style"), "{tag}>{text}");
    }
    assert!(open.is_empty(), "{open:?}");
    for forbidden in ["<script", "<img", "http://", "https://", "url(", "@import", "NaN%", "inf%", "style=\"\""] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    let tags = page.split('<').filter_map(|tag| tag.split_once('>'));
    for attribute in tags.flat_map(|(tag, _)| tag.split_whitespace()) {
        assert!(!attribute.starts_with("on") || !attribute.contains('='), "{attribute}");
    }
    let charts = page.matches("<figure>").count();
    assert_eq!(
        (page.matches("</figcaption></figure>").count(), page.matches(".</figcaption>").count()),
        (charts, charts)
    );
    assert!(page.matches("role=\"img\" aria-label=\"").count() >= charts && !page.contains("aria-label=\"\""));
    for link in page.split("href=\"#").skip(1) {
        let id = link.split('"').next().unwrap();
        assert_eq!(page.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
    }
}

fn event(text: &str) -> String {
    format!("{text},\n")
}

fn slice(pid: u64, worker: u64, state: &str, from_us: u64, us: u64) -> String {
    let tid = pid + worker;
    event(&format!(
        r#"{{"name":"{state}","cat":"worker","ph":"X","pid":{pid},"tid":{tid},"ts":{from_us}.000,"dur":{us}.000}}"#
    ))
}

fn beginning(pid: u64, name: &str) -> String {
    let first = format!(r#"{{"name":"comity_trace","ph":"M","pid":{pid},"tid":0,"args":{{"version":1}}}}"#);
    let name = serde_json::to_string(name).unwrap();
    let second = format!(r#"{{"name":"process_name","ph":"M","pid":{pid},"tid":0,"args":{{"name":{name}}}}}"#);
    format!("[\n{}{}", event(&first), event(&second))
}

fn core(pid: u64, core: u64, ph: &str, at_us: u64, how: &str) -> String {
    event(&format!(
        r#"{{"name":"core {core}","cat":"core","ph":"{ph}","id":{core},"pid":{pid},"tid":0,"ts":{at_us}.000,"args":{{"how":"{how}"}}}}"#
    ))
}

/// Ends a timeline: replaces the comma after the last event by the end of the list.
fn whole(events: &str) -> String {
    format!("{}\n]\n", events.strip_suffix(",\n").unwrap())
}

const RUN: &str = r#"{"schema":"comity-run/1","name":"make","exit_code":0,"signal":null,"wall_s":2.0,"cpu_s":3.0,
    "voluntary_switches":11,"involuntary_switches":22,"weight":100,"usable":4,"shared":{"held_core_s":3.0,"lent_core_s":1.0,
    "claimed":5,"taken_back":6,"released":7,"lost":8,"waited_s":0.5,"alone_estimate_s":1.6,"timeline":[
    {"seconds":0.5,"used_cores":1.0,"held_cores":2.0,"owned_cores":2.0},
    {"seconds":1.5,"used_cores":2.0,"held_cores":1.0,"owned_cores":2.0}]}}"#;

fn scenario(name: &str) -> String {
    format!("{}/../scenarios/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_page_has_every_kind_of_file_with_its_name_and_charts() {
    let desk = Desk::new();
    let corun = ["corun", "fib:n=15", "nqueens:n=6", "--workers", "2", "--rounds", "3", "--backend", "rayon,comity"];
    lab().args(corun).args(["--json", &desk.name("corun.json")]).assert().success();
    for (file, words) in [
        ("simulate.json", ["simulate", &scenario("faults.toml"), "--json", "--workers", "2"]),
        ("reproduce.json", ["reproduce", "a-steal", "time", "--one-in=60", "--json"]),
    ] {
        desk.write(file, lab().args(words).assert().success().get_output().stdout.clone());
    }
    desk.write("run.json", RUN);
    desk.write(
        "a.trace",
        whole(&(beginning(10, "fib") + &slice(10, 1, "task", 5, 10) + &core(10, 3, "b", 5, "claimed"))),
    );
    let files = ["corun.json", "simulate.json", "reproduce.json", "run.json", "a.trace"];
    let page = desk.page(&files);
    for file in files {
        assert!(page.contains(&format!("{}</h", desk.name(file))), "{file}");
    }
    for part in [
        "nqueens:n=6 under rayon: ",
        "Farther left is fairer.",
        "in 3 blocks",
        "--backend rayon,comity",
        "a-steal, 128 processors",
        "linear-speedup",
        "almost perfect linear speedup",
        "time alone, an estimate</td><td>about 1.60 s",
        "1.00 s (25.0 %)",
        "<h4>fib (10)</h4>",
        "Perfetto (ui.perfetto.dev) draws each timeline",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // The page has three charts of the co-run, three of the simulation, one of each claim, and one of the run.
    assert!(page.matches("role=\"img\"").count() > 3 + 3 + 5, "{page}");
    // The same files give the same page.
    assert_eq!(desk.page(&files), page);
}

#[test]
fn what_is_wrong_or_partial_in_a_co_run_is_told_on_the_page() {
    let desk = Desk::new();
    let path = desk.name("corun.json");
    let corun =
        ["corun", "fib:n=10", "fib:n=11", "--workers", "1", "--rounds", "1", "--backend", "rayon", "--json", &path];
    lab().args(corun).assert().success();
    let page = desk.page(&["corun.json"]);
    assert!(page.contains("All results are correct.") && !page.contains("class=\"warning\""), "{page}");
    let mut report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    report["partial"] = true.into();
    report["coruns"][0]["programs"][1]["verified"] = false.into();
    report["coruns"][0]["programs"][0]["name"] = SCRIPT.into();
    report["machine"]["cpu"] = SCRIPT.into();
    report["command"] = json!([SCRIPT, "a\u{0}\u{1b}b"]);
    desk.write("corun.json", report.to_string());
    let page = desk.page(&["corun.json"]);
    for part in ["The command was interrupted", "WRONG RESULTS: fib:n=11 under rayon.", "class=\"wrong\">WRONG</td>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("&lt;script&gt;") && !page.contains(['\u{0}', '\u{1b}']));
}

#[test]
fn what_differs_from_a_paper_never_looks_like_what_does_not() {
    let desk = Desk::new();
    let claim = |what: &str, rest: Value| {
        let mut claim = json!({"what": what, "paper": SCRIPT, "here": 1.5, "half_width": 0.1, "accepted": [1.0, 2.0], "because": "why"});
        claim.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        claim
    };
    let claims = [
        claim("first", json!({"holds": true})),
        claim("second", json!({"holds": false, "here": null})),
        claim("third", json!({"holds": true, "result": "differs", "kind": "stated"})),
    ];
    let report = json!({"schema": "comity-reproduce/1", "comity": "0", "setting": SCRIPT, "claims": claims,
        "points": [{"name": SCRIPT, "time": {"value": 2.5, "half_width": 0.5}}]});
    desk.write("reproduce.json", report.to_string());
    let page = desk.page(&["reproduce.json"]);
    assert_eq!(
        [page.matches("✓").count(), page.matches("✗ differs").count(), page.matches("c\" bad").count()],
        [1, 2, 0]
    );
    assert!(
        page.contains("2 of 3 numbers differ") && page.contains("no number") && page.contains("2.5 ± 0.5"),
        "{page}"
    );
    assert!(page.contains("stated</td>"), "{page}");
}

#[test]
fn what_programs_held_and_what_workers_did_is_summed_up() {
    let desk = Desk::new();
    let thread = r#"{"name":"thread_name","ph":"M","pid":10,"tid":11,"args":{"name":"pool 1 worker 0 (comity)"}}"#;
    let steal = r#"{"name":"steal","cat":"worker","ph":"i","s":"t","pid":10,"tid":11,"ts":120.000,"args":{"from":3}}"#;
    let acceleration =
        r#"{"name":"acceleration","cat":"worker","ph":"i","s":"t","pid":10,"tid":11,"ts":130.000,"args":{"whom":2}}"#;
    let refused = r#"{"name":"refused","cat":"worker","ph":"i","s":"t","pid":10,"tid":11,"ts":140.000,"args":{"reasons":{"running":40,"mask":1}}}"#;
    let lost = r#"{"name":"lost","cat":"trace","ph":"i","s":"p","pid":10,"tid":0,"ts":200.000,"args":{"events":41}}"#;
    let first = [
        beginning(10, "fib"),
        event(thread),
        slice(10, 1, "task", 1_000, 500),
        slice(10, 1, "thief", 1_500, 250),
        slice(10, 1, "retired", 1_750, 250),
        event(steal),
        event(acceleration),
        event(refused),
        core(10, 0, "b", 1_000, "claimed"),
        core(10, 0, "e", 1_500, "lost"),
        core(10, 0, "b", 1_750, "taken back"),
        core(10, 0, "e", 2_000, "released"),
        event(r#"{"name":"shares time","ph":"b","pid":10,"tid":0,"cat":"mode","id":"comity","ts":1250.000}"#),
        event(r#"{"name":"shares time","ph":"e","pid":10,"tid":0,"cat":"mode","id":"comity","ts":1750.000}"#),
        event(lost),
    ];
    desk.write("a.trace", whole(&first.concat()));
    // The second timeline ends like that of a program that was killed while it wrote.
    let second = beginning(20, SCRIPT)
        + &slice(20, 1, "asleep", 1_500, 100)
        + &core(20, 0, "b", 1_500, "claimed")
        + "{\"name\":\"ta";
    desk.write("b.trace", second);
    let page = desk.page(&["a.trace", "b.trace"]);
    for part in [
        "<td>1.00 ms</td><td>1</td><td>750 µs</td><td>0.75</td><td>88.2 %</td>",
        "claimed 1, taken back 1",
        "lost 1, released 1",
        "<td>0 s</td><td>0 s</td><td>500 µs</td>",
        "<h4>fib (10)</h4>",
        "<td>1.00 ms</td><td>50.0 %</td><td>25.0 %</td><td>0.0 %</td><td>25.0 %</td><td>0.0 %</td><td>0</td><td>1</td><td>0</td><td>1</td><td>mask 1, running 40</td>",
        "41 events of fib (10) were dropped",
        "This trace was cut short",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(page.matches("This trace was cut short").count(), 1);
}

#[test]
fn what_a_program_writes_under_comity_trace_is_read() {
    let desk = Desk::new();
    for policy in ["comity", "robinhood"] {
        let kernel = ["kernel", "fib:n=22", "--workers", "3", "--rounds", "3", "--policy", policy];
        lab()
            .env("COMITY_TRACE", desk.path("fib.trace"))
            .env("COMITY_TABLE", desk.path("table"))
            .args(kernel)
            .assert()
            .success();
        let page = desk.page(&["fib.trace"]);
        // On a busy machine one worker may do all the work.
        assert!(page.contains("<h4>comity-lab (") && page.contains(&format!(" ({policy})</td>")), "{page}");
        assert!(!page.contains("cut short") && !page.contains("does not know"), "{page}");
    }
}

#[test]
fn the_page_goes_where_it_was_to_go_and_replaces_nothing_but_pages() {
    let desk = Desk::new();
    desk.write("run.json", RUN);
    let here = |words: &[&str]| {
        let mut command = lab();
        command.current_dir(desk.0.path()).arg("report").args(words);
        command
    };
    let said = here(&["run.json"]).assert().success().get_output().stdout.clone();
    assert!(String::from_utf8(said).unwrap().starts_with("report.html: 1 file, "));
    assert_eq!(desk.names(), ["report.html", "run.json"]);
    // An existing page or an empty file is replaced.
    here(&["run.json", "--title", SCRIPT]).assert().success();
    let page = fs::read_to_string(desk.path("report.html")).unwrap();
    assert!(page.contains("<h1>&lt;script&gt;alert('x')&lt;/script&gt;&amp;") && !page.contains("<script"), "{page}");
    desk.write("empty.html", "");
    here(&["run.json", "--out", "empty.html"]).assert().success();
    let printed = here(&["run.json", "--out", "-"]).assert().success().get_output().stdout.clone();
    assert_eq!(String::from_utf8(printed).unwrap(), fs::read_to_string(desk.path("empty.html")).unwrap());
    // A file that is not a page, for example an input, stays unchanged. No temporary file remains.
    symlink("run.json", desk.path("link")).unwrap();
    fs::hard_link(desk.path("run.json"), desk.path("hard")).unwrap();
    desk.write("dear", "dear");
    let before = desk.names();
    let run = desk.name("run.json");
    for (out, part) in [
        ("run.json", "it is one of the files to show. Choose another file for --out"),
        ("link", "it is one of the files to show"),
        ("hard", "it is one of the files to show"),
        ("dear", "the file exists and is not an HTML page. Choose another file for --out, or delete it"),
        ("", "it is a directory. Choose another file for --out"),
        ("none/page.html", "its folder does not exist"),
        ("dear/page.html", "cannot write"),
    ] {
        refused(&["report", "--out", &desk.name(out), &run], part);
    }
    refused(&["report", "--out", "/proc/page.html", &run], "cannot write '/proc/page.html'");
    refused(&["report", &run, &desk.name("link")], "is given twice. Give it once");
    // An invalid file is detected before the page is written.
    let good = desk.name("empty.html");
    refused(&["report", "--out", &good, &run, &desk.name("dear")], "it is not JSON");
    assert_eq!(fs::read(desk.path("run.json")).unwrap(), RUN.as_bytes());
    assert_eq!(fs::read(desk.path("dear")).unwrap(), b"dear");
    assert!(fs::read_to_string(good).unwrap().contains("make"));
    assert_eq!(desk.names(), before);
    let full = lab().args(["report", "--out", "/dev/full", &run]).assert().code(1).get_output().clone();
    assert!(String::from_utf8(full.stderr).unwrap().contains("cannot write '/dev/full'"));
}

#[test]
fn a_file_that_cannot_be_shown_is_answered_with_where_and_what_to_do() {
    let desk = Desk::new();
    let out = desk.name("page.html");
    let bad = |name: &str, bytes: &[u8], part: &str, what: &str| {
        desk.write(name, bytes);
        refused(&["report", "--out", &out, &desk.name(name)], part);
        refused(&["report", "--out", &out, &desk.name(name)], what);
    };
    let (kinds, anew) = (". Give a file that `comity-lab corun --json`", ". Create it again, or leave it out");
    bad("empty", b"", "it is empty", kinds);
    bad("blank", b" \n\n", "it contains only blanks", kinds);
    bad("garbage", b"\x7fELF\x00\xff\xfe", "it is not text from byte 5 on", kinds);
    bad("latin", b"{\"schema\": \"caf\xe9\"}", "it is not text from byte 16 on", kinds);
    bad("prose", b"dear", "it is not JSON (expected value at line 1 column 1)", kinds);
    bad("cut", &RUN.as_bytes()[..RUN.len() / 2], "its JSON is cut short (EOF", anew);
    bad("nameless", b"[1, 2]", "it has no schema", kinds);
    bad(
        "other",
        br#"{"schema":"comity-kernel/1"}"#,
        "its schema is comity-kernel/1, which this command cannot show",
        kinds,
    );
    bad("sweep", b"{\"schema\":\"comity-sweep/1\"}\n{\"run\":0}\n", "single runs of a sweep", "Give the result.json");
    bad("corun", br#"{"schema":"comity-corun/1"}"#, "missing field", anew);
    bad("simulate", br#"{"schema":"comity-simulate/1","comity":"","runs":[]}"#, "missing field `scenario`", anew);
    bad("reproduce", br#"{"schema":"comity-reproduce/1"}"#, "missing field", anew);
    let late = RUN.replace("\"wall_s\":2.0", "\"wall_s\":-2.0");
    bad("run", late.as_bytes(), "its wall_s is -2, which is invalid", anew);
    let trace = beginning(10, "fib") + &slice(10, 1, "task", 5, 10);
    bad("new.trace", trace.replace("\"version\":1", "\"version\":2").as_bytes(), "line 2: its version is 2", anew);
    bad("short.trace", &trace.as_bytes()[..20], "cut short before its first event", anew);
    for (name, line, part) in [
        ("negative.trace", slice(10, 1, "thief", 90, 10).replace("90.000", "-90.000"), "line 5: ts is -90"),
        ("nan.trace", slice(10, 1, "thief", 90, 10).replace("90.000", "NaN"), "line 5: it is not an event of a trace"),
        ("words.trace", "what is this,\n".to_owned(), "line 5: it is not an event of a trace"),
    ] {
        bad(name, whole(&(trace.clone() + &line)).as_bytes(), part, anew);
    }
    refused(&["report", "--out", &out, &desk.name("absent")], "No such file");
    refused(&["report", "--out", &out, desk.0.path().to_str().unwrap()], "it is a directory. Give a file");
    refused(&["report", "--out", &out, "/dev/zero"], "it is not text from byte 1 on");
    refused(&["report", "--out", &out], "required");
    let closed = desk.write("closed.json", RUN);
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).unwrap();
    // Root can read the file in spite of its mode, so the test of the error is skipped.
    if fs::File::open(&closed).is_err() {
        refused(&["report", "--out", &out, &closed], "Permission denied");
    }
    assert!(!desk.path("page.html").exists());
}

#[test]
fn a_simulation_with_times_that_cannot_be_is_refused() {
    let desk = Desk::new();
    let output =
        lab().args(["simulate", &scenario("faults.toml"), "--json"]).assert().success().get_output().stdout.clone();
    let right: Value = serde_json::from_slice(&output).unwrap();
    let with = |change: fn(&mut Value)| {
        let mut report = right.clone();
        change(&mut report);
        desk.write("simulate.json", report.to_string())
    };
    let cannot = "run 0 has an invalid time of 'left alone'";
    for (change, part) in [
        ((|report| report["runs"][0]["programs"][0]["came"] = 1_000_000.into()) as fn(&mut Value), cannot),
        (|report| report["runs"][0]["programs"][0]["cycles"]["work"] = u64::MAX.into(), cannot),
        (|report| report["runs"] = json!([]), "it has no run with a program"),
    ] {
        refused(&["report", "--out", &desk.name("page.html"), &with(change)], part);
    }
    let named = with(|report| {
        for run in report["runs"].as_array_mut().unwrap() {
            run["programs"][0]["name"] = SCRIPT.into();
        }
    });
    assert!(named.ends_with("simulate.json"));
    assert!(desk.page(&["simulate.json"]).contains("&lt;script&gt;"));
}
