//! Tests of the examples: their output, their agreement with a sequential computation, and their error messages.
#![cfg(not(loom))]
// The examples' `main` functions are unused here.
#![allow(dead_code)]

#[path = "../examples/frames.rs"]
mod frames;
#[path = "../examples/server.rs"]
mod server;
#[path = "../examples/sieve.rs"]
mod sieve;
#[path = "../examples/thumbnails.rs"]
mod thumbnails;
#[path = "../examples/word_count.rs"]
mod word_count;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
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
    // `run` has compared all pictures with the sequential computation.
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
    // Writing fails in the middle of a film: the network stops although other processes could continue.
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

#[test]
fn a_server_gives_right_answers_to_all_and_is_not_led_astray() {
    for more in ["--clients 3 --requests 2 --workers 1", "--clients 5 --requests 1 --workers 4 --policy ws-last"] {
        let arguments = ["server"].into_iter().chain(more.split_whitespace());
        let args = server::Args::try_parse_from(arguments).unwrap();
        // In addition to the program's own clients, one client sends an invalid request and another sends nothing.
        let mut others = Vec::new();
        let mut said = String::new();
        let told = server::run(&args, |address| {
            let mut nonsense = TcpStream::connect(address).unwrap();
            nonsense.write_all(b"10\nx\n").unwrap();
            others.push(std::thread::spawn(move || {
                let mut answers = String::new();
                nonsense.read_to_string(&mut answers).unwrap();
                answers
            }));
        });
        let told = told.unwrap();
        others.into_iter().for_each(|other| said += &other.join().unwrap());
        assert_eq!(said, "4\na number from 0 to 500000 is wanted\n", "{more}");
        let expected = if more.contains("--requests 2") { 6 } else { 5 };
        assert_eq!((told.answers, told.last), (expected, (500_000, 41_538)), "{more}");
    }
}

#[test]
fn a_sieve_finds_the_same_primes_however_it_is_run() {
    let find = |more: &str| {
        let arguments = ["sieve"].into_iter().chain(more.split_whitespace());
        sieve::run(&sieve::Args::try_parse_from(arguments).unwrap()).unwrap()
    };
    for more in ["--workers 1 --batch 1 --capacity 1", "--workers 4 --batch 7", "--batch 60000 --policy ws-last"] {
        // `run` has compared the primes with the sieve of Eratosthenes.
        let found = find(&format!("--below 2000 {more}"));
        assert_eq!((found.primes.len(), found.sieves, found.primes.last()), (303, 14, Some(&1999)), "{more}");
    }
    // Limits that are a prime, the square of a prime, and too small for any prime.
    let primes = [0, 1, 2, 3, 4, 5, 9, 10, 25, 26].map(|below| find(&format!("--below {below}")).primes.len());
    assert_eq!(primes, [0, 0, 0, 1, 2, 2, 4, 4, 9, 9]);
}

/// Writes a picture whose left and right halves have different colours.
fn two_colours(path: &Path, width: u32, height: u32) {
    let file = fs::File::create(path).unwrap();
    let mut encoder = png::Encoder::new(file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let colour = |x: u32| if x < width / 2 { [200, 100, 0] } else { [0, 50, 250] };
    let bytes: Vec<u8> = (0..height).flat_map(|_| (0..width).flat_map(colour)).collect();
    encoder.write_header().unwrap().write_image_data(&bytes).unwrap();
}

fn size_and_bytes(path: &Path) -> ((u32, u32), Vec<u8>) {
    let file = std::io::BufReader::new(fs::File::open(path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    ((info.width, info.height), bytes)
}

#[test]
fn thumbnails_are_made_of_all_pictures_and_what_is_none_is_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    fs::create_dir_all(from.join("a folder.png")).unwrap();
    fs::write(from.join("a.text"), "no picture by its name").unwrap();
    fs::write(from.join("b.png"), "no picture").unwrap();
    two_colours(&from.join("c.PNG"), 4, 2);
    for nth in 0..20 {
        two_colours(&from.join(format!("d{nth:02}.png")), 80 + 2 * nth, 40 + nth);
    }
    two_colours(&from.join("e.png"), 10, 1000);
    for more in ["--workers 1 --size 8", "--workers 4 --size 8 --policy ws-last"] {
        let arguments = ["thumbnails", from.to_str().unwrap(), to.to_str().unwrap()];
        let arguments = arguments.into_iter().chain(more.split_whitespace());
        let args = thumbnails::Args::try_parse_from(arguments).unwrap();
        let mut done = 0;
        let mut all = thumbnails::run(&args, |_| done += 1).unwrap();
        all.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        assert_eq!((done, all.len()), (23, 23), "{more}");
        let why = all[0].outcome.as_ref().unwrap_err();
        assert!(all[0].name == "b.png" && why.starts_with("it is no PNG picture"), "{why}");
        assert_eq!(all[1].outcome, Ok([(4, 2); 2]), "{more}: it is small enough");
        assert_eq!(all[2].outcome, Ok([(80, 40), (8, 4)]), "{more}");
        assert_eq!(all[22].outcome, Ok([(10, 1000), (1, 8)]), "{more}");
        assert!(!to.join("b.png").exists());
        let half = [[200, 100, 0]; 4].concat();
        let row = [half, [[0, 50, 250]; 4].concat()].concat();
        for nth in 0..20 {
            assert_eq!(size_and_bytes(&to.join(format!("d{nth:02}.png"))), ((8, 4), row.repeat(4)), "{nth}, {more}");
        }
        // A picture of one column has both colours in this column.
        assert_eq!(size_and_bytes(&to.join("e.png")).1, [100, 75, 125].repeat(8));
    }
    let error = thumbnails::run(
        &thumbnails::Args::try_parse_from(["thumbnails", to.join("no").to_str().unwrap(), "x"]).unwrap(),
        |_| (),
    );
    assert!(error.err().unwrap().starts_with("cannot look into "));
}
