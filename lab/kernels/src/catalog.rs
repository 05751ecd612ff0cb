//! Every program by name. Adding a program is one file under `kernels/` and one row here.

use crate::kernels;
use crate::scaling::Scaling;
use crate::{Parameter, ParameterError, Parameters, Program};

/// Builds a program's input from its parameters.
pub type Prepare = fn(&Parameters) -> Result<Box<dyn Program>, ParameterError>;

/// One program of the catalog.
pub struct Row {
    /// The name on the command line.
    pub name: &'static str,
    /// What it computes, in one line, and where it comes from.
    pub summary: &'static str,
    /// The keys it understands.
    pub parameters: &'static [Parameter],
    /// Builds its input.
    pub prepare: Prepare,
    /// How the graph of an input becomes that of a larger one; or why it does not.
    pub scaling: Result<Scaling, &'static str>,
}

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

/// Looks up `NAME[:key=value,…]` and builds the program's input.
///
/// # Errors
/// An unknown name, or a parameter that the program does not take.
pub fn prepare(text: &str) -> Result<Box<dyn Program>, ParameterError> {
    let (row, parameters) = parse(text)?;
    (row.prepare)(&parameters)
}

/// Looks up `NAME[:key=value,…]`: the program's row and its parameters.
///
/// # Errors
/// An unknown name, or a key that the program does not take.
pub fn parse(text: &str) -> Result<(&'static Row, Parameters), ParameterError> {
    let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
    let Some(row) = ROWS.iter().find(|row| row.name == name) else {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        return Err(ParameterError::new(format!("no program is called '{name}'; choose one of {}", names.join(", "))));
    };
    Ok((row, Parameters::parse(row.name, row.parameters, parameters)?))
}
