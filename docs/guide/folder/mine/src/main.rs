use rayon::prelude::*;

fn main() {
    let sum: u64 = (0..100_000u64).into_par_iter().map(|i| i * i % 7).sum();
    println!("{sum}");
}
