//! The examples do what they say, compare it with a sequential computation, and say what is wrong.
#![cfg(not(loom))]
// Their `main`.
#![allow(dead_code)]

#[path = "../examples/frames.rs"]
mod frames;
#[path = "../examples/word_count.rs"]
mod word_count;

use std::fs;
use std::path::Path;

use clap::Parser;

fn film(frames: &str, out: &Path, more: &str) -> Result<frames::Made, String> {
    let size = ["frames", "--width", "40", "--height", "24", "--frames", frames, "--out", out.to_str().unwrap()];
    let arguments = size.into_iter().chain(more.split_whitespace());
    frames::run(&frames::Args::try_parse_from(arguments).unwrap())
}

fn word_count(directory: &Path, more: &str) -> Result<word_count::Counted, String> {
    let arguments = ["word_count", directory.to_str().unwrap()].into_iter().chain(more.split_whitespace());
    word_count::run(&word_count::Args::try_parse_from(arguments).unwrap())
}

#[test]
fn a_film_is_the_same_however_it_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("new");
    let hash = film("7", &out, "--workers 1 --capacity 1").unwrap().hash;
    // `run` has compared all of them with the sequential computation.
    assert_eq!(fs::read_dir(&out).unwrap().count(), 7);
    for more in ["--workers 4 --bands 3 --writers 3 --gif", "--workers 2 --bands 64 --policy ws-last", "--policy plain"]
    {
        assert_eq!(film("7", &out, more).unwrap().hash, hash, "{more}");
    }
    assert_eq!(&fs::read(out.join("film.gif")).unwrap()[..6], b"GIF89a");
}

#[test]
fn a_film_that_can_not_be_written_is_an_error_that_names_the_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let error = film("7", &file.join("below"), "").err().unwrap();
    assert!(error.starts_with(&format!("cannot make {}", file.display())) && error.ends_with("--out"), "{error}");
    // A picture in the middle: the network is stopped, also where it would go on.
    let picture = directory.path().join("frame-00003.png");
    fs::create_dir(&picture).unwrap();
    let error = film("5000", directory.path(), "").err().unwrap();
    assert!(error.starts_with(&format!("cannot write {}", picture.display())), "{error}");
}

#[test]
fn words_are_counted_the_same_however_they_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("below")).unwrap();
    for nth in 0..20 {
        let text = format!("The thief, 'the' victim; THE task{} 42\n", nth % 4).repeat(nth);
        fs::write(directory.path().join(format!("{nth}.txt")), text).unwrap();
    }
    fs::write(directory.path().join("below/empty"), "").unwrap();
    fs::write(directory.path().join("below/bytes"), b"thief\xff\xfevictim").unwrap();
    for more in [
        "--workers 1 --capacity 1",
        "--workers 4 --mappers 7 --reducers 5",
        "--mappers 1 --reducers 1",
        "--policy ws-last",
    ] {
        let counted = word_count(directory.path(), more).unwrap();
        assert_eq!(counted.files, 22, "{more}");
        let expected =
            [("the", 570), ("thief", 191), ("victim", 191), ("task3", 55), ("task2", 50), ("task1", 45), ("task0", 40)];
        assert_eq!(counted.words, expected.map(|(word, count)| (word.to_owned(), count)), "{more}");
    }
}

#[test]
fn a_directory_that_can_not_be_read_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let error = |path: &Path| word_count(path, "").err().unwrap();
    let nowhere = directory.path().join("nowhere");
    assert!(error(&nowhere).starts_with(&format!("cannot look into {}", nowhere.display())), "{}", error(&nowhere));
    assert!(error(directory.path()).starts_with("there are no files in "));
}
