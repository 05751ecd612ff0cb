//! Word count, the first example of the MapReduce paper, as a Kahn network: counts the words of all files in a
//! directory. Blocking calls read the files on their own threads, while the workers count.
//!
//! ```text
//!               ┌─▶ map 0 ─┬─▶ reduce 0 ─┐
//!     scatter ──┤          ╳             ├─▶ gather
//!               └─▶ map 1 ─┴─▶ reduce 1 ─┘
//! ```
//!
//! `cargo run --release -p comity-flow --example word_count -- docs/decisions --top 3`
//!
//! prints the most frequent words, the totals, and the times of the network and of one thread:
//!
//! ```text
//!     1087  the
//!     1063  a
//!      585  is
//! 20789 words, 1866 different ones, in 40 files with 118077 bytes
//! network: 46.5ms; sequentially: 8.8ms. The counts are the same.
//! ```

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::future::pending;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use comity::{Policy, ThreadPool, ThreadPoolBuilder};
use comity_flow::{Network, Receiver, block_on, spawn_blocking};
use futures::try_join;
use indicatif::{ProgressBar, ProgressStyle};
use walkdir::WalkDir;

/// Counts the words of all files in a directory with a Kahn network, and compares with a sequential count.
#[derive(Parser)]
pub struct Args {
    /// The directory to read, including all folders below it; bytes that are not UTF-8 are skipped
    #[arg(default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))]
    directory: PathBuf,
    /// Number of processes that read files and count words
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    mappers: u16,
    /// Number of processes that add counts up, each for its share of the words
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    reducers: u16,
    /// Number of values that a channel holds
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    capacity: u16,
    /// Number of words to show
    #[arg(long, default_value_t = 20)]
    top: usize,
    /// Number of worker threads [default: the number of cores]
    #[arg(long)]
    workers: Option<usize>,
    /// Policy of the pool, as for COMITY_POLICY; `comity policies` lists them
    #[arg(long, default_value_t)]
    policy: Policy,
}

/// The number of occurrences of each word.
type Counts = HashMap<String, u64>;

/// The result of a count.
pub struct Counted {
    /// The number of files.
    pub files: usize,
    /// The total size of all files, in bytes.
    pub bytes: u64,
    /// The words and their counts, the most frequent first.
    pub words: Vec<(String, u64)>,
    took: Duration,
    sequentially: Duration,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let counted = match run(&args) {
        Ok(counted) => counted,
        Err(error) => {
            eprintln!("word_count: {error}");
            return ExitCode::FAILURE;
        }
    };
    for (word, count) in counted.words.iter().take(args.top) {
        println!("{count:>8}  {word}");
    }
    let total: u64 = counted.words.iter().map(|(_, count)| count).sum();
    println!(
        "{total} words, {} different ones, in {} files with {} bytes",
        counted.words.len(),
        counted.files,
        counted.bytes
    );
    println!("network: {:.1?}; sequentially: {:.1?}. The counts are the same.", counted.took, counted.sequentially);
    ExitCode::SUCCESS
}

/// Counts the words with a network, then with one thread, and compares the results.
pub fn run(args: &Args) -> Result<Counted, String> {
    let files = files(&args.directory)?;
    let mut builder = ThreadPoolBuilder::new().policy(args.policy);
    if let Some(workers) = args.workers {
        builder = builder.num_threads(workers);
    }
    let pool = builder.build().map_err(|error| format!("no pool of workers: {error}"))?;
    let start = Instant::now();
    let (bytes, words) = count(&pool, args, &files)?;
    let took = start.elapsed();
    pool.shutdown();

    let start = Instant::now();
    let mut expected = Counts::new();
    for file in files.iter() {
        count_words(&read(file)?, |word| *expected.entry(word).or_default() += 1);
    }
    let expected = sorted(expected);
    let sequentially = start.elapsed();
    if words != expected {
        return Err(
            "the network and the sequential count differ; was a file changed in between? Then run it again".into()
        );
    }
    Ok(Counted { files: files.len(), bytes, words, took, sequentially })
}

/// Builds and runs the network. Returns the number of bytes read, and the words.
fn count(pool: &ThreadPool, args: &Args, files: &Arc<[PathBuf]>) -> Result<(u64, Vec<(String, u64)>), String> {
    let (mappers, reducers, capacity) = (args.mappers.into(), args.reducers.into(), args.capacity.into());
    let mut network = Network::new();

    // File k goes to mapper k % mappers: a Kahn process cannot ask which mapper is free.
    let (names, inputs): (Vec<_>, Vec<_>) =
        (0..mappers).map(|m| network.channel(format!("names {m}"), capacity)).unzip();
    let all = Arc::clone(files);
    network.process("scatter", names, move |mut names| async move {
        for (nth, file) in all.iter().enumerate() {
            names[nth % mappers].send(file.clone()).await;
        }
    });

    let mut shuffled: Vec<Vec<Receiver<Counts>>> = (0..reducers).map(|_| Vec::new()).collect();
    let mut sizes: Vec<Receiver<Result<u64, String>>> = Vec::new();
    for (m, names) in inputs.into_iter().enumerate() {
        let (size, sizes_of_m) = network.channel(format!("sizes {m}"), capacity);
        sizes.push(sizes_of_m);
        let mut outputs = Vec::new();
        for (r, inputs) in shuffled.iter_mut().enumerate() {
            let (output, input) = network.channel(format!("counts {m} to {r}"), capacity);
            outputs.push(output);
            inputs.push(input);
        }
        network.process(format!("map {m}"), (names, size, outputs), |(mut names, mut size, mut outputs)| async move {
            while let Some(file) = names.recv().await {
                let content = match spawn_blocking(move || read(&file)).await {
                    Ok(content) => content,
                    Err(error) => return size.send(Err(error)).await,
                };
                size.send(Ok(content.len() as u64)).await;
                let mut counts = vec![Counts::new(); outputs.len()];
                count_words(&content, |word| {
                    let reducer = share_of(&word, counts.len());
                    *counts[reducer].entry(word).or_default() += 1;
                });
                // Send one message for each file, even if empty, so that the reducers know which mapper is next.
                for (output, counts) in outputs.iter_mut().zip(counts) {
                    output.send(counts).await;
                }
            }
        });
    }

    let mut totals = Vec::new();
    for (r, inputs) in shuffled.into_iter().enumerate() {
        let (total, total_of_r) = network.channel(format!("total {r}"), 1);
        totals.push(total_of_r);
        network.process(format!("reduce {r}"), (inputs, total), |(mut inputs, mut total)| async move {
            let mut sum = Counts::new();
            // Read the mappers in the order of the files. Reading one mapper to its end first would be a deadlock: the
            // other mappers could not send their counts, so 'scatter' could not send the next name to the first mapper.
            for turn in (0..inputs.len()).cycle() {
                let Some(counts) = inputs[turn].recv().await else { break };
                for (word, count) in counts {
                    *sum.entry(word).or_default() += count;
                }
            }
            total.send(sum).await;
        });
    }

    let gather = async {
        let bar = ProgressBar::new(files.len() as u64)
            .with_style(ProgressStyle::with_template("{bar:40} {pos} of {len} files").expect("it is a template"));
        let mut bytes = 0;
        for nth in 0..files.len() {
            bytes += next(&mut sizes[nth % mappers]).await?;
            bar.inc(1);
        }
        let mut words = Counts::new();
        for total in &mut totals {
            words.extend(next(total).await);
        }
        bar.finish_and_clear();
        Ok((bytes, sorted(words)))
    };
    // If one future returns an error, `try_join!` drops the other future, and the network with it.
    let run = async { network.run_in(pool).await.map_err(|failure| failure.to_string()) };
    let ((), counted) = block_on(async { try_join!(run, gather) })?;
    Ok(counted)
}

/// Returns the next value. If the stream ends early, the network has failed and reports why, so this never returns.
async fn next<T>(input: &mut Receiver<T>) -> T {
    match input.recv().await {
        Some(value) => value,
        None => pending().await,
    }
}

/// Returns all files in the directory and in the folders below it, in the order of their names.
fn files(directory: &Path) -> Result<Arc<[PathBuf]>, String> {
    let mut files = Vec::new();
    for entry in WalkDir::new(directory).sort_by_file_name() {
        let entry = entry.map_err(|error| {
            let path = error.path().unwrap_or(directory).display().to_string();
            let cause = error.into_io_error().map_or_else(|| "it is a loop".to_owned(), |error| error.to_string());
            format!("cannot look into {path}: {cause}; name a directory that you may read")
        })?;
        if entry.file_type().is_file() {
            files.push(entry.into_path());
        }
    }
    if files.is_empty() {
        return Err(format!("there are no files in {}; name a directory with texts", directory.display()));
    }
    Ok(files.into())
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// Calls `count` for each word in lower case: letters, digits and inner apostrophes, with at least one letter.
fn count_words(content: &[u8], mut count: impl FnMut(String)) {
    let text = String::from_utf8_lossy(content);
    let runs = text.split(|c: char| !c.is_alphanumeric() && c != '\'').map(|run| run.trim_matches('\''));
    let words = runs.filter(|run| run.contains(char::is_alphabetic));
    words.for_each(|word| count(word.to_lowercase()));
}

/// Returns the index of the reducer that adds up a word.
fn share_of(word: &str, reducers: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    (hasher.finish() % reducers as u64) as usize
}

/// Sorts words by descending count, and words of equal count alphabetically.
fn sorted(counts: Counts) -> Vec<(String, u64)> {
    let mut words: Vec<_> = counts.into_iter().collect();
    words.sort_by(|(left, often), (right, seldom)| seldom.cmp(often).then_with(|| left.cmp(right)));
    words
}
