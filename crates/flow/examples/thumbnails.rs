//! Thumbnails of a folder of PNG pictures. Blocking calls read and write files on their own threads. Meanwhile the
//! workers decode, shrink and encode other pictures, and process the rows of each picture in parallel.
//!
//! `cargo run --release -p comity-flow --example thumbnails -- PICTURES THUMBNAILS --size 160`
//!
//! The program prints a line for each picture as soon as it is finished, and then a summary:
//!
//! ```text
//! harbour.png: 4000 x 3000 to 160 x 120
//! notes.png: skipped, for it is no PNG picture: Invalid PNG signature.
//! tower.png: 3000 x 4000 to 120 x 160
//! 2 thumbnails of 3 files are in THUMBNAILS
//! ```

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use comity::{Policy, ThreadPool, ThreadPoolBuilder};
use comity_flow::{JoinSet, block_on, spawn_blocking};
use walkdir::WalkDir;

/// Makes thumbnails of all PNG pictures in a folder.
#[derive(Parser)]
pub struct Args {
    /// Folder with the pictures; files not called *.png are ignored
    pictures: PathBuf,
    /// Folder for the thumbnails, which keep their names; created if missing
    thumbnails: PathBuf,
    /// Longer side of a thumbnail, in pixels; smaller pictures keep their size
    #[arg(long, default_value_t = 160, value_parser = clap::value_parser!(u32).range(1..=4096))]
    size: u32,
    /// Number of worker threads [default: the number of cores]
    #[arg(long)]
    workers: Option<usize>,
    /// Policy of the pool, as for COMITY_POLICY; `comity policies` lists them
    #[arg(long, default_value_t)]
    policy: Policy,
}

/// The outcome for one file.
pub struct Made {
    /// The name of the file.
    pub name: String,
    /// The sizes of the picture and of its thumbnail, or the reason why there is no thumbnail.
    pub outcome: Result<[(u32, u32); 2], String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = |made: &Made| match &made.outcome {
        Ok([(width, height), (to_width, to_height)]) => {
            println!("{}: {width} x {height} to {to_width} x {to_height}", made.name);
        }
        Err(why) => println!("{}: skipped, for {why}", made.name),
    };
    match run(&args, done) {
        Ok(all) => {
            let thumbnails = all.iter().filter(|made| made.outcome.is_ok()).count();
            println!("{thumbnails} thumbnails of {} files are in {}", all.len(), args.thumbnails.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("thumbnails: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the thumbnails, and calls `done` after each thumbnail.
pub fn run(args: &Args, mut done: impl FnMut(&Made)) -> Result<Vec<Made>, String> {
    let names = names(&args.pictures)?;
    fs::create_dir_all(&args.thumbnails)
        .map_err(|error| format!("cannot make {}: {error}; name a folder", args.thumbnails.display()))?;
    let mut builder = ThreadPoolBuilder::new().policy(args.policy);
    if let Some(workers) = args.workers {
        builder = builder.num_threads(workers);
    }
    let pool = builder.build().map_err(|error| format!("no pool of workers: {error}"))?;
    let all = block_on(make(&pool, args, names, &mut done));
    pool.shutdown();
    Ok(all)
}

/// Runs a task for each picture. The number of concurrent tasks is high enough that file access overlaps with
/// computation, and low enough that all of their pictures fit in memory.
async fn make(pool: &ThreadPool, args: &Args, names: Vec<String>, done: &mut impl FnMut(&Made)) -> Vec<Made> {
    let most = 4 * pool.current_num_threads();
    let folders = Arc::new((args.pictures.clone(), args.thumbnails.clone()));
    let (size, mut all, mut tasks) = (args.size, Vec::with_capacity(names.len()), JoinSet::new());
    let mut names = names.into_iter();
    loop {
        while tasks.len() < most
            && let Some(name) = names.next()
        {
            let folders = Arc::clone(&folders);
            tasks.spawn_in(pool, async move {
                let outcome = thumbnail(folders.0.join(&name), folders.1.join(&name), size).await;
                Made { name, outcome }
            });
        }
        let Some(made) = tasks.join_next().await else { return all };
        done(&made);
        all.push(made);
    }
}

async fn thumbnail(from: PathBuf, to: PathBuf, size: u32) -> Result<[(u32, u32); 2], String> {
    let bytes = spawn_blocking(move || fs::read(from)).await.map_err(|error| format!("it cannot be read: {error}"))?;
    let picture = Picture::decode(bytes).map_err(|error| format!("it is no PNG picture: {error}"))?;
    let small = picture.shrink(size);
    let sizes = [&picture, &small].map(|picture| (picture.width, picture.height));
    let bytes = small.encode().map_err(|error| format!("its thumbnail cannot be encoded: {error}"))?;
    let write = move || fs::write(&to, bytes).map_err(|error| format!("{} cannot be written: {error}", to.display()));
    spawn_blocking(write).await?;
    Ok(sizes)
}

/// Returns the names of the files in the folder that are called *.png, in order.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for entry in WalkDir::new(folder).min_depth(1).max_depth(1).sort_by_file_name() {
        let entry = entry
            .map_err(|error| format!("cannot look into {}: {error}; name a folder of pictures", folder.display()))?;
        let is_png = entry.path().extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
        if let Some(name) = entry.file_name().to_str().filter(|_| is_png && !entry.file_type().is_dir()) {
            names.push(name.to_owned());
        }
    }
    if names.is_empty() { Err(format!("there is no *.png in {}", folder.display())) } else { Ok(names) }
}

/// A picture: rows of pixels, each of one to four bytes.
struct Picture {
    width: u32,
    height: u32,
    colours: png::ColorType,
    bytes: Vec<u8>,
}

impl Picture {
    fn decode(file: Vec<u8>) -> Result<Picture, png::DecodingError> {
        let mut decoder = png::Decoder::new(Cursor::new(file));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info()?;
        let mut bytes = vec![0; reader.output_buffer_size().ok_or(png::DecodingError::LimitsExceeded)?];
        let info = reader.next_frame(&mut bytes)?;
        bytes.truncate(info.buffer_size());
        Ok(Picture { width: info.width, height: info.height, colours: info.color_type, bytes })
    }

    /// Returns a smaller picture, each pixel of which is the mean of the pixels that it replaces.
    fn shrink(&self, size: u32) -> Picture {
        let longer = self.width.max(self.height).max(size);
        let scaled = |side: u32| (u64::from(side) * u64::from(size) / u64::from(longer)).max(1) as u32;
        let (width, height) = (scaled(self.width), scaled(self.height));
        let samples = self.colours.samples();
        let mut bytes = vec![0; width as usize * height as usize * samples];
        // The range of pixels of the picture that one pixel of the thumbnail replaces.
        let span = |at: usize, small: u32, large: u32| {
            let edge = |at: usize| at * large as usize / small as usize;
            edge(at)..edge(at + 1)
        };
        comity::scope(|scope| {
            for (y, row) in bytes.chunks_mut(width as usize * samples).enumerate() {
                scope.spawn(move |_| {
                    let rows = span(y, height, self.height);
                    for (x, pixel) in row.chunks_mut(samples).enumerate() {
                        let columns = span(x, width, self.width);
                        for (sample, mean) in pixel.iter_mut().enumerate() {
                            let value = |x: usize, y: usize| {
                                u64::from(self.bytes[(y * self.width as usize + x) * samples + sample])
                            };
                            let sum: u64 = rows.clone().flat_map(|y| columns.clone().map(move |x| value(x, y))).sum();
                            *mean = (sum / (rows.len() * columns.len()) as u64) as u8;
                        }
                    }
                });
            }
        });
        Picture { width, height, colours: self.colours, bytes }
    }

    fn encode(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width, self.height);
        encoder.set_color(self.colours);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.bytes)?;
        writer.finish()?;
        Ok(file)
    }
}
