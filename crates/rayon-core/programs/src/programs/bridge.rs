//! Counts the primes below a bound: the numbers of a serial iterator are tested in parallel.

use rayon::prelude::*;

use crate::catalog::Definition;
use crate::program::{Program, equal, steps};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "bridge",
    summary: "par_bridge over a serial iterator: primes by trial division",
    size: 300_000,
    prepare,
};

fn prepare(size: usize) -> Box<dyn Program> {
    let expected = sieve(size);
    steps(
        || (),
        move |()| (0..size).par_bridge().filter(|number| is_prime(*number)).count(),
        move |primes| equal(primes, expected),
    )
}

fn is_prime(number: usize) -> bool {
    number > 1 && (2..).take_while(|divisor| divisor * divisor <= number).all(|divisor| !number.is_multiple_of(divisor))
}

/// Counts the primes below `bound` with another algorithm.
fn sieve(bound: usize) -> usize {
    let mut prime = vec![true; bound];
    prime.iter_mut().take(2).for_each(|prime| *prime = false);
    for number in 2..bound {
        if prime[number] {
            (number * number..bound).step_by(number).for_each(|multiple| prime[multiple] = false);
        }
    }
    prime.into_iter().filter(|prime| *prime).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_25_primes_below_100() {
        assert_eq!(sieve(100), 25);
        assert_eq!((0..100).filter(|number| is_prime(*number)).count(), 25);
    }
}
