//! Quicksort with a join at each level, down to single values.

pub fn quicksort<T: Ord + Send>(values: &mut [T]) {
    if values.len() <= 1 {
        return;
    }
    let last = values.len() - 1;
    values.swap(last / 2, last);
    let mut pivot = 0;
    for i in 0..last {
        if values[i] < values[last] {
            values.swap(i, pivot);
            pivot += 1;
        }
    }
    values.swap(pivot, last);
    let (smaller, rest) = values.split_at_mut(pivot);
    comity::join(|| quicksort(smaller), || quicksort(&mut rest[1..]));
}
