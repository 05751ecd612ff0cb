//! A film that passes through filters, as a Kahn network. The network renders each scene in bands and splits it into
//! its colours. Each colour is blurred separately, while the edges of the scene are found and coloured. The results
//! are joined and written as pictures.
//!
//! ```text
//!              ┌─▶ render 0 ─┐             ┌─▶ blur red ────────┐
//!     times ───┼─▶ render 1 ─┼─▶ assemble ─┼─▶ blur green ──────┼─▶ join ──┬─▶ write 0
//!              └─▶ render 2 ─┘             ├─▶ blur blue ───────┤          ├─▶ write 1
//!                                          ├─▶ edges ─▶ colour ─┤          └─▶ gif
//!                                          └────────────────────┘
//! ```
//!
//! `cargo run --release -p comity-flow --example frames -- --gif`
//!
//! prints for each stage the number of frames, the time per frame and the share of the total time, and then the
//! folder of the pictures.

use std::error::Error;
use std::f32::consts::TAU;
use std::fs::{self, File};
use std::future::pending;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufReader, BufWriter};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use comity::{Policy, ThreadPool, ThreadPoolBuilder};
use comity_flow::{Network, Receiver, block_on, spawn_blocking};
use futures::try_join;
use gif::Repeat;
use indicatif::{ProgressBar, ProgressStyle};

/// Renders a film through a Kahn network of filters, and compares it with a sequential computation.
#[derive(Parser)]
pub struct Args {
    /// Folder for the pictures, created if missing [default: comity-frames in the system's temporary folder]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Number of pictures; the film is a loop of this length
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..100_000))]
    frames: u32,
    /// Width of a picture, in pixels
    #[arg(long, default_value_t = 320, value_parser = clap::value_parser!(u16).range(8..=4096))]
    width: u16,
    /// Height of a picture, in pixels
    #[arg(long, default_value_t = 180, value_parser = clap::value_parser!(u16).range(8..=4096))]
    height: u16,
    /// Number of processes that render, each one band of every picture
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    bands: u16,
    /// Number of processes that write pictures
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    writers: u16,
    /// Number of values that a channel holds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    capacity: u16,
    /// Write an animated film.gif in addition to the pictures
    #[arg(long)]
    gif: bool,
    /// Number of worker threads [default: the number of cores]
    #[arg(long)]
    workers: Option<usize>,
    /// Policy of the pool, as for COMITY_POLICY; `comity policies` lists them
    #[arg(long, default_value_t)]
    policy: Policy,
}

/// The result of a run.
pub struct Made {
    /// The folder of the pictures.
    pub directory: PathBuf,
    /// The hash of all pixels of all frames. The written pixels and the sequentially computed pixels have this hash.
    pub hash: u64,
    stages: Vec<Arc<Stage>>,
    took: Duration,
    sequentially: Duration,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let made = match run(&args) {
        Ok(made) => made,
        Err(error) => {
            eprintln!("frames: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{:<12} {:>8} {:>12} {:>8}", "stage", "frames", "ms each", "share");
    let all: Duration = made.stages.iter().map(|stage| stage.busy()).sum();
    for stage in &made.stages {
        let frames = stage.frames.load(Ordering::Relaxed);
        let each = stage.busy().as_secs_f64() * 1e3 / frames as f64;
        let share = 100. * stage.busy().as_secs_f64() / all.as_secs_f64();
        println!("{:<12} {frames:>8} {each:>12.3} {share:>7.1}%", stage.name);
    }
    let speed = |took: Duration| f64::from(args.frames) / took.as_secs_f64();
    println!(
        "network: {:.1} frames/s, with writing; sequentially: {:.1} frames/s, without",
        speed(made.took),
        speed(made.sequentially)
    );
    println!("All {} pictures are those of the sequential computation: hash {:016x}.", args.frames, made.hash);
    println!("They are in {}", made.directory.display());
    ExitCode::SUCCESS
}

/// Makes the film, reads the written pictures back, and compares them with a sequential computation.
pub fn run(args: &Args) -> Result<Made, String> {
    let directory = args.out.clone().unwrap_or_else(|| std::env::temp_dir().join("comity-frames"));
    fs::create_dir_all(&directory)
        .map_err(|error| format!("cannot make {}: {error}; name a directory with --out", directory.display()))?;
    let mut builder = ThreadPoolBuilder::new().policy(args.policy);
    if let Some(workers) = args.workers {
        builder = builder.num_threads(workers);
    }
    let pool = builder.build().map_err(|error| format!("no pool of workers: {error}"))?;
    let start = Instant::now();
    let stages = make(&pool, args, &directory)?;
    let took = start.elapsed();
    pool.shutdown();

    let bar = bar("compare", args.frames);
    let mut hasher = DefaultHasher::new();
    let mut sequentially = Duration::ZERO;
    for frame in 0..args.frames {
        let start = Instant::now();
        let expected = args.film().picture(frame);
        sequentially += start.elapsed();
        let path = path(&directory, frame);
        let written = read_png(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        if written != expected {
            return Err(format!("{} is not the picture of the sequential computation", path.display()));
        }
        expected.hash(&mut hasher);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Made { directory, hash: hasher.finish(), stages, took, sequentially })
}

fn path(directory: &Path, frame: u32) -> PathBuf {
    directory.join(format!("frame-{frame:05}.png"))
}

fn read_png(path: &Path) -> Result<Vec<u8>, png::DecodingError> {
    let mut png = png::Decoder::new(BufReader::new(File::open(path)?)).read_info()?;
    let mut pixels = vec![0; png.output_buffer_size().expect("a small picture")];
    png.next_frame(&mut pixels)?;
    Ok(pixels)
}

fn bar(what: &'static str, frames: u32) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg:8} {bar:40} {pos} of {len} frames, {per_sec}").expect("it is a template");
    ProgressBar::new(frames.into()).with_style(style).with_message(what)
}

/// The work of one process so far, for the report. No process reads these counts, so the network stays a Kahn network.
struct Stage {
    name: String,
    frames: AtomicU64,
    nanos: AtomicU64,
}

impl Stage {
    fn does<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.nanos.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.frames.fetch_add(1, Ordering::Relaxed);
        result
    }

    fn busy(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

/// Builds and runs the network.
fn make(pool: &ThreadPool, args: &Args, directory: &Path) -> Result<Vec<Arc<Stage>>, String> {
    let (frames, film, capacity) = (args.frames, args.film(), usize::from(args.capacity));
    let mut stages = Vec::new();
    let mut stage = |name: &str| {
        stages.push(Arc::new(Stage { name: name.to_owned(), frames: AtomicU64::new(0), nanos: AtomicU64::new(0) }));
        Arc::clone(stages.last().expect("it was pushed"))
    };
    let mut network = Network::new();

    let mut times = Vec::new();
    let mut bands = Vec::new();
    for b in 0..args.bands.into() {
        let (time, input) = network.channel(format!("times {b}"), capacity);
        let (band, output) = network.channel(format!("bands {b}"), capacity);
        times.push(time);
        bands.push(output);
        let name = format!("render {b}");
        let stage = stage(&name);
        let rows = b * film.height / usize::from(args.bands)..(b + 1) * film.height / usize::from(args.bands);
        network.process(name, (input, band), move |(mut input, mut band)| async move {
            while let Some(frame) = input.recv().await {
                band.send(stage.does(|| film.render(frame, rows.clone()))).await;
            }
        });
    }
    network.process("times", times, move |mut times| async move {
        for frame in 0..frames {
            for time in &mut times {
                time.send(frame).await;
            }
        }
    });

    let (colours, colour_inputs): (Vec<_>, Vec<_>) =
        COLOURS.map(|colour| network.channel::<Arc<Picture>>(colour, capacity)).into_iter().unzip();
    let (outlines, outlines_input) = network.channel::<Arc<Picture>>("outlines", capacity);
    let (pictures, pictures_input) = network.channel::<Arc<Picture>>("pictures", capacity);
    network.process("assemble", (bands, colours, outlines, pictures), {
        let stage = stage("assemble");
        move |(mut bands, mut colours, mut outlines, mut pictures)| async move {
            'film: loop {
                let mut parts = Vec::new();
                for band in &mut bands {
                    let Some(part) = band.recv().await else { break 'film };
                    parts.push(part);
                }
                let picture = Arc::new(stage.does(|| parts.concat()));
                for colour in &mut colours {
                    colour.send(Arc::clone(&picture)).await;
                }
                outlines.send(Arc::clone(&picture)).await;
                pictures.send(picture).await;
            }
        }
    });

    let mut glows = Vec::new();
    for (c, input) in colour_inputs.into_iter().enumerate() {
        let (glow, output) = network.channel(format!("glow of {}", COLOURS[c]), capacity);
        glows.push(output);
        let name = format!("blur {}", COLOURS[c]);
        let stage = stage(&name);
        network.process(name, (input, glow), move |(mut input, mut glow)| async move {
            while let Some(picture) = input.recv().await {
                glow.send(stage.does(|| film.glow(&picture, c))).await;
            }
        });
    }

    let (edges, edges_input) = network.channel("edges", capacity);
    let (lines, lines_input) = network.channel("lines", capacity);
    network.process("edges", (outlines_input, edges), {
        let stage = stage("edges");
        move |(mut input, mut edges)| async move {
            while let Some(picture) = input.recv().await {
                edges.send(stage.does(|| film.edges(&picture))).await;
            }
        }
    });
    network.process("colour", (edges_input, lines), {
        let stage = stage("colour");
        move |(mut edges, mut lines)| async move {
            for frame in 0.. {
                let Some(edges) = edges.recv().await else { break };
                lines.send(stage.does(|| film.colour(&edges, frame))).await;
            }
        }
    });

    let mut writers = Vec::new();
    let mut written = Vec::new();
    for w in 0..args.writers.into() {
        let (picture, input) = network.channel::<(u32, Arc<Vec<u8>>)>(format!("to writer {w}"), capacity);
        let (done, dones) = network.channel(format!("written by {w}"), capacity);
        writers.push(picture);
        written.push(dones);
        let name = format!("write {w}");
        let (stage, directory) = (stage(&name), directory.to_owned());
        network.process(name, (input, done), move |(mut input, mut done)| async move {
            while let Some((frame, pixels)) = input.recv().await {
                let (stage, path) = (Arc::clone(&stage), path(&directory, frame));
                done.send(spawn_blocking(move || stage.does(|| film.write(&path, &pixels))).await).await;
            }
        });
    }
    let mut gif_done = None;
    let mut to_gif = None;
    if args.gif {
        let (pictures, input) = network.channel::<Arc<Vec<u8>>>("to gif", capacity);
        let (done, dones) = network.channel("gif is done", 1);
        (to_gif, gif_done) = (Some(pictures), Some(dones));
        let (stage, path) = (stage("gif"), directory.join("film.gif"));
        network.process("gif", (input, done), move |(mut input, mut done)| async move {
            let mut bytes = Vec::new();
            let (width, height) = (film.width as u16, film.height as u16);
            let mut gif = gif::Encoder::new(&mut bytes, width, height, &[]).expect("memory can be written to");
            let mut outcome = gif.set_repeat(Repeat::Infinite);
            while let Some(pixels) = input.recv().await {
                outcome = outcome.and_then(|()| stage.does(|| gif.write_frame(&film.frame(&pixels))));
            }
            drop(gif);
            let write = move || {
                let outcome = outcome.and_then(|()| Ok(fs::write(&path, bytes)?));
                outcome.map_err(|error| cannot_write(&path, &error))
            };
            done.send(spawn_blocking(write).await).await;
        });
    }
    network.process("join", (pictures_input, glows, lines_input, writers, to_gif), {
        let stage = stage("join");
        move |(mut pictures, mut glows, mut lines, mut writers, mut to_gif)| async move {
            'film: for frame in 0.. {
                let Some(picture) = pictures.recv().await else { break };
                let mut glow = Vec::new();
                for input in &mut glows {
                    let Some(plane) = input.recv().await else { break 'film };
                    glow.push(plane);
                }
                let Some(lines) = lines.recv().await else { break };
                let pixels = Arc::new(stage.does(|| film.join(&picture, &glow, &lines)));
                if let Some(to_gif) = &mut to_gif {
                    to_gif.send(Arc::clone(&pixels)).await;
                }
                // Take turns: a Kahn process cannot ask which writer is free.
                let turn = frame as usize % writers.len();
                writers[turn].send((frame, pixels)).await;
            }
        }
    });

    let watch = async {
        let bar = bar("network", frames);
        for frame in 0..frames as usize {
            let turn = frame % written.len();
            next(&mut written[turn]).await?;
            bar.inc(1);
        }
        if let Some(done) = &mut gif_done {
            next(done).await?;
        }
        bar.finish_and_clear();
        Ok(())
    };
    // If one future returns an error, `try_join!` drops the other future, and the network with it.
    let run = async { network.run_in(pool).await.map_err(|failure| failure.to_string()) };
    block_on(async { try_join!(run, watch) })?;
    Ok(stages)
}

/// Returns the next value. If the stream ends early, the network has failed and reports why, so this never returns.
async fn next<T>(input: &mut Receiver<T>) -> T {
    match input.recv().await {
        Some(value) => value,
        None => pending().await,
    }
}

fn cannot_write(path: &Path, error: &dyn Error) -> String {
    format!("cannot write {}: {error}; is there room, and may you write there?", path.display())
}

const COLOURS: [&str; 3] = ["red", "green", "blue"];

type Vector = [f32; 3];

/// Red, green and blue of each pixel, row by row. 1 is the full brightness of a screen.
type Picture = Vec<Vector>;

/// A value for each pixel.
type Plane = Vec<f32>;

/// The size of a film, and its filters. The network and the sequential computation both use these filters.
#[derive(Clone, Copy)]
struct Film {
    width: usize,
    height: usize,
    frames: u32,
}

impl Film {
    /// Computes one picture sequentially.
    fn picture(&self, frame: u32) -> Vec<u8> {
        let picture = self.render(frame, 0..self.height);
        let glows: Vec<Plane> = (0..3).map(|colour| self.glow(&picture, colour)).collect();
        let lines = self.colour(&self.edges(&picture), frame);
        self.join(&picture, &glows, &lines)
    }

    /// Renders the given rows of the scene.
    fn render(&self, frame: u32, rows: Range<usize>) -> Picture {
        let scene = Scene::at(frame as f32 / self.frames as f32);
        let (width, height) = (self.width as f32, self.height as f32);
        let pixel = |(x, y)| scene.look([(2. * x as f32 - width) / height, 1. - 2. * y as f32 / height]);
        rows.flat_map(|y| (0..self.width).map(move |x| (x, y))).map(pixel).collect()
    }

    /// Returns one colour of the bright parts, blurred by a Gaussian along the rows and then along the columns.
    fn glow(&self, picture: &[Vector], colour: usize) -> Plane {
        let bright: Plane = picture.iter().map(|pixel| (pixel[colour] - 0.45).max(0.)).collect();
        let radius = (self.height / 16).max(1);
        let weights: Vec<f32> =
            (0..=2 * radius).map(|i| (-2. * ((i as f32 - radius as f32) / radius as f32).powi(2)).exp()).collect();
        let sum: f32 = weights.iter().sum();
        let blurred = |plane: &[f32], across: bool| -> Plane {
            let pixel = |at: usize| {
                let (x, y) = (at % self.width, at / self.width);
                let value = |(i, weight): (usize, &f32)| {
                    // Outside of the picture, repeat the pixel at its border.
                    let near = |at: usize, end: usize| (at + i).saturating_sub(radius).min(end - 1);
                    let (x, y) = if across { (near(x, self.width), y) } else { (x, near(y, self.height)) };
                    weight * plane[y * self.width + x]
                };
                weights.iter().enumerate().map(value).sum::<f32>() / sum
            };
            (0..plane.len()).map(pixel).collect()
        };
        blurred(&blurred(&bright, true), false)
    }

    /// Returns the gradient of the brightness, by Sobel's operator.
    fn edges(&self, picture: &[Vector]) -> Plane {
        let brightness: Plane = picture.iter().map(|[red, green, blue]| 0.3 * red + 0.6 * green + 0.1 * blue).collect();
        let steepness = |at: usize| {
            let (x, y) = (at % self.width, at / self.width);
            let (left, right) = (x.saturating_sub(1), (x + 1).min(self.width - 1));
            let (above, below) = (y.saturating_sub(1), (y + 1).min(self.height - 1));
            let value = |x: usize, y: usize| brightness[y * self.width + x];
            let column = |x| value(x, above) + 2. * value(x, y) + value(x, below);
            let row = |y| value(left, y) + 2. * value(x, y) + value(right, y);
            (column(right) - column(left)).hypot(row(below) - row(above))
        };
        (0..picture.len()).map(steepness).collect()
    }

    /// Colours the edges. The colours move through the picture and return to their start when the film ends.
    fn colour(&self, edges: &[f32], frame: u32) -> Picture {
        let time = frame as f32 / self.frames as f32;
        let pixel = |(at, steep): (usize, &f32)| {
            let strength = (0.8 * steep - 0.15).clamp(0., 1.);
            hue((at % self.width) as f32 / self.width as f32 + time).map(|light| strength * light)
        };
        edges.iter().enumerate().map(pixel).collect()
    }

    /// Adds the scene, the glows and the coloured edges, and returns bytes of red, green and blue.
    fn join(&self, picture: &[Vector], glows: &[Plane], lines: &[Vector]) -> Vec<u8> {
        let byte = |light: f32| (255. * (1. - (-1.6 * light).exp()).clamp(0., 1.).powf(0.8)) as u8;
        let pixel = |at: usize| [0, 1, 2].map(|c| byte(picture[at][c] + 1.2 * glows[c][at] + 0.7 * lines[at][c]));
        (0..picture.len()).flat_map(pixel).collect()
    }

    fn write(&self, path: &Path, pixels: &[u8]) -> Result<(), String> {
        let write = || -> Result<(), png::EncodingError> {
            let file = BufWriter::new(File::create(path)?);
            let mut png = png::Encoder::new(file, self.width as u32, self.height as u32);
            png.set_color(png::ColorType::Rgb);
            let mut png = png.write_header()?;
            png.write_image_data(pixels)?;
            png.finish()
        };
        write().map_err(|error| cannot_write(path, &error))
    }

    /// Encodes a frame of a film with 25 frames a second.
    fn frame(&self, pixels: &[u8]) -> gif::Frame<'static> {
        let hundredths = 4;
        let frame = gif::Frame::from_rgb_speed(self.width as u16, self.height as u16, pixels, 10);
        gif::Frame { delay: hundredths, ..frame }
    }
}

impl Args {
    fn film(&self) -> Film {
        Film { width: self.width.into(), height: self.height.into(), frames: self.frames }
    }
}

/// Returns a colour of the rainbow. The period of `at` is 1.
fn hue(at: f32) -> Vector {
    [0., 0.33, 0.67].map(|shift| 0.5 + 0.5 * (TAU * (at + shift)).cos())
}

/// A scene: drops that melt into each other, and a ring around them.
struct Scene {
    drops: [Vector; 5],
    tilt: (f32, f32),
    time: f32,
}

impl Scene {
    /// Returns the scene at `time`, which runs from 0 to 1. The scenes at 0 and 1 are equal.
    fn at(time: f32) -> Scene {
        let drop = |nth: usize| {
            let (angle, own) = (TAU * (time + nth as f32 / 5.), TAU * (2. * time + 0.37 * nth as f32));
            [1.1 * angle.cos(), 0.6 * own.sin(), 0.9 * angle.sin() * own.cos()]
        };
        Scene { drops: [0, 1, 2, 3, 4].map(drop), tilt: (TAU * time).sin_cos(), time }
    }

    /// Returns a lower bound of the distance to the nearest surface.
    fn distance(&self, point: Vector) -> f32 {
        // A sum of exponentials gives a smooth minimum.
        let melted: f32 = self.drops.iter().map(|drop| (-6. * (length(minus(point, *drop)) - 0.42)).exp()).sum();
        let [x, y, z] = point;
        let (sin, cos) = self.tilt;
        let (y, z) = (cos * y - sin * z, sin * y + cos * z);
        let ring = (x.hypot(z) - 1.75).hypot(y) - 0.09;
        ring.min(-melted.max(f32::MIN_POSITIVE).ln() / 6.)
    }

    /// Returns the colour seen in direction (x, y), by sphere tracing (Hart 1996).
    fn look(&self, [x, y]: [f32; 2]) -> Vector {
        let eye = [0., 0., -4.5];
        let ray = unit([x, y, 3.]);
        let mut far = 2.;
        for _ in 0..48 {
            let point = plus(eye, ray, far);
            let near = self.distance(point);
            if near < 0.002 {
                return self.shine(point, ray);
            }
            far += near;
            if far > 8. {
                break;
            }
        }
        let sky = 0.06 + 0.05 * (y + 1.);
        [0.5 * sky, 0.6 * sky, 1.3 * sky]
    }

    fn shine(&self, point: Vector, ray: Vector) -> Vector {
        let slope = |axis: usize| {
            let (mut before, mut after) = (point, point);
            (before[axis], after[axis]) = (point[axis] - 0.001, point[axis] + 0.001);
            self.distance(after) - self.distance(before)
        };
        let normal = unit([slope(0), slope(1), slope(2)]);
        let sun = unit([0.6, 0.8, -0.7]);
        let light = dot(normal, sun).max(0.);
        let rim = (1. + dot(normal, ray)).clamp(0., 1.).powi(3);
        let mirrored = plus(ray, normal, -2. * dot(ray, normal));
        let gloss = dot(mirrored, sun).max(0.).powi(40);
        hue(0.25 * point[0] + 0.2 * normal[1] + self.time)
            .map(|colour| colour * (0.12 + 0.75 * light) + 0.5 * rim + 0.9 * gloss)
    }
}

fn plus([x, y, z]: Vector, [a, b, c]: Vector, times: f32) -> Vector {
    [x + times * a, y + times * b, z + times * c]
}

fn minus(left: Vector, right: Vector) -> Vector {
    plus(left, right, -1.)
}

fn dot([x, y, z]: Vector, [a, b, c]: Vector) -> f32 {
    x * a + y * b + z * c
}

fn length(vector: Vector) -> f32 {
    dot(vector, vector).sqrt()
}

fn unit(vector: Vector) -> Vector {
    let length = length(vector);
    vector.map(|part| part / length)
}
