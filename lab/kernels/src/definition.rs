//! The definition of a program in the catalog.

use crate::scaling::Scaling;
use crate::{Parameter, ParameterError, Parameters, Program};

/// Builds a program's input from its parameters.
pub type Prepare = fn(&Parameters) -> Result<Box<dyn Program>, ParameterError>;

/// A program of the catalog.
pub struct Definition {
    /// The name on the command line.
    pub name: &'static str,
    /// A description of the program in a line, with its source.
    pub summary: &'static str,
    /// The keys that the program accepts.
    pub parameters: &'static [Parameter],
    /// Builds the program's input.
    pub prepare: Prepare,
    /// The rule that scales the graph of an input to the graph of a larger input, or the reason why the program has
    /// no rule.
    pub scaling: Result<Scaling, &'static str>,
}
