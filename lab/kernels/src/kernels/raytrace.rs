//! A recursive ray tracer. A pixel costs one ray to hundreds of rays, so that equal parts of the picture are not
//! equal work.
//!
//! RayTracer of the BWS paper (section 5.1: 800 x 600 pixels, 4 rays each). As in Whitted's "An improved illumination
//! model for shaded display" (CACM 1980), reflection, refraction and shadow rays start from every hit. The picture
//! can be written to a file (`out=picture.png`). All arithmetic is that of IEEE 754 without library functions, and
//! all jitter is a hash of the pixel. Therefore the picture has the same bits on every machine and backend.

mod scene;
mod tracer;
mod vector;

use std::path::{Path, PathBuf};

use self::tracer::Tracer;
use comity_graph::Scale;

use crate::definition::Definition;
use crate::scaling::Scaling;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "raytrace",
    summary: "a ray-traced picture of mirrors, glass and beads (BWS paper; Whitted 1980: 800 x 600, 4 rays a pixel)",
    parameters: &[
        Parameter { key: "width", default: "640", help: "pixels per row, 1 to 8192" },
        Parameter { key: "height", default: "480", help: "rows of pixels, 1 to 8192" },
        Parameter { key: "samples", default: "4", help: "rays from the eye per pixel, 1 to 256" },
        Parameter { key: "grain", default: "64", help: "pixels that one task renders, 1 to 1000000" },
        Parameter { key: "out", default: "", help: "path of a PNG file to write; empty: no file" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Ok(Scaling {
        keys: &["width", "height", "samples"],
        rule: "width and height: width and serial; samples: length",
        extents,
    }),
};

/// Width, height, samples and hash of two pictures that were inspected and found correct: the default picture, and
/// the picture at the paper's size.
const KNOWN: [(usize, usize, usize, u64); 2] =
    [(640, 480, 4, 0xc3ef_f9a7_df45_80b6), (800, 600, 4, 0x95c6_69cc_92f2_efc7)];

/// The check renders one of every `CHECKED_EVERY` pixels again. The interval is a prime, so that the checked pixels
/// do not line up in columns.
const CHECKED_EVERY: usize = 101;

type Pixel = [u8; 3];

fn prepare(parameters: &Parameters) -> Result<Raytrace, ParameterError> {
    let width = parameters.number("width", 1..=8_192)?;
    let height = parameters.number("height", 1..=8_192)?;
    let samples = parameters.number("samples", 1..=256)?;
    let grain = parameters.number("grain", 1..=1_000_000)?;
    let out = parameters.text("out");
    Ok(Raytrace {
        tracer: Tracer::new(width, height, samples),
        grain,
        out: (!out.is_empty()).then(|| PathBuf::from(out)),
    })
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let pixels = parameters.number("width", 1..=8_192)? * parameters.number("height", 1..=8_192)?;
    let tasks = pixels.div_ceil(parameters.number("grain", 1..=1_000_000)?);
    let samples = parameters.number("samples", 1..=256)?;
    Ok(Scale { width: tasks as f64, length: samples as f64, serial: pixels as f64, ..Scale::default() })
}

struct Raytrace {
    tracer: Tracer,
    /// The number of pixels per task.
    grain: usize,
    out: Option<PathBuf>,
}

impl Kernel for Raytrace {
    /// The pixels row by row from the top.
    type Output = Vec<Pixel>;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Vec<Pixel> {
        let mut picture = vec![[0; 3]; self.tracer.width * self.tracer.height];
        fork_join.for_chunks_mut(&mut picture, self.grain, &|chunk, pixels| {
            for (index, pixel) in (chunk * self.grain..).zip(pixels) {
                *pixel = self.tracer.render(index);
            }
        });
        picture
    }

    /// Renders one pixel in [`CHECKED_EVERY`] again and compares the bits: no pixel is lost, misplaced or overwritten
    /// by another task. At the sizes in [`KNOWN`], the hash of the whole picture must also equal the recorded hash,
    /// so that an error that both renderings have is noticed.
    fn verify(&self, output: &Vec<Pixel>) -> Verdict {
        let Tracer { width, height, samples, .. } = self.tracer;
        let checked = || (0..output.len()).step_by(CHECKED_EVERY);
        let wrong = checked().filter(|&index| output[index] != self.tracer.render(index)).count();
        let hash = hash(output);
        let known = KNOWN.iter().find(|known| (known.0, known.1, known.2) == (width, height, samples));
        let expected = known.map_or_else(String::new, |known| format!(", expected {:016x}", known.3));
        Verdict::new(
            wrong == 0 && known.is_none_or(|known| known.3 == hash) && output.len() == width * height,
            format!(
                "{width} x {height}: {wrong} of {} pixels rendered again differ; hash {hash:016x}{expected}",
                checked().count()
            ),
        )
    }

    fn present(&self, output: &Vec<Pixel>) -> Result<Option<String>, String> {
        let Some(path) = &self.out else {
            return Ok(None);
        };
        let Tracer { width, height, .. } = self.tracer;
        match write_png(path, width, height, output) {
            Ok(()) => Ok(Some(format!("picture of {width} x {height} pixels written to {}", path.display()))),
            Err(error) => {
                Err(format!("raytrace: cannot write {}: {error}. Give another path with out=", path.display()))
            }
        }
    }
}

/// Returns the FNV-1a hash, 64 bits (Fowler, Noll and Vo).
fn hash(picture: &[Pixel]) -> u64 {
    picture
        .as_flattened()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn write_png(path: &Path, width: usize, height: usize, picture: &[Pixel]) -> Result<(), png::EncodingError> {
    let file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut encoder = png::Encoder::new(file, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(picture.as_flattened())?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnRayon, Serial};

    fn program(width: usize, height: usize, grain: usize) -> Raytrace {
        Raytrace { tracer: Tracer::new(width, height, 2), grain, out: None }
    }

    #[test]
    fn pictures_of_every_shape_and_grain_verify_and_agree() {
        for (width, height) in [(1, 1), (1, 30), (37, 1), (40, 30)] {
            let serial = program(width, height, 1).compute(Serial);
            for grain in [1, 7, 1_000_000] {
                let program = program(width, height, grain);
                let output = program.compute(OnRayon);
                assert!(program.verify(&output).verified);
                assert_eq!(output, serial);
            }
        }
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(hash(&[]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(&[*b"foo", *b"bar"]), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_wrong_pixel_and_a_missing_one_are_noticed() {
        let program = program(40, 30, 64);
        let mut output = program.compute(Serial);
        output[3 * CHECKED_EVERY][1] ^= 1;
        assert!(!program.verify(&output).verified);
        output = program.compute(Serial);
        output.pop();
        assert!(!program.verify(&output).verified);
    }

    #[test]
    fn any_wrong_pixel_of_the_default_picture_is_noticed() {
        let (width, height, samples, _) = KNOWN[0];
        let program = Raytrace { tracer: Tracer::new(width, height, samples), grain: 64, out: None };
        let mut output = program.compute(OnRayon);
        assert!(program.verify(&output).verified, "{}", program.verify(&output).detail);
        output[1][0] ^= 1;
        assert!(!program.verify(&output).verified);
    }

    #[test]
    fn the_picture_is_written_where_asked_and_decodes_to_the_same_pixels() {
        let path = std::env::temp_dir().join(format!("comity-raytrace-{}.png", std::process::id()));
        let program = Raytrace { out: Some(path.clone()), ..program(20, 10, 8) };
        let output = program.compute(Serial);
        let sentence = program.present(&output).unwrap().unwrap();
        assert!(sentence.contains("20 x 10") && sentence.contains("comity-raytrace"));
        let file = std::io::BufReader::new(std::fs::File::open(&path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut decoded = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut decoded).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(decoded, output.as_flattened());
    }

    #[test]
    fn without_a_path_nothing_is_written_and_with_a_bad_one_a_sentence_says_so() {
        let mut program = program(4, 3, 64);
        let output = program.compute(Serial);
        assert_eq!(program.present(&output), Ok(None));
        program.out = Some(PathBuf::from("/no/such/folder/picture.png"));
        let sentence = program.present(&output).unwrap_err();
        assert!(sentence.starts_with("raytrace: cannot write /no/such/folder/picture.png: "));
    }
}
