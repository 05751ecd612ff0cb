//! Tests `comity-lab reproduce`: the results do not depend on the division of runs into shards, an interrupted
//! command continues after the runs in its files, and `--check` can fail.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::{json, lab};

const QUICK: [&str; 4] = ["reproduce", "a-steal", "--one-in", "60"];

/// Returns every file in a folder. The runs in its subfolder are left out, because their order varies.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let mut files: Vec<_> =
        files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn the_threads_and_the_shards_do_not_show() {
    let folders = [(); 5].map(|()| TempDir::new().unwrap());
    let paths = folders.each_ref().map(|folder| folder.path().to_str().unwrap());
    let [one, two, first, second, merged] = paths;
    let what = ["waste", "time-waste"];
    for (out, workers) in [(one, "1"), (two, "2")] {
        lab().args(QUICK).args(what).args(["--out", out, "--workers", workers]).assert().success();
    }
    for (out, shard) in [(first, "1/2"), (second, "2/2")] {
        let assert = lab().args(QUICK).args(what).args(["--out", out, "--shard", shard]).assert().success();
        let said = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        assert!(said.starts_with(&format!("The runs of shard {shard} are done")), "{said}");
    }
    lab().args(QUICK).args(what).args(["--merge", first, "--merge", second, "--out", merged]).assert().success();
    let expected = files(folders[0].path());
    let names: Vec<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 7, "{names:?}");
    for other in [1, 4] {
        assert!(files(folders[other].path()) == expected, "{:?} differs", folders[other].path());
    }
    // With `--merge`, the command does no runs. If runs are missing in the files, it fails.
    let refused = lab().args(QUICK).args(["time", "--merge", first]).assert().code(1);
    let errors = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(errors.contains("are missing in the --merge folders"), "{errors}");
}

#[test]
fn numbers_stand_beside_the_papers() {
    let report = json(lab().args(QUICK).args(["time", "--json"]));
    assert_eq!(report["schema"], "comity-reproduce/1");
    let claims = report["claims"].as_array().unwrap();
    let of = |id: &str| claims.iter().find(|claim| claim["what"] == id).unwrap();
    let (speedup, c1) = (of("linear-speedup"), of("c1"));
    assert_eq!(
        (&speedup["result"], &speedup["kind"], &speedup["holds"]),
        (&"holds".into(), &"known".into(), &true.into())
    );
    assert_eq!(
        (&c1["paper"], &c1["result"], &c1["kind"]),
        (&"0.960 ± 0.003".into(), &"differs".into(), &"calibrated".into())
    );
    assert!(c1["why"].as_str().unwrap().contains("fork=tree, "), "{c1}");
}

#[test]
fn the_check_can_fail() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("idle.swf");
    // On 17 of 512 processors, ABP is slower than on the 30 and 60 of the paper, so the claim does not hold.
    fs::write(&log, "1 0 0 1 1\n2 10000 0 1 1\n").unwrap();
    let words = ["time-waste", "--log", log.to_str().unwrap(), "--log-processors", "17"];
    lab().args(QUICK).args(words).assert().success();
    let failed = lab().args(QUICK).args(words).arg("--check").assert().code(1);
    let errors = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(errors.contains("claims are recorded as holding and do not hold"), "{errors}");
}

#[test]
fn practical_profiles_come_from_a_log_in_the_standard_format() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log.swf");
    let job = |nth: u64| format!("{nth} {} 0 {} {} -1\n", nth * 40, 200 + nth % 7 * 100, 1 + nth % 9);
    fs::write(&log, (0..2_000).map(job).collect::<String>()).unwrap();
    let log = log.to_str().unwrap();
    let words = ["time", "--log", log, "--log-processors", "64", "--json"];
    let report = json(lab().args(QUICK).args(words));
    assert!(report["setting"].as_str().unwrap().contains("log log.swf of 64 processors, 2000 jobs"), "{report}");
    for (varied, part) in
        [("fork=bush", "'fork=bush' is not one of fork=at-once or tree"), ("serial=0.5-2", "within 0-0.95")]
    {
        let refused = lab().args(QUICK).args(["time", "--vary", varied]).assert().code(2);
        let errors = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(errors.contains(part), "{errors}");
    }
    let words = ["time", "--seconds-per-quantum", "100000"];
    let refused = lab().args(QUICK).args(words).assert().code(2);
    let errors = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(errors.contains("cannot use the workload with --seconds-per-quantum 100000: it has "), "{errors}");
    for (text, processors, part) in [
        ("1 0 0 ten 4\n", "64", "line 1: its run time, 'ten', is not a number"),
        ("1 0 0 100 4\n", "64", "it has 101 quanta of 1 s, and the experiments need 500"),
        ("1 0 0 1000 60\n", "64", "it hardly ever leaves 16 of the 64 processors free"),
    ] {
        fs::write(log, text).unwrap();
        let words = ["time", "--log", log, "--log-processors", processors];
        let refused = lab().args(QUICK).args(words).assert().code(2);
        let errors = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(errors.contains(part), "{errors}");
    }
}

#[test]
fn ws_last_is_checked_too() {
    let quick = ["reproduce", "ws-last", "exp2", "exp4", "--one-in", "25"];
    let folder = TempDir::new().unwrap();
    let out = folder.path().to_str().unwrap();
    let report = json(lab().args(quick).args(["--json", "--out", out]));
    lab().args(["reproduce", "ws-last", "exp4", "--one-in", "25", "--check"]).assert().success();
    let (claims, points) = (report["claims"].as_array().unwrap(), report["points"].as_array().unwrap());
    assert!(claims.len() == 9 && points.len() == 14 + 33, "{report}");
    let names: Vec<String> = files(folder.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["figure-4-speedup.svg", "figure-4-steals.svg", "figure-6.svg", "result.json"]);
    // The paper has a number for one end of each of the two lines. The picture has a ring with its centre there, and
    // the legend has two more.
    let drawn = fs::read_to_string(folder.path().join("figure-4-speedup.svg")).unwrap();
    assert!(["WS-CUR: the paper", "WS-LAST: the paper"].iter().all(|name| drawn.contains(name)), "{drawn}");
    assert_eq!(drawn.matches("<polygon").count(), 8);
    // Each of the two lines has seven points, and one point in the legend.
    assert_eq!(drawn.matches("<circle").count(), 16);
    // If a yield costs almost nothing, thieves find the tasks so soon that claims of the paper do not hold.
    let failed = lab().args(quick).args(["--vary", "yield=1", "--vary", "steal=1", "--check"]).assert().code(1);
    let errors = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(errors.contains("of 9 claims are recorded as holding and do not hold"), "{errors}");
    let refused = lab().args(["reproduce", "ws-last", "--vary", "yield"]).assert().code(2);
    let errors = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(errors.contains("--vary: '' is not a whole number of nanoseconds from 1"), "{errors}");
}

#[test]
fn ws_last_runs_on_threads_too() {
    let out = TempDir::new().unwrap();
    let words = ["reproduce", "ws-last", "exp2", "--real", "--one-in", "100", "--out"];
    let output = lab().args(words).arg(out.path()).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["exp2\n", "| WS-CUR ", "| WS-LAST ", "| 256 "] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(out.path().join("figure-4-speedup.svg").exists());
    lab().args(["reproduce", "ws-last", "--real", "--check"]).assert().code(2);
}

#[test]
fn a_figure_is_asked_for_by_its_number_and_drawn_where_it_is_wanted() {
    let folder = TempDir::new().unwrap();
    let plot = folder.path().join("drawn");
    let words = ["reproduce", "ws-last", "--one-in", "50", "--figure", "6", "--plot", plot.to_str().unwrap()];
    let said = lab().args(words).assert().success().get_output().stdout.clone();
    let said = String::from_utf8(said).unwrap();
    for part in ["minima *", "figure 6   ┆ 5      ┆ 5 ", "Only the chosen values were run.", "yield (3500, 8000)"] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    assert!(!said.contains("cur-100"), "{said}");
    assert_eq!(files(&plot).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["figure-6.svg"]);
    let refused = lab().args(["reproduce", "ws-last", "--figure", "7"]).assert().code(2);
    let errors = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(
        errors.contains("--figure 7: ws-last has no claims about this figure. Choose one of 3, 4, 5, 6"),
        "{errors}"
    );
}

/// Tests that an interrupted reproduction of BWS or DWS continues, and that the results do not depend on
/// interruptions, threads or shards.
#[test]
fn pairs_of_programs_come_out_the_same_in_shards_and_after_an_interruption() {
    // Tasks that are shorter than the paper's take less time to simulate.
    for (paper, experiment, varied) in
        [("bws", "examples", ["--vary=slow=1", "--vary=cg=1"]), ("dws", "solo", ["--vary=slow=5", "--vary=hz=250"])]
    {
        let folders = [(); 4].map(|()| TempDir::new().unwrap());
        let paths = folders.each_ref().map(|folder| folder.path().to_str().unwrap());
        let [one, two, first, second] = paths;
        let run = |words: &[&str]| {
            lab().args(["reproduce", paper, experiment]).args(varied).args(words).assert().success();
        };
        run(&["--out", one, "--workers", "1"]);
        run(&["--out", two, "--workers", "2"]);
        let expected = files(folders[0].path());
        assert!(expected.iter().any(|(name, _)| name == "result.json"), "{expected:?}");
        assert!(files(folders[1].path()) == expected, "{paper}: two threads differ from one");
        run(&["--out", first, "--shard", "1/3"]);
        run(&["--out", second, "--shard", "2/3"]);
        // The remaining runs are done with this folder. The runs in its files are not done again, as after an
        // interruption.
        let third = TempDir::new().unwrap();
        fs::create_dir_all(third.path().join("runs")).unwrap();
        for from in [&folders[2], &folders[3]] {
            for entry in fs::read_dir(from.path().join("runs")).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), third.path().join("runs").join(entry.file_name())).unwrap();
            }
        }
        run(&["--out", third.path().to_str().unwrap()]);
        assert!(files(third.path()) == expected, "{paper}: what went on differs");
    }
}

#[test]
fn what_cannot_be_varied_of_pairs_is_said() {
    for (paper, varied, part) in [
        ("bws", "slow=0", "slow=0: write a number from 0.1 to 1000"),
        ("bws", "again=later", "again=later: write process or in-place"),
        ("bws", "speed=3", "'speed=3' is not one of slow, cg (factors), setup"),
        ("dws", "memory=2000", "memory=2000: write a whole number from 0 to 1000"),
        ("dws", "queue=1", "'queue=1' is not one of slow (a factor), bandwidth"),
    ] {
        let refused = lab().args(["reproduce", paper, "solo", "--vary", varied]).assert().code(2);
        let errors = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(errors.contains(part), "{errors}");
    }
}

#[test]
fn all_policies_have_the_same_mixes() {
    let folder = TempDir::new().unwrap();
    let pictures = folder.path().join("pictures");
    let words = ["reproduce", "all-five", "stationary", "blocks", "--cores", "8", "--runs", "1", "--on", "bare"];
    let plot = ["--plot", pictures.to_str().unwrap()];
    let report = json(lab().args(words).args(plot).arg("--json"));
    assert_eq!(report["schema"], "comity-all-five/2");
    let cells = report["cells"].as_array().unwrap();
    let of = |mix: &str| -> Vec<&str> {
        cells.iter().filter(|cell| cell["mix"] == mix).map(|cell| cell["policy"].as_str().unwrap()).collect()
    };
    let five = ["comity", "bws", "dws", "a-steal", "robinhood"];
    let others = ["equipartition", "abp", "plain"];
    assert_eq!(of("stationary"), [&five[..], &others].concat(), "where no task blocks none is placed");
    assert_eq!(of("blocks"), [&five[..], &["ws-last"], &others].concat());
    for cell in cells {
        let measure = |name: &str| cell["median"][name].as_f64().unwrap();
        assert!((0.3..1.2).contains(&measure("efficiency")) && measure("unfairness") >= 0.0, "{cell}");
        assert!(measure("waste") < 0.5 && measure("idle") < 0.5, "{cell}");
        // Two programs that share a machine take longer than alone.
        assert!(cell["times"].as_array().unwrap().iter().all(|time| time.as_f64().unwrap() > 1.0), "{cell}");
    }
    let drawn: Vec<String> = files(&pictures).into_iter().map(|(name, _)| name).collect();
    let expected = ["efficiency", "idle", "switches", "unfairness", "waste"].map(|name| format!("{name}-bare.svg"));
    assert_eq!(drawn, expected);
    let text = lab().args(words).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    assert!(text.contains("efficiency on a host, 8 cores") && text.contains("unfairness on a host"), "{text}");
}

#[test]
fn what_cannot_be_compared_is_said() {
    let refused = |words: &[&str]| {
        let output = lab().args(["reproduce", "all-five"]).args(words).assert().code(2).get_output().clone();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let bare = refused(&["vms", "--on", "bare"]);
    assert!(bare.contains("vms is a mix of virtual machines"), "{bare}");
    let kernel = refused(&["--vary", "kernel=2.4"]);
    assert!(kernel.contains("is not one of kernel=3.9, kernel=6.18"), "{kernel}");
    let policy = refused(&["--vary", "comity=fast"]);
    assert!(policy.contains("comity=fast: "), "{policy}");
    let cores = refused(&["--cores", "2"]);
    assert!(cores.contains("give a whole number from 8 to 256"), "{cores}");
}
