//! Writes times for people.

use super::limits::{HEAVY_LIMIT, LIMIT};

/// A time in milliseconds, with about three digits.
pub fn milliseconds(nanos: u64) -> String {
    let micros = nanos.saturating_add(500) / 1000;
    let (whole, part) = (micros / 1000, micros % 1000);
    match micros {
        0..1_000 => format!("0.{part:03} ms"),
        1_000..10_000 => format!("{whole}.{:02} ms", part / 10),
        10_000..100_000 => format!("{whole}.{} ms", part / 100),
        _ => format!("{whole} ms"),
    }
}

/// A time in milliseconds, with all digits where a rounded time would look like a limit: "10.0 ms" is above 10 ms or below it.
pub fn beside_limits(nanos: u64) -> String {
    let shown = milliseconds(nanos);
    let is_limit =
        [LIMIT, HEAVY_LIMIT].into_iter().any(|limit| milliseconds(super::summary::nanos(limit)) == shown);
    if is_limit { format!("{}.{:06} ms", nanos / 1_000_000, nanos % 1_000_000) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_lengths() {
        for (nanos, shown) in [
            (0, "0.000 ms"),
            (90_499, "0.090 ms"),
            (999_499, "0.999 ms"),
            (999_500, "1.00 ms"),
            (1_426_000, "1.42 ms"),
            (12_345_678, "12.3 ms"),
            (1_234_567_890, "1234 ms"),
            (u64::MAX, "18446744073709 ms"),
        ] {
            assert_eq!(milliseconds(nanos), shown, "{nanos}");
        }
        for (nanos, shown) in [
            (9_999_999, "9.999999 ms"),
            (10_004_000, "10.004000 ms"),
            (2_000_000, "2.000000 ms"),
            (9_900_000, "9.90 ms"),
        ] {
            assert_eq!(beside_limits(nanos), shown);
        }
    }
}
