//! A polynomial neural network that grows automatically. Each layer fits hundreds of small polynomials, in
//! independent tasks.
//!
//! PNN is program p-2 in Table III of the paper on demand-aware work stealing (DWS; Chen, Zheng and Guo, 2016), a
//! compute-intensive program. The authors adapted it from an OpenMP program that they do not name. The method is the
//! group method of data handling (A. Ivakhnenko, "Polynomial theory of complex systems", IEEE Trans. SMC 1, 1971).
//! For every pair of variables, a neuron is the polynomial of second order that fits the training samples best in the
//! sense of least squares. The neurons with the smallest errors on the validation samples are kept. Their outputs are
//! the next layer's variables. The pairs of a layer are fitted in parallel, and between the layers the best neurons are
//! chosen serially.
//!
//! Deviations: the number of layers is fixed, so that every run does the same work, whereas Ivakhnenko stops as soon
//! as a layer is no better than the layer before it. The normal equations are regularised, because the variables of
//! late layers hardly differ.
//!
//! A leaf task fits one pair. This takes 15 to 40 µs, depending on the number of samples (see the parameter `class`).

mod fit;

use comity_graph::Scale;

use crate::definition::Definition;
use crate::random::SplitMix;
use crate::scaling::Scaling;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Serial, Verdict};
use fit::{Polynomial, fit};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "pnn",
    summary: "a polynomial neural network, grown from pairs of variables by GMDH (DWS paper, compute-intensive)",
    parameters: &[
        Parameter {
            key: "class",
            default: "medium",
            help: "small, medium or paper (16, 40, 80 variables; 1500, 6000, 6000 samples; 4, 5, 6 layers)",
        },
        Parameter {
            key: "variables",
            default: "",
            help: "variables of a sample, and neurons that a layer keeps, 8 to 256; empty: the class's number",
        },
        Parameter {
            key: "samples",
            default: "",
            help: "samples, two thirds to fit and one third to validate, 1500 to 100000; empty: the class's number",
        },
        Parameter { key: "layers", default: "", help: "layers of neurons, 4 to 16; empty: the class's number" },
        Parameter { key: "grain", default: "1", help: "pairs of variables that one task fits, 1 to 32640" },
        Parameter { key: "seed", default: "1", help: "seed of the samples, 0 to 4294967295" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Ok(Scaling {
        keys: &["class", "variables", "samples", "layers"],
        rule: "samples: length; variables: width and serial by their pairs; layers: repeats",
        extents,
    }),
};

/// The number of variables, samples and layers by class. The paper gives no size: a run of the class
/// `paper` takes about a second on one core.
const SIZES: [(usize, usize, usize); 3] = [(16, 1_500, 4), (40, 6_000, 5), (80, 6_000, 6)];

const MOST_VARIABLES: usize = 256;

/// The number of terms of the function to learn. Each term is a polynomial of two variables.
const TERMS: usize = 4;

/// The magnitude of the coefficient of the product of the two variables of a term. With it, the product has a variance
/// of one and dominates the term, and no other pair of variables predicts it. All terms have nearly the same variance,
/// so that each layer keeps neurons of every term.
const PRODUCT_COEFFICIENT: f64 = 3.0;

/// The maximum magnitude of the other coefficients of a term.
const OTHER_COEFFICIENTS: f64 = 0.3;

/// The maximum error of the best neuron, as a fraction of the target's variance on the validation samples. A neuron
/// that misses one of the terms has an error of a quarter. The error of a network with all terms is due to the number
/// of samples, and is below 0.03 for the smallest number.
const ALLOWED_ERROR: f64 = 0.05;

fn prepare(parameters: &Parameters) -> Result<Pnn, ParameterError> {
    let (variables, samples, layers) = size(parameters)?;
    let grain = parameters.number("grain", 1..=MOST_VARIABLES * (MOST_VARIABLES - 1) / 2)?;
    let seed = parameters.number("seed", 0..=u32::MAX as usize)?;
    Ok(Pnn::new(Samples::random(variables, samples, seed as u64), layers, grain))
}

/// Returns the number of variables, samples and layers.
fn size(parameters: &Parameters) -> Result<(usize, usize, usize), ParameterError> {
    let (variables, samples, layers) = parameters.class(&SIZES)?;
    let variables = parameters.number_or("variables", variables, 2 * TERMS..=MOST_VARIABLES)?;
    let samples = parameters.number_or("samples", samples, 1_500..=100_000)?;
    Ok((variables, samples, parameters.number_or("layers", layers, 4..=16)?))
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (variables, samples, layers) = size(parameters)?;
    let pairs = (variables * (variables - 1) / 2) as f64;
    Ok(Scale {
        // The first layer is not repeated. All later layers repeat the same part: outputs, then a fit.
        repeats: (layers - 1) as f64,
        width: pairs,
        length: samples as f64,
        serial: pairs,
        ..Scale::default()
    })
}

/// The samples of the function to learn.
struct Samples {
    /// The values of each variable in all samples.
    variables: Vec<Vec<f64>>,
    /// The function's value in each sample.
    targets: Vec<f64>,
    /// The number of samples for training. The rest are for validation.
    training: usize,
}

impl Samples {
    /// Returns variables from -1 to 1, and targets that are the sum of random polynomials of the first two variables,
    /// of the next two, and so on.
    fn random(variables: usize, samples: usize, seed: u64) -> Samples {
        let mut random = SplitMix::new(seed);
        let mut symmetric = || 2.0 * random.unit() - 1.0;
        let variables: Vec<Vec<f64>> = (0..variables).map(|_| (0..samples).map(|_| symmetric()).collect()).collect();
        let terms: [Polynomial; TERMS] = std::array::from_fn(|_| {
            let mut term: Polynomial = std::array::from_fn(|_| OTHER_COEFFICIENTS * symmetric());
            term[fit::PRODUCT] = PRODUCT_COEFFICIENT.copysign(symmetric());
            term
        });
        let mut targets = vec![0.0; samples];
        for (term, pair) in terms.iter().zip(variables.chunks_exact(2)) {
            for ((target, a), b) in targets.iter_mut().zip(&pair[0]).zip(&pair[1]) {
                *target += fit::value(term, *a, *b);
            }
        }
        Samples { variables, targets, training: samples / 3 * 2 }
    }

    /// Returns the variance of the target over the validation samples.
    fn variance(&self) -> f64 {
        let targets = &self.targets[self.training..];
        let mean = targets.iter().sum::<f64>() / targets.len() as f64;
        targets.iter().map(|target| (target - mean) * (target - mean)).sum::<f64>() / targets.len() as f64
    }

    /// Returns the mean square error of the network's best neuron over the validation samples.
    fn validation_error(&self, network: &Network) -> f64 {
        let validation = self.training..self.targets.len();
        let square = |sample: usize| {
            let values = self.variables.iter().map(|variable| variable[sample]).collect();
            let error = network.outputs(values)[0] - self.targets[sample];
            error * error
        };
        validation.clone().map(square).sum::<f64>() / validation.len() as f64
    }
}

/// A neuron: a polynomial of two variables of the previous layer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Neuron {
    inputs: [usize; 2],
    polynomial: Polynomial,
    /// The mean square error on the validation samples.
    error: f64,
}

/// The neurons that each layer keeps, in the order of their errors.
#[derive(Clone, Debug, PartialEq)]
struct Network {
    layers: Vec<Vec<Neuron>>,
}

impl Network {
    /// Returns the outputs of the last layer for one sample.
    fn outputs(&self, mut values: Vec<f64>) -> Vec<f64> {
        for layer in &self.layers {
            let output =
                |neuron: &Neuron| fit::value(&neuron.polynomial, values[neuron.inputs[0]], values[neuron.inputs[1]]);
            values = layer.iter().map(output).collect();
        }
        values
    }
}

/// The parameters for growing a network.
struct Growth {
    samples: Samples,
    /// The pairs of variables that each layer fits.
    pairs: Vec<[usize; 2]>,
    layers: usize,
    /// The number of pairs per task.
    grain: usize,
}

impl Growth {
    fn new(samples: Samples, layers: usize, grain: usize) -> Growth {
        let variables = samples.variables.len();
        let pairs = (0..variables).flat_map(|a| (a + 1..variables).map(move |b| [a, b])).collect();
        Growth { samples, pairs, layers, grain }
    }

    fn network<J: ForkJoin>(&self, fork_join: J) -> Network {
        let mut layers = vec![self.grow(fork_join, &self.samples.variables)];
        let mut variables = Vec::new();
        while layers.len() < self.layers {
            let inputs = if layers.len() == 1 { &self.samples.variables } else { &variables };
            variables = self.outputs(fork_join, &layers[layers.len() - 1], inputs);
            layers.push(self.grow(fork_join, &variables));
        }
        Network { layers }
    }

    /// Fits a neuron to every pair of `variables`. Returns the `variables.len()` best neurons, in the order of error.
    fn grow<J: ForkJoin>(&self, fork_join: J, variables: &[Vec<f64>]) -> Vec<Neuron> {
        let mut neurons = vec![Neuron { inputs: [0; 2], polynomial: [0.0; 6], error: f64::INFINITY }; self.pairs.len()];
        fork_join.for_chunks_mut(&mut neurons, self.grain, &|chunk, neurons| {
            for (neuron, pair) in neurons.iter_mut().zip(&self.pairs[chunk * self.grain..]) {
                *neuron = self.fit_pair(*pair, variables);
            }
        });
        // The sort is stable, so that the first of two pairs with equal errors is preferred. Neurons that could not
        // be fitted have a NaN of any sign and come last.
        neurons.sort_by(|a, b| a.error.abs().total_cmp(&b.error.abs()));
        neurons.truncate(variables.len());
        neurons
    }

    fn fit_pair(&self, inputs: [usize; 2], variables: &[Vec<f64>]) -> Neuron {
        let [a, b] = inputs.map(|input| variables[input].split_at(self.samples.training));
        let (fitted, validating) = self.samples.targets.split_at(self.samples.training);
        let polynomial = fit(a.0, b.0, fitted);
        Neuron { inputs, polynomial, error: fit::mean_square_error(&polynomial, a.1, b.1, validating) }
    }

    /// Returns the outputs of `layer` in all samples.
    fn outputs<J: ForkJoin>(&self, fork_join: J, layer: &[Neuron], variables: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut outputs = vec![Vec::new(); layer.len()];
        fork_join.for_chunks_mut(&mut outputs, 1, &|index, output| {
            let Neuron { inputs: [a, b], polynomial, .. } = &layer[index];
            let inputs = variables[*a].iter().zip(&variables[*b]);
            output[0] = inputs.map(|(a, b)| fit::value(polynomial, *a, *b)).collect();
        });
        outputs
    }
}

struct Pnn {
    growth: Growth,
    /// The network of a serial run with the same samples, computed once when the input was built.
    expected: Network,
}

impl Pnn {
    fn new(samples: Samples, layers: usize, grain: usize) -> Pnn {
        let growth = Growth::new(samples, layers, grain);
        Pnn { expected: growth.network(Serial), growth }
    }
}

impl Kernel for Pnn {
    type Output = Network;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Network {
        self.growth.network(fork_join)
    }

    /// Checks two things. The network must have the same bits as the network of the serial run: no pair was lost or
    /// swapped with another pair. The network must have learned: its best neuron must have a small error on the
    /// validation samples, and the neuron must report the same error. This check computes the network's outputs anew,
    /// one sample at a time.
    fn verify(&self, output: &Network) -> Verdict {
        let same = *output == self.expected;
        let claimed = output.layers.last().and_then(|layer| layer.first()).map_or(f64::NAN, |best| best.error);
        let samples = &self.growth.samples;
        // A network that differs from the expected one may refer to variables that do not exist.
        let error = if same { samples.validation_error(output) } else { f64::NAN };
        let variance = samples.variance();
        Verdict::new(
            same && error <= ALLOWED_ERROR * variance && (error - claimed).abs() <= 1e-9 * variance,
            format!(
                "{} variables, {} layers: {} network as in a serial run; its best neuron misses {:.1e} of the variance, \
                 allowed {ALLOWED_ERROR}",
                samples.variables.len(),
                output.layers.len(),
                if same { "the same" } else { "not the same" },
                claimed / variance
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OnRayon;

    fn program(variables: usize, grain: usize, seed: u64) -> Pnn {
        Pnn::new(Samples::random(variables, 1_500, seed), 4, grain)
    }

    #[test]
    fn every_grain_gives_the_same_verified_network() {
        for grain in [1, 7, 1_000] {
            let program = program(10, grain, 7);
            let network = program.compute(OnRayon);
            assert!(program.verify(&network).verified, "{}", program.verify(&network).detail);
            assert_eq!(network, program.compute(Serial));
        }
    }

    #[test]
    fn the_smallest_network_learns_whatever_the_seed() {
        for seed in 0..100 {
            let program = program(2 * TERMS, 1, seed);
            let verdict = program.verify(&program.expected);
            assert!(verdict.verified, "seed {seed}: {}", verdict.detail);
        }
    }

    #[test]
    fn one_layer_misses_most_and_no_layer_is_worse_than_the_last() {
        let program = program(2 * TERMS, 1, 3);
        let best: Vec<f64> = program.expected.layers.iter().map(|layer| layer[0].error).collect();
        assert!(best[0] > 0.5 * program.growth.samples.variance());
        assert!(best.is_sorted_by(|before, after| after < before), "{best:?}");
    }

    #[test]
    fn a_wrong_coefficient_a_missing_neuron_and_a_lost_layer_are_noticed() {
        let program = program(8, 4, 5);
        let network = program.compute(Serial);
        assert!(program.verify(&network).verified);
        let with = |change: &dyn Fn(&mut Network)| {
            let mut network = network.clone();
            change(&mut network);
            program.verify(&network).verified
        };
        assert!(!with(&|network| network.layers[1][2].polynomial[3] += 1e-12));
        assert!(!with(&|network| network.layers[0][0].error = f64::NAN));
        assert!(!with(&|network| network.layers[2][1].inputs = [900, 901]));
        assert!(!with(&|network| network.layers[1].truncate(7)));
        assert!(!with(&|network| network.layers.truncate(3)));
        assert!(!with(&|network| network.layers.clear()));
    }

    #[test]
    fn a_network_that_did_not_learn_is_refused_even_if_a_serial_run_agrees() {
        let mut program = program(8, 4, 5);
        program.growth.layers = 1;
        program.expected = program.compute(Serial);
        assert!(!program.verify(&program.compute(OnRayon)).verified);
    }
}
