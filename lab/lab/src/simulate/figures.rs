//! Draws a sweep: one picture per program, with the program's time over a varied number, and a line for each policy.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use comity_console::{Failure, output};
use comity_papers::figure::{Axis, Figure, Marks, Series};
use comity_papers::fit::Estimate;
use comity_sim::scenario::{Model, Outcome};

use super::points::Points;
use super::statistics::{mean_of, names, time};
use crate::figure;

/// The least ratio `largest number / smallest number` for which an axis is logarithmic.
const FAR: f64 = 100.0;

/// A plot of a sweep: the folder for the pictures, which exists, and the index of the horizontal axis.
pub struct Plot {
    folder: PathBuf,
    across: usize,
}

impl Plot {
    /// Checks that there is something to draw, and makes the folder.
    pub fn new(folder: &Path, points: &Points) -> Result<Plot, Failure> {
        let numbers = |nth: &usize| {
            let values = &points.axes[*nth].values;
            values.len() > 1 && values.iter().all(|value| value.number().is_some())
        };
        let across = (0..points.axes.len()).find(numbers).ok_or_else(|| {
            let what = "the figure needs a number that varies. Vary one, for example with --set machine.cores=16,32,64";
            Failure::Usage(format!("--plot: {what}"))
        })?;
        let refuse = |error: &std::io::Error| {
            Failure::Usage(format!("cannot create the folder '{}': {error}. Choose another --plot", folder.display()))
        };
        fs::create_dir_all(folder).map_err(|error| refuse(&error))?;
        Ok(Plot { folder: folder.to_owned(), across })
    }

    /// Draws all programs. Returns a sentence with the number of pictures and their folder.
    pub fn write(&self, points: &Points, runs: &[Vec<Outcome>]) -> Result<String, Failure> {
        let mut all: Vec<&str> = Vec::new();
        for name in runs.iter().flat_map(|runs| names(runs)) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        let mut taken = BTreeSet::new();
        for name in &all {
            let path = self.folder.join(file_name(name, &mut taken));
            output::replace(&path, figure::svg(&self.figure(name, points, runs)).as_bytes())
                .map_err(|error| Failure::Run(format!("cannot write '{}': {error}", path.display())))?;
        }
        let plural = if all.len() == 1 { "picture is" } else { "pictures are" };
        Ok(format!("{} {plural} in '{}'.\n", all.len(), self.folder.display()))
    }

    fn figure(&self, name: &str, points: &Points, runs: &[Vec<Outcome>]) -> Figure {
        let is_host = points.all.iter().any(|point| point.scenario.written().machine.model == Model::Host);
        let (unit, scale) = if is_host { ("ms", 1e-6) } else { ("steps", 1.0) };
        let mut series: Vec<Series> = Vec::new();
        for (point, runs) in points.all.iter().zip(runs) {
            let Some(x) = point.values[self.across].number() else { continue };
            let Estimate { value, half_width } = mean_of(runs, name, |program| time(program) * scale);
            let line = self.line(name, points, point);
            let nth = series.iter().position(|series| series.name == line).unwrap_or_else(|| {
                series.push(Series::new(line, Marks::Line, Vec::new()));
                series.len() - 1
            });
            // The value is not finite if no program ended. The point is left out.
            if value.is_finite() {
                series[nth].points.push((x, value));
                series[nth].intervals.extend((half_width > 0.0).then_some((x, value - half_width, value + half_width)));
            }
        }
        for series in &mut series {
            series.points.sort_by(|one, other| one.0.total_cmp(&other.0));
        }
        let label = points.axes[self.across].key.clone();
        let numbers = points.axes[self.across].values.iter().filter_map(|value| value.number());
        let (least, most) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), x| (l.min(x), m.max(x)));
        let x = if least > 0.0 && most / least >= FAR { Axis::log(label) } else { Axis::linear(label) };
        Figure { title: name.to_owned(), x, y: Axis::linear(format!("time, {unit}")), series }
    }

    /// Returns the name of a point's line: the program's policy, and the other varied settings.
    fn line(&self, name: &str, points: &Points, point: &super::points::Point) -> String {
        let written = point.scenario.written().programs.iter().find(|one| one.name == name);
        let policy = written.map_or_else(String::new, |written| written.policy.clone());
        let own = format!("programs.{name}.policy");
        let others = points.axes.iter().zip(&point.values).enumerate().filter(|(nth, (axis, _))| {
            *nth != self.across && !axis.is_policy() && axis.key != own && axis.values.len() > 1
        });
        let others = others.map(|(_, (axis, value))| format!(", {}={value}", axis.key));
        [policy].into_iter().chain(others).collect()
    }
}

/// Returns a file name for a program's picture that is not in `taken`. Each character that is not a letter or digit
/// becomes a dash.
fn file_name(program: &str, taken: &mut BTreeSet<String>) -> String {
    let plain: String = program.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect();
    let plain: String = plain.chars().take(80).collect();
    let all = (1..).map(|nth| if nth == 1 { format!("time-{plain}.svg") } else { format!("time-{plain}-{nth}.svg") });
    let free = all.into_iter().find(|name| !taken.contains(name)).expect("there are more numbers than programs");
    taken.insert(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_a_picture_of_its_own() {
        let mut taken = BTreeSet::new();
        let names = ["a b", "a/b", "../../é", "a.b"].map(|name| file_name(name, &mut taken));
        assert_eq!(names, ["time-a-b.svg", "time-a-b-2.svg", "time-------é.svg", "time-a-b-3.svg"]);
    }
}
