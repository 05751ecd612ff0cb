//! What a program says of itself in the catalog: its row.

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
