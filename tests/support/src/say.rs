//! Prints how much a passing test has checked. The test harness captures `println!`, so this macro writes to
//! stderr.

#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        // One write per line, because tests run in parallel.
        let _ = std::io::stderr().write_all(format!("{}\n", format_args!($($text)*)).as_bytes());
    }};
}
