//! The list of programs by name. To add a program, add a file in `kernels/` and an entry here.

use comity_graph::Scale;

use crate::definition::Definition;
use crate::kernels;
use crate::{ParameterError, Parameters, Program};

/// All programs.
pub const DEFINITIONS: &[Definition] = &[
    kernels::fib::DEFINITION,
    kernels::bfs::DEFINITION,
    kernels::clip::DEFINITION,
    kernels::mi::DEFINITION,
    kernels::mm::DEFINITION,
    kernels::raytrace::DEFINITION,
    kernels::cg::DEFINITION,
    kernels::ep::DEFINITION,
    kernels::uts::DEFINITION,
    kernels::nqueens::DEFINITION,
    kernels::mergesort::DEFINITION,
    kernels::fft::DEFINITION,
    kernels::pnn::DEFINITION,
    kernels::cholesky::DEFINITION,
    kernels::lu::DEFINITION,
    kernels::ge::DEFINITION,
    kernels::heat::DEFINITION,
    kernels::sor::DEFINITION,
    kernels::loop_threads::DEFINITION,
    kernels::wavefront::DEFINITION,
    kernels::io::DEFINITION,
];

/// Builds the input of the program that `NAME[:key=value,…]` names.
///
/// # Errors
/// An unknown name, or a parameter that the program does not accept.
pub fn prepare(text: &str) -> Result<Box<dyn Program>, ParameterError> {
    let (definition, parameters) = parse(text)?;
    (definition.prepare)(&parameters)
}

/// Returns the definition and the parameters of the program that `NAME[:key=value,…]` names.
///
/// # Errors
/// An unknown name, or a key that the program does not accept.
pub fn parse(text: &str) -> Result<(&'static Definition, Parameters), ParameterError> {
    let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
    let Some(definition) = DEFINITIONS.iter().find(|definition| definition.name == name) else {
        let names: Vec<&str> = DEFINITIONS.iter().map(|definition| definition.name).collect();
        return Err(ParameterError::new(format!("no program is called '{name}'. Choose one of {}", names.join(", "))));
    };
    Ok((definition, Parameters::parse(definition.name, definition.parameters, parameters)?))
}

/// Returns the factors that scale the graph of the program `recorded` to the graph of the program `wanted`. Both are
/// written `NAME[:key=value,…]`.
///
/// # Errors
/// If the programs are different, if they differ in a parameter that cannot be scaled, or if the program has no rule.
/// The error is a sentence that also says what to do.
pub fn factors(recorded: &str, wanted: &str) -> Result<Scale, ParameterError> {
    let ((definition, small), (other, large)) = (parse(recorded)?, parse(wanted)?);
    if definition.name != other.name {
        let (recorded, wanted) = (definition.name, other.name);
        return Err(ParameterError::new(format!(
            "a recording of {recorded} cannot be scaled to {wanted}. Record {wanted}"
        )));
    }
    let scaling = definition.scaling.map_err(|why| {
        ParameterError::new(format!("{} cannot be scaled: {why}. Record the requested size", definition.name))
    })?;
    let differs = |definition: &Definition| {
        let mut keys = definition.parameters.iter().map(|parameter| parameter.key);
        keys.find(|key| *key != "seed" && !scaling.keys.contains(key) && small.text(key) != large.text(key))
    };
    if let Some(key) = differs(definition) {
        return Err(ParameterError::new(format!(
            "{}: {key} is {} in the recording and cannot be scaled (only {} can). Record {key}={}",
            definition.name,
            small.text(key),
            scaling.keys.join(", "),
            large.text(key)
        )));
    }
    Ok((scaling.extents)(&large)?.over(&(scaling.extents)(&small)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_rule_is_said() {
        for (recorded, wanted, part) in [
            ("mm:n=100", "lu:n=200", "a recording of mm cannot be scaled to lu"),
            ("uts", "uts:tree=T3", "uts cannot be scaled: its tree is drawn at random, node by node"),
            (
                "mm:n=100",
                "mm:n=200,grain=32",
                "mm: grain is 64 in the recording and cannot be scaled (only n can). Record grain=32",
            ),
            ("lu:n=320", "lu:n=512", "lu: n=320 is 5 tiles"),
            ("mm:n=100", "mm:n=5000", "n=5000 is not a whole number"),
            ("none", "mm", "no program is called 'none'"),
        ] {
            let answer = factors(recorded, wanted).unwrap_err().to_string();
            assert!(answer.contains(part), "{answer}");
        }
        assert_eq!(factors("mm:seed=1", "mm:seed=2"), Ok(Scale::default()));
    }
}
