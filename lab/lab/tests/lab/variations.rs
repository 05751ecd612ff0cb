//! Tests `comity-lab simulate --policy --set --csv --plot --timeline`: the results of several settings, and their
//! reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::bad_input::refused;
use crate::{json, lab};

/// Two programs on a host, which takes almost no time to simulate.
const SCENARIO: &str = r#"
runs = 4
[machine]
model = "host"
cores = 4
steps = 1_000_000_000
[[programs]]
name = "narrow"
policy = "abp"
serial = 300_000
parallel = 200_000
width = 4
iterations = 3
[[programs]]
name = "wide, and long"
policy = "bws"
serial = 1_000
parallel = 300_000
width = 40
"#;

struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("two.toml"), SCENARIO).unwrap();
        Desk(folder)
    }

    fn name(&self, file: &str) -> String {
        self.0.path().join(file).to_str().unwrap().to_owned()
    }

    fn command(&self, words: &[&str]) -> assert_cmd::Command {
        let mut command = lab();
        command.current_dir(self.0.path()).args(["simulate", "two.toml"]).args(words);
        command
    }

    fn said(&self, words: &[&str]) -> String {
        let output = self.command(words).assert().success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Options that give a point for each number of cores and each policy.
const SWEEP: [&str; 4] = ["--set", "machine.cores=2,4", "--policy", "dws,bws:sleep_threshold=9"];

#[test]
fn each_setting_is_as_if_the_file_said_so() {
    let desk = Desk::new();
    let report = json(&mut desk.command(&[&SWEEP[..], &["--json"]].concat()));
    assert_eq!(report["schema"], "comity-simulate-sweep/1");
    let points = report["points"].as_array().unwrap();
    let expected = [(2, "dws"), (2, "bws:sleep_threshold=9"), (4, "dws"), (4, "bws:sleep_threshold=9")];
    assert_eq!(points.len(), expected.len());
    for (point, (cores, policy)) in points.iter().zip(expected) {
        assert_eq!(point["settings"], serde_json::json!({"machine.cores": cores, "policy": policy}));
        let text = SCENARIO.replace("\"abp\"", &format!("\"{policy}\"")).replace("\"bws\"", &format!("\"{policy}\""));
        fs::write(desk.name("one.toml"), text.replace("cores = 4", &format!("processors = {cores}"))).unwrap();
        let one = json(lab().args(["simulate", &desk.name("one.toml"), "--json"]));
        assert_eq!(one["schema"], "comity-simulate/1");
        for key in ["scenario", "runs", "summary"] {
            assert_eq!(point[key], one[key], "{cores} {policy}");
        }
    }
    // The policy of a single program takes precedence over the policy of all programs.
    let report = json(&mut desk.command(&["--policy", "dws,comity", "--policy", "narrow=abp", "--json"]));
    for (point, policy) in report["points"].as_array().unwrap().iter().zip(["dws", "comity"]) {
        let programs = point["scenario"]["programs"].as_array().unwrap();
        assert_eq!((&programs[0]["policy"], &programs[1]["policy"]), (&"abp".into(), &policy.into()));
    }
}

#[test]
fn settings_that_differ_in_their_policy_stand_below_each_other() {
    let table = Desk::new().said(&SWEEP);
    let [programs, runs, percentiles] = table.split("┌").skip(1).collect::<Vec<_>>()[..] else { panic!("{table}") };
    let beginnings = |table: &str, columns: usize| -> Vec<String> {
        let rows = table.lines().filter(|line| line.starts_with('│')).skip(1);
        let cells =
            rows.map(|row| row.split(['│', '┆']).skip(1).take(columns).map(str::trim).collect::<Vec<_>>().join(" "));
        cells.collect()
    };
    let both =
        |cores: u32, name: &str| ["dws", "bws:sleep_threshold=9"].map(|policy| format!("{cores} {policy}{name}"));
    let each =
        [both(2, " narrow"), both(2, " wide, and long"), both(4, " narrow"), both(4, " wide, and long")].concat();
    assert_eq!(beginnings(programs, 3), each);
    assert_eq!(beginnings(runs, 2), [both(2, ""), both(4, "")].concat());
    assert_eq!(beginnings(percentiles, 3), each);
    assert!(programs.contains("waited") && runs.contains("idle while work waits"), "{table}");
    // A single program has no distribution.
    let table = Desk::new().said(&["--set", "runs=1"]);
    assert!(!table.contains("p50 / p90"), "{table}");
}

#[test]
fn threads_shards_and_interruptions_of_a_sweep_do_not_show() {
    let desk = Desk::new();
    let said = |words: &[&str]| desk.said(&[&SWEEP[..], words].concat());
    let (report, csv) = (said(&["--json", "--workers", "1"]), said(&["--csv", "-", "--workers", "2"]));
    assert_eq!(said(&["--json", "--workers", "2"]), report);
    for shard in ["1/3", "2/3", "3/3"] {
        assert!(said(&["--out", &desk.name("shards"), "--shard", shard]).starts_with("The runs of shard"));
    }
    assert_eq!(said(&["--json", "--merge", &desk.name("shards")]), report);
    assert_eq!(said(&["--csv", "-", "--merge", &desk.name("shards")]), csv);
    // The file is cut within a line, so this line is incomplete and the lines after it are missing.
    said(&["--out", &desk.name("whole")]);
    let runs = Path::new(&desk.name("whole")).join("runs/simulate.jsonl");
    let lines = fs::read_to_string(&runs).unwrap();
    assert_eq!(lines.lines().count(), 17, "a head, and four runs of each point");
    let kept: Vec<&str> = lines.split_inclusive('\n').take(9).collect();
    fs::write(&runs, &kept.concat()[..kept.concat().len() - 9]).unwrap();
    assert_eq!(said(&["--json", "--out", &desk.name("whole")]), report);
    assert_eq!(fs::read_to_string(Path::new(&desk.name("whole")).join("result.json")).unwrap(), report);
    // Runs of other settings are refused.
    let out = desk.name("whole");
    for words in [&["--policy", "dws", "--out", &out][..], &["--out", &out]] {
        let refused = desk.command(words).assert().code(2);
        let errors = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(errors.contains("line 1: it has runs of another setting"), "{errors}");
    }
}

#[test]
fn a_row_of_the_csv_is_a_program_of_a_run() {
    let desk = Desk::new();
    let file = desk.name("runs.csv");
    let report = json(&mut desk.command(&[&SWEEP[..], &["--json", "--csv", &file]].concat()));
    let mut reader = csv::Reader::from_path(&file).unwrap();
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let documented = fs::read_to_string(format!("{}/../scenarios/README.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    for column in &header[..header.len() - 1] {
        assert!(documented.contains(&format!("`{column}`")), "lab/scenarios/README.md has no {column}");
    }
    assert_eq!(header.last().unwrap(), "machine.cores");
    let rows: Vec<BTreeMap<String, String>> = reader.deserialize().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), 4 * 4 * 2);
    let mut rows = rows.iter();
    for (nth, point) in report["points"].as_array().unwrap().iter().enumerate() {
        for (run, outcome) in point["runs"].as_array().unwrap().iter().enumerate() {
            for program in outcome["programs"].as_array().unwrap() {
                let row = rows.next().unwrap();
                let number = |of: &Value| of.as_u64().unwrap();
                let time = number(&program["ended"]) - number(&program["came"]);
                for (column, expected) in [
                    ("point", nth as u64),
                    ("run", run as u64),
                    ("seed", 1 + run as u64),
                    ("time", time),
                    ("waited", number(&program["waited"])),
                    ("steal_cycles", number(&program["cycles"]["steal"])),
                    ("attempts", number(&program["counts"]["attempts"])),
                    ("run_steps", number(&outcome["steps"])),
                    ("machine.cores", number(&point["settings"]["machine.cores"])),
                    ("processors", number(&point["settings"]["machine.cores"])),
                ] {
                    assert_eq!(row[column], expected.to_string(), "{column}: {row:?}");
                }
                assert_eq!(row["policy"], point["settings"]["policy"].as_str().unwrap());
                assert_eq!(row["program"], program["name"].as_str().unwrap());
                assert!(row["died"].is_empty());
            }
        }
    }
    // Without varied settings, there are no further columns. On a machine that is no host, some cells are empty.
    let scenario = format!("{}/../scenarios/two-programs.toml", env!("CARGO_MANIFEST_DIR"));
    let rows = lab().args(["simulate", &scenario, "--csv", "-"]).assert().success().get_output().stdout.clone();
    let mut reader = csv::Reader::from_reader(rows.as_slice());
    assert!(reader.headers().unwrap().iter().eq(header[..header.len() - 1].iter()));
    let rows: Vec<BTreeMap<String, String>> = reader.deserialize().collect::<Result<_, _>>().unwrap();
    assert!(rows.len() == 40 && rows.iter().all(|row| row["sleeps"].is_empty() && !row["time"].is_empty()));
}

#[test]
fn percentiles_are_of_all_programs_that_ended() {
    let desk = Desk::new();
    let report = json(&mut desk.command(&["--set", "programs.narrow.count=9", "--set", "runs=3", "--json"]));
    let point = &report["points"][0];
    let summary = &point["summary"]["programs"][0];
    let runs = point["runs"].as_array().unwrap().iter();
    let programs =
        runs.flat_map(|run| run["programs"].as_array().unwrap()).filter(|program| program["name"] == "narrow");
    let numbers = |of: fn(&Value) -> f64| {
        let mut numbers: Vec<f64> = programs.clone().map(of).collect();
        numbers.sort_by(f64::total_cmp);
        numbers
    };
    let times = numbers(|program| (program["ended"].as_u64().unwrap() - program["came"].as_u64().unwrap()) as f64);
    let waits = numbers(|program| program["waited"].as_u64().unwrap() as f64);
    for (key, numbers) in [("time", times), ("waited", waits)] {
        let told = |percent: &str| summary[key][percent].as_f64().unwrap();
        assert_eq!((summary[key]["of"].as_u64().unwrap(), numbers.len()), (27, 27));
        assert_eq!(told("p50"), numbers[13], "{key}");
        assert!((numbers[23]..=numbers[25]).contains(&told("p90")), "{key}: {numbers:?}");
        assert!((numbers[25]..=numbers[26]).contains(&told("p99")), "{key}: {numbers:?}");
        let mean = numbers.iter().sum::<f64>() / 27.0;
        assert!((told("mean") - mean).abs() < 1e-6 * mean, "{key}");
    }
    // If no program ended, the numbers are `null`.
    let report = json(&mut desk.command(&["--set", "machine.steps=10", "--json"]));
    assert!(report["points"][0]["summary"]["programs"][0]["time"].is_null());
}

#[test]
fn a_timeline_has_a_track_for_each_core_and_each_worker() {
    let desk = Desk::new();
    let file = desk.name("two.trace");
    let one = ["--policy", "narrow=bws:sleep_threshold=9"];
    let runs = |words: &[&str]| json(&mut desk.command(&[&one, words].concat()))["points"][0]["runs"].clone();
    let observed = runs(&["--timeline", &file, "--json"]);
    assert_eq!(observed.as_array().unwrap().len(), 1);
    assert_eq!(observed[0], runs(&["--json"])[0], "to look on changes nothing");
    let text = fs::read_to_string(&file).unwrap();
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    let nanos = |event: &Value, key: &str| (event[key].as_f64().unwrap() * 1e3).round() as u64;
    let mut tracks: BTreeMap<u64, Vec<(u64, u64, &Value)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let from = nanos(event, "ts");
        tracks.entry(event["tid"].as_u64().unwrap()).or_default().push((from, from + nanos(event, "dur"), event));
    }
    let names: BTreeMap<u64, &str> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| (event["tid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap()))
        .collect();
    assert_eq!(names.len(), 4 + 8, "{names:?}");
    let mut ran: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (thread, slices) in &mut tracks {
        slices.sort_by_key(|(from, ..)| *from);
        assert!(slices.windows(2).all(|two| two[0].1 <= two[1].0), "thread {thread} is in two states at once");
        let is_core = names[thread].starts_with("core ");
        assert_eq!(is_core, (1..=4).contains(thread), "{names:?}");
        if !is_core {
            // The states of a worker follow each other without a gap, from the beginning of the program to its end.
            assert!(slices.windows(2).all(|two| two[0].1 == two[1].0) && slices[0].0 == 0, "thread {thread} has a gap");
        }
        for (from, until, slice) in slices {
            let key = match is_core {
                true => (slice["args"]["program"].as_u64().unwrap(), slice["args"]["worker"].as_u64().unwrap()),
                false if slice["name"] == "task" || slice["name"] == "thief" => {
                    let pid = slice["pid"].as_u64().unwrap();
                    (pid, *thread - 5 - (pid - 2) * 4)
                }
                false => continue,
            };
            let sum = ran.entry(key).or_default();
            *sum = if is_core { *sum + (*until - *from) } else { sum.checked_sub(*until - *from).unwrap() };
        }
    }
    // The time on the tracks of cores equals the time of the workers in states with a core.
    assert!(ran.len() == 8 && ran.values().all(|left| *left == 0), "{ran:?}");
    for state in ["task", "thief", "preempted", "asleep"] {
        assert!(events.iter().any(|event| event["ph"] == "X" && event["name"] == state), "{state}");
    }

    let page = desk.name("page.html");
    lab().args(["report", &file, "--out", &page]).assert().success();
    let page = fs::read_to_string(page).unwrap();
    for part in [
        "narrow (program 1)",
        "wide, and long (program 2)",
        "worker 3 (bws)</td>",
        "worker 3 (bws:sleep_threshold=9)</td>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("does not know") && !page.contains("cut short") && !page.contains("cores (1)"));

    // An existing file is not overwritten.
    desk.command(&["--timeline", &file]).assert().code(1);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn a_picture_has_a_line_for_each_policy() {
    let desk = Desk::new();
    let words = ["--plot", &desk.name("pictures"), "--set", "programs.narrow.fork=tree,at-once"];
    let said = desk.said(&[&SWEEP[..], &words].concat());
    assert!(said.ends_with(&format!("2 pictures are in '{}'.\n", desk.name("pictures"))), "{said}");
    for (file, title) in [("time-narrow.svg", "narrow"), ("time-wide--and-long.svg", "wide, and long")] {
        let svg = fs::read_to_string(desk.0.path().join("pictures").join(file)).unwrap();
        for part in [
            title,
            "machine.cores",
            "time, ms",
            "dws, programs.narrow.fork=tree",
            "bws:sleep_threshold=9, programs.narrow.fork=at-once",
        ] {
            assert!(svg.contains(part), "{part} is missing in {file}");
        }
        // Each of the four lines has two points, and one point in the legend.
        assert_eq!(svg.matches("<circle").count(), 12, "{file}");
    }
}

#[test]
fn the_page_of_a_sweep_has_each_setting() {
    let desk = Desk::new();
    fs::write(desk.name("sweep.json"), desk.said(&[&SWEEP[..], &["--json"]].concat())).unwrap();
    let page = desk.name("page.html");
    lab().args(["report", &desk.name("sweep.json"), "--out", &page]).assert().success();
    let page = fs::read_to_string(page).unwrap();
    for part in
        ["4 settings of machine.cores, policy, 16 runs", "Time of wide, and long", ">2, bws:sleep_threshold=9</div>"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("Percentiles over the programs that ended"), "{page}");
    assert!(page.matches("<td class=\"text\">bws:sleep_threshold=9</td>").count() >= 4, "{page}");
}

#[test]
fn what_cannot_be_varied_drawn_or_observed_is_said_before_anything_runs() {
    let desk = Desk::new();
    let file = desk.name("two.toml");
    let bad = |words: &[&str], part: &str| refused(&[&["simulate", &file][..], words].concat(), part);
    bad(&["--set", "machine.kores=2"], "two.toml': with machine.kores=2: unknown field `kores`, expected one of");
    bad(&["--set", "programs.narow.width=2"], "'narow' is not in the list. Choose one of narrow, wide, and long");
    bad(&["--set", "machine.cores"], "--set machine.cores: it is not of the form KEY=VALUE,…");
    bad(&["--set", "programs.narrow.width=2,0"], "with programs.narrow.width=0: width of program 'narrow' is 0");
    bad(&["--set", "machine.cores=2,many"], "with machine.cores=many: invalid type: string \"many\", expected u32");
    bad(&["--set", "machine.model=a-steal", "--policy", "bws"], "the thieves of bws sleep");
    bad(&["--policy", "cilk"], "--policy cilk: no policy is called 'cilk'");
    bad(&["--policy", "broad=abp"], "no program is called 'broad'");
    bad(&["--plot", &desk.name("p")], "Vary one, for example with --set machine.cores=16,32,64");
    bad(&["--plot", &desk.name("p"), "--policy", "abp,bws"], "the figure needs a number that varies");
    bad(&["--plot", &desk.name("two.toml/p"), "--set", "machine.cores=2,4"], "cannot create the folder");
    bad(&["--csv", &desk.name("no/such.csv")], "its folder does not exist");
    bad(&["--csv", "-", "--json"], "--json and --csv - both print");
    bad(&["--csv", "-", "--shard", "1/2", "--out", &desk.name("o")], "cannot be used with");
    bad(
        &["--timeline", &desk.name("t"), "--policy", "abp,bws"],
        "there are 2 settings, and --record and --timeline need a single setting",
    );
    bad(&["--record", &desk.name("t"), "--set", "machine.cores=2,4"], "there are 2 settings");
    bad(&["--timeline", &desk.name("t"), "--merge", &desk.name("o")], "cannot be used with");
    let words = ["--timeline", &desk.name("t"), "--set", "machine.model=a-steal", "--policy", "abp"];
    bad(&words, "--timeline: only a host has threads to observe");
    let left: Vec<_> = fs::read_dir(desk.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["two.toml"]);
    let broken = desk.name("broken.json");
    for (text, part) in [
        (r#"{"schema":"comity-simulate-sweep/1","comity":"","points":[]}"#, "it has no points"),
        (r#"{"schema":"comity-simulate-sweep/1","comity":""}"#, "missing field `points`"),
    ] {
        fs::write(&broken, text).unwrap();
        refused(&["report", &broken, "--out", &desk.name("page.html")], part);
    }
}
