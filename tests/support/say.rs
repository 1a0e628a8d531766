//! What a test that passes has to tell: how much it looked at. The harness keeps what `println!` prints to itself.

macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        // One write, for tests run side by side.
        let _ = std::io::stderr().write_all(format!("{}\n", format_args!($($text)*)).as_bytes());
    }};
}

pub(crate) use say;
