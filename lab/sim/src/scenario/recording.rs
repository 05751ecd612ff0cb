//! Recorded and endless programs of a scenario.

use std::sync::Arc;

use comity_graph::Graph;

use super::{Kind, Machine, Submission, WrittenFork};

/// A function that reads a recording, by its name in the scenario.
pub(super) type Read<'a> = dyn FnMut(&str) -> Result<Arc<Graph>, String> + 'a;

/// The largest cost of a join, in nanoseconds.
const MOST_JOIN: f64 = 1e6;

impl Submission {
    /// Returns the graph of a recorded program, scaled as the scenario says. For other kinds, checks that no key of a
    /// recorded program is given.
    pub(super) fn recording(
        &self,
        machine: &Machine,
        place: &dyn Fn(&str) -> String,
        read: &mut Read<'_>,
    ) -> Result<Option<Arc<Graph>>, String> {
        let kind = match self.kind {
            Kind::Recorded => "recorded",
            Kind::Loop => "loop",
            Kind::ForkJoin | Kind::ScatterGather => {
                return self.has_no_recording(place, "kind = \"recorded\"").map(|()| None);
            }
        };
        machine.only_on_a_host(&place(&format!("kind = \"{kind}\"")))?;
        self.has_no_phases(place, kind)?;
        if self.kind == Kind::Loop {
            return self.has_no_recording(place, "kind = \"recorded\"").map(|()| None);
        }
        let Some(file) = &self.file else {
            return Err(format!(
                "{}: a recorded program needs a recording. Make one with comity-lab record",
                place("file")
            ));
        };
        if let Some(join) = self.join.filter(|join| !(0.0..=MOST_JOIN).contains(join)) {
            return Err(format!("{} is {join}; it must be at least 0 and at most {MOST_JOIN}", place("join")));
        }
        let graph = read(file).map_err(|why| format!("{}: recording '{file}': {why}", place("file")))?;
        match self.scale {
            Some(scale) => graph
                .scaled(scale)
                .map(|graph| Some(Arc::new(graph)))
                .map_err(|why| format!("{}: {why}", place("scale"))),
            None => Ok(Some(graph)),
        }
    }

    fn has_no_recording(&self, place: &dyn Fn(&str) -> String, kind: &str) -> Result<(), String> {
        let given = [("file", self.file.is_some()), ("scale", self.scale.is_some()), ("join", self.join.is_some())];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(format!("{}: only a program of {kind} supports it. Leave it out", place(key))),
            None => Ok(()),
        }
    }

    /// Checks that no key of a program with phases is given.
    fn has_no_phases(&self, place: &dyn Fn(&str) -> String, kind: &str) -> Result<(), String> {
        let given = [
            ("serial", self.serial > 0),
            ("parallel", self.parallel > 0),
            ("width", self.width > 0),
            ("iterations", self.iterations != 1),
            ("fork", self.fork != WrittenFork::AtOnce),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => {
                Err(format!("{}: a program of kind = \"{kind}\" has no phases. Leave it out", place(key)))
            }
            None => Ok(()),
        }
    }

    /// Checks that the program can start again.
    pub(super) fn check_repeat(&self, machine: &Machine, place: &dyn Fn(&str) -> String) -> Result<(), String> {
        if !self.repeat {
            return Ok(());
        }
        machine.only_on_a_host(&place("repeat"))?;
        match self.kind {
            Kind::ForkJoin | Kind::Recorded => Ok(()),
            Kind::Loop => Err(format!("{}: a loop never ends. Leave it out", place("repeat"))),
            Kind::ScatterGather => {
                Err(format!("{}: scatter-gather has rounds. Leave it out and write more iterations", place("repeat")))
            }
        }
    }
}
