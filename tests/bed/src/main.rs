//! The test bed.
fn main() {}
