//! Panics, so that `tests/native/backtrace` sees what a program of `packaging/build` prints then.

use std::hint::black_box;

#[inline(never)]
fn inner(text: &str) -> usize {
    text.parse().expect("this panic is provoked")
}

fn main() {
    // `black_box` keeps both functions, so that the backtrace has a frame for each.
    println!("{}", black_box(inner(black_box("x"))));
}
