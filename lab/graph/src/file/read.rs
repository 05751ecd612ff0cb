//! Reading a graph file, and the messages about invalid files.

use std::fmt;
use std::io::{BufRead, Read};

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{FORMAT, VERSION};
use crate::graph::{About, Graph, Step, Stretch, Task};

/// The maximum length of a line, in bytes.
const LONGEST_LINE: u64 = 1 << 24;

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u64,
    /// The number of lines that follow.
    tasks: u64,
    /// The number of tasks of the unfolded graph, which has each task as often as it occurs: [`Graph::count_tasks`].
    unfold: u64,
    /// The work T₁, in ns.
    work_ns: u64,
    about: About,
}

/// The fields of a header that all versions have.
#[derive(Deserialize)]
struct Kind {
    format: String,
    version: u64,
}

impl Graph {
    /// Reads a graph that [`Graph::write`] has written. The memory that it uses is at most a small multiple of the
    /// file's length.
    ///
    /// # Errors
    /// A message that says why the file is invalid.
    pub fn read(from: &mut impl BufRead) -> Result<Graph, String> {
        let first = next_line(from)?.ok_or("it is empty. Record the program again")?;
        let kind: Kind =
            serde_json::from_slice(&first).ok().filter(|kind: &Kind| kind.format == FORMAT).ok_or_else(|| {
                format!(
                    "it is not a recording: its first line has no \"format\":\"{FORMAT}\". Make a recording with \
                     comity-lab record"
                )
            })?;
        if kind.version != VERSION {
            let version = kind.version;
            return Err(format!(
                "it has version {version}, and this command reads version {VERSION}. Record the program again"
            ));
        }
        let header: Header = serde_json::from_slice(&first).map_err(|error| format!("line 1: {error}"))?;
        if header.tasks > Graph::MOST_KEPT as u64 {
            return Err(format!("it declares {} stored tasks, and the maximum is {}", header.tasks, Graph::MOST_KEPT));
        }
        let mut tasks = Vec::new();
        while (tasks.len() as u64) < header.tasks {
            let (nth, all) = (tasks.len(), header.tasks);
            let line = next_line(from)?
                .ok_or_else(|| format!("it was cut short: it has {nth} of {all} tasks. Record the program again"))?;
            let steps = serde_json::from_slice(&line).map_err(|error| format!("line {}: {error}", nth + 2))?;
            tasks.push(Task(steps));
        }
        if next_line(from)?.is_some() {
            return Err(format!(
                "it stores more than the {} tasks that it declares. Record the program again",
                header.tasks
            ));
        }
        let graph = Graph::new(header.about, tasks)?;
        let (unfold, work) = (graph.count_tasks() as u64, graph.measure(0).work);
        if (unfold, work) != (header.unfold, header.work_ns) {
            let said = format!("{} tasks and {} ns of work", header.unfold, header.work_ns);
            return Err(format!(
                "it was changed: it unfolds to {unfold} tasks with {work} ns of work, but declares {said}"
            ));
        }
        Ok(graph)
    }
}

/// Reads the next line, without its newline character. `None` if there is no line, or if the newline is missing.
fn next_line(from: &mut impl BufRead) -> Result<Option<Vec<u8>>, String> {
    let mut line = Vec::new();
    from.take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(Some(line));
    }
    if line.len() as u64 == LONGEST_LINE {
        return Err(format!("it has a line of more than {LONGEST_LINE} bytes, which no recording has"));
    }
    Ok(None)
}

/// A length in a file, in ns.
struct Length(u64);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Length, D::Error> {
        match from.deserialize_any(Steps)? {
            Step::Run(stretch) if stretch.joins == 0 && stretch.parts().len() == 1 => Ok(Length(stretch.parts()[0])),
            _ => Err(de::Error::custom("a length is a number of nanoseconds")),
        }
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Step, D::Error> {
        from.deserialize_any(Steps)
    }
}

struct Steps;

fn no_length<E: de::Error>(what: impl fmt::Display) -> E {
    E::custom(format!("a length of {what} ns; lengths are whole numbers from 1 to 2^50"))
}

impl<'de> Visitor<'de> for Steps {
    type Value = Step;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a length, a list of tasks, or an object with \"ns\" or \"repeat\"")
    }

    fn visit_u64<E: de::Error>(self, length: u64) -> Result<Step, E> {
        if !(1..=Graph::MOST_WORK).contains(&length) {
            return Err(no_length(length));
        }
        Ok(Step::Run(Stretch::of(length, 0)))
    }

    fn visit_i64<E: de::Error>(self, length: i64) -> Result<Step, E> {
        Err(no_length(length))
    }

    fn visit_f64<E: de::Error>(self, length: f64) -> Result<Step, E> {
        Err(no_length(length))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Step, A::Error> {
        let mut children = Vec::new();
        while let Some(child) = list.next_element()? {
            children.push(child);
        }
        Ok(Step::Fork(children))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Step, A::Error> {
        let (mut lengths, mut joins, mut task, mut times) = (None, None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "ns" => lengths = Some(map.next_value::<Lengths>()?.0),
                "joins" => joins = Some(map.next_value()?),
                "repeat" => task = Some(map.next_value()?),
                "times" => times = Some(map.next_value()?),
                _ => return Err(de::Error::custom(format!("a step has no \"{key}\""))),
            }
        }
        match (lengths, joins, task, times) {
            (Some(lengths), joins, None, None) => Ok(Step::Run(Stretch::with_parts(lengths, joins.unwrap_or(0)))),
            (None, None, Some(task), Some(times)) => Ok(Step::Repeat { task, times }),
            _ => Err(de::Error::custom("a step is {\"ns\", \"joins\"} or {\"repeat\", \"times\"}")),
        }
    }
}

/// A single length or a list of lengths.
struct Lengths(Vec<u64>);

impl<'de> Deserialize<'de> for Lengths {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Lengths, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Lengths;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length or a list of lengths")
            }

            fn visit_u64<E: de::Error>(self, length: u64) -> Result<Lengths, E> {
                Steps.visit_u64(length).map(|_| Lengths(vec![length]))
            }

            fn visit_i64<E: de::Error>(self, length: i64) -> Result<Lengths, E> {
                Err(no_length(length))
            }

            fn visit_f64<E: de::Error>(self, length: f64) -> Result<Lengths, E> {
                Err(no_length(length))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Lengths, A::Error> {
                let mut lengths = Vec::new();
                while let Some(Length(length)) = list.next_element()? {
                    lengths.push(length);
                }
                Ok(Lengths(lengths))
            }
        }
        from.deserialize_any(OneOrMore)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Graph, String> {
        Graph::read(&mut text.as_bytes())
    }

    /// Returns a file with a header and these lines.
    fn file(tasks: u64, unfold: u64, work_ns: u64, lines: &[&str]) -> String {
        let names = ["workers", "merge_ns", "clock_ns", "plain_ns", "recorded_ns", "span_ns"];
        let about = format!("{{\"program\":\"\",{}}}", names.map(|name| format!("\"{name}\":0")).join(","));
        let (first, rest) = ("{\"format\":\"comity-graph\",\"version\":1,\"tasks\":", lines.join("\n"));
        format!("{first}{tasks},\"unfold\":{unfold},\"work_ns\":{work_ns},\"about\":{about}}}\n{rest}\n")
    }

    #[test]
    fn the_example_is_read() {
        let lines =
            ["[{\"ns\":[3,4,8]}]", "[12,[0,0],3]", "[20500,{\"repeat\":1,\"times\":3},{\"ns\":80,\"joins\":4}]"];
        let graph = read(&file(3, 7, 20_500 + 3 * 15 + 30 + 80, &lines)).unwrap();
        assert_eq!(graph.merged_joins(), 4);
        let mut written = Vec::new();
        graph.write(&mut written).unwrap();
        assert_eq!(read(std::str::from_utf8(&written).unwrap()), Ok(graph));
    }

    #[test]
    fn what_a_run_was_is_read_as_it_was_written() {
        let mut graph = read(&file(1, 1, 2, &["[2]"])).unwrap();
        graph.about.check_ns = Some(7);
        graph.about.program = "a \"quoted\" \\ path\n\u{1}\t ünd µ".to_owned();
        let mut written = Vec::new();
        graph.write(&mut written).unwrap();
        assert_eq!(read(std::str::from_utf8(&written).unwrap()), Ok(graph));
    }

    #[test]
    fn a_bad_file_is_answered_with_a_sentence() {
        let fine = file(2, 3, 14, &["[2]", "[10,[0,0]]"]);
        read(&fine).unwrap();
        let deep: Vec<String> = (0..200).map(|nth| format!("[1,[{nth},{nth}]]")).collect();
        let wide: Vec<&str> = ["[1]"].into_iter().chain(deep.iter().map(String::as_str)).collect();
        let long: Vec<String> = (0..70).map(|nth| format!("[1,{{\"repeat\":{nth},\"times\":4000000}}]")).collect();
        let long: Vec<&str> = ["[1]"].into_iter().chain(long.iter().map(String::as_str)).collect();
        let many = format!("[{}]", ["1"; 100_000].join(","));
        let checked = fine.replace("\"span_ns\":0", "\"span_ns\":0,\"check_ns\":9223372036854775808");
        for (text, part) in [
            (String::new(), "it is empty"),
            ("\u{7f}ELF…\n".to_owned(), "it is not a recording"),
            ("{\"schema\":\"comity-kernel/1\"}\n".to_owned(), "it is not a recording"),
            (fine.replace("\"version\":1", "\"version\":2"), "it has version 2, and this command reads version 1"),
            (fine[..fine.len() - 1].to_owned(), "it was cut short: it has 1 of 2 tasks"),
            (fine[..fine.len() - 12].to_owned(), "it was cut short: it has 0 of 2 tasks"),
            (fine[..30].to_owned(), "it is empty"),
            (format!("{fine}[1]\n"), "more than the 2 tasks"),
            (file(2, 3, 14, &["[2]", "[10,[1,0]]"]), "task 1 refers to task 1, which is not before it"),
            (file(2, 3, 14, &["[2]", "[10,[0,7]]"]), "task 1 refers to task 7"),
            (file(1_000_000_000, 3, 14, &["[2]"]), "it declares 1000000000 stored tasks"),
            (file(201, 3, 14, &wide), "tasks, and the maximum is 100000000"),
            (file(71, 3, 14, &long), "the maximum is"),
            (file(1, 1, 14, &["[-5]"]), "line 2: a length of -5 ns"),
            (file(1, 1, 14, &["[0]"]), "line 2: a length of 0 ns"),
            (file(1, 1, 14, &["[1.5]"]), "line 2: a length of 1.5 ns"),
            (file(1, 1, 14, &["[99999999999999999999]"]), "line 2: a length of 1000"),
            (file(1, 1, 14, &["[18446744073709551615]"]), "line 2: a length of 18446744073709551615 ns"),
            (file(1, 1, 14, &["[{\"ns\":[5,-3]}]"]), "line 2: a length of -3 ns"),
            (file(1, 1, 14, &["[{\"ns\":[5,3]}]"]), "has a stretch whose lengths are not"),
            (file(1, 1, 14, &["[{\"ns\":[]}]"]), "has a stretch whose lengths are not"),
            (file(1, 1, 14, &["[{\"nanoseconds\":3}]"]), "a step has no \"nanoseconds\""),
            (file(1, 1, 14, &["[[]]"]), "task 0 does not begin with a stretch"),
            (file(1, 1, 14, &["[1,[]]"]), "task 0 forks nothing"),
            (file(1, 1, 14, &["[]"]), "task 0 does not begin with a stretch"),
            (file(0, 0, 0, &[]), "more than the 0 tasks"),
            (
                file(1, 1, 1, &["[{\"ns\":1,\"joins\":18446744073709551615}]"]),
                "task 0 has a stretch with 18446744073709551615",
            ),
            (file(2, 2, 14, &["[{\"ns\":1,\"joins\":1000000000000}]", "[1,[0,0]]"]), "2000000000000 joins are merged"),
            (file(2, 1, 14, &[&many, "[1,{\"repeat\":0,\"times\":10000000}]"]), "it unfolds to 1000000000002 steps"),
            (file(1, 1, 14, &["[1152921504606846976]"]), "line 2: a length of 1152921504606846976 ns"),
            (file(2, 3, 14, &["[1125899906842624]", "[1,[0,0]]"]), "its lengths add up to 2251799813685249 ns"),
            (checked, "its check_ns is 9223372036854775808, and the maximum is 2^50"),
            (file(2, 1, 14, &["[1]", "[1,{\"repeat\":0,\"times\":0}]"]), "repeats task 0 0 times"),
            (file(1, 1, 14, &["what"]), "line 2: expected value"),
            (file(1, 1, 14, &["[2]"]), "it was changed: it unfolds to 1 tasks with 2 ns of work"),
        ] {
            let answer = read(&text).unwrap_err();
            assert!(answer.contains(part), "{part:?} is not in {answer:?}");
            assert!(answer.len() < 300 && !answer.contains('\n'), "{answer:?}");
        }
    }

    #[test]
    fn a_line_without_end_is_not_read_to_it() {
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                buffer.fill(b'[');
                Ok(buffer.len())
            }
        }
        let answer = Graph::read(&mut std::io::BufReader::new(Endless)).unwrap_err();
        assert!(answer.contains("a line of more than"), "{answer}");
    }
}
