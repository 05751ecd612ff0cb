use rayon::prelude::*;

/// Prints a sum. An argument says how often the program computes the sum.
fn main() {
    let rounds = std::env::args().nth(1).map_or(1, |rounds| rounds.parse().expect("a number of rounds"));
    let sums: Vec<u64> = (0..rounds).map(|_| (0..100_000u64).into_par_iter().map(|i| i * i % 7).sum()).collect();
    println!("{}", sums[0]);
}
