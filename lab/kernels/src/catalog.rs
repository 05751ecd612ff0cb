//! The list of programs by name. To add a program, add a file in `kernels/` and a row here.

use comity_graph::Scale;

use crate::kernels;
use crate::row::Row;
use crate::{ParameterError, Parameters, Program};

/// All programs.
pub const ROWS: &[Row] = &[
    kernels::fib::ROW,
    kernels::bfs::ROW,
    kernels::clip::ROW,
    kernels::mi::ROW,
    kernels::mm::ROW,
    kernels::raytrace::ROW,
    kernels::cg::ROW,
    kernels::ep::ROW,
    kernels::uts::ROW,
    kernels::nqueens::ROW,
    kernels::mergesort::ROW,
    kernels::fft::ROW,
    kernels::pnn::ROW,
    kernels::cholesky::ROW,
    kernels::lu::ROW,
    kernels::ge::ROW,
    kernels::heat::ROW,
    kernels::sor::ROW,
    kernels::loop_threads::ROW,
    kernels::wavefront::ROW,
    kernels::io::ROW,
];

/// Builds the input of the program that `NAME[:key=value,…]` names.
///
/// # Errors
/// An unknown name, or a parameter that the program does not accept.
pub fn prepare(text: &str) -> Result<Box<dyn Program>, ParameterError> {
    let (row, parameters) = parse(text)?;
    (row.prepare)(&parameters)
}

/// Returns the row and the parameters of the program that `NAME[:key=value,…]` names.
///
/// # Errors
/// An unknown name, or a key that the program does not accept.
pub fn parse(text: &str) -> Result<(&'static Row, Parameters), ParameterError> {
    let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
    let Some(row) = ROWS.iter().find(|row| row.name == name) else {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        return Err(ParameterError::new(format!("no program is called '{name}'. Choose one of {}", names.join(", "))));
    };
    Ok((row, Parameters::parse(row.name, row.parameters, parameters)?))
}

/// Returns the factors that scale the graph of the program `recorded` to the graph of the program `wanted`. Both are
/// written `NAME[:key=value,…]`.
///
/// # Errors
/// If the programs are different, if they differ in a parameter that cannot be scaled, or if the program has no rule.
/// The error is a sentence that also says what to do.
pub fn factors(recorded: &str, wanted: &str) -> Result<Scale, ParameterError> {
    let ((row, small), (other, large)) = (parse(recorded)?, parse(wanted)?);
    if row.name != other.name {
        let (recorded, wanted) = (row.name, other.name);
        return Err(ParameterError::new(format!(
            "a recording of {recorded} cannot be scaled to {wanted}. Record {wanted}"
        )));
    }
    let scaling = row.scaling.map_err(|why| {
        ParameterError::new(format!("{} cannot be scaled: {why}. Record the requested size", row.name))
    })?;
    let differs = |row: &Row| {
        let mut keys = row.parameters.iter().map(|parameter| parameter.key);
        keys.find(|key| *key != "seed" && !scaling.keys.contains(key) && small.text(key) != large.text(key))
    };
    if let Some(key) = differs(row) {
        return Err(ParameterError::new(format!(
            "{}: {key} is {} in the recording and cannot be scaled (only {} can). Record {key}={}",
            row.name,
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
