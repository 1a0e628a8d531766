//! Sizes and durations with units: `8GiB`, `5min`.

use super::error::TermError;
use std::{fmt, str::FromStr, time::Duration};

/// A number of bytes, written with a binary or decimal unit (`8GiB`, `500MB`, `4096B`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

const SIZE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

pub(super) const SIZE_FORM: &str =
    "a size with a unit, such as \"8GiB\" (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)";

impl FromStr for Bytes {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let wrong = || TermError::new(text, SIZE_FORM);
        let (number, unit) = split_unit(text).ok_or_else(wrong)?;
        let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        number.checked_mul(*factor).map(Bytes).ok_or_else(wrong)
    }
}

impl fmt::Display for Bytes {
    /// In the largest binary unit that isn't larger than the number; with one decimal place if the number isn't whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = SIZE_UNITS[..4].iter().find(|(_, factor)| self.0 >= *factor);
        match unit {
            Some((name, factor)) if self.0.is_multiple_of(*factor) => write!(f, "{}{name}", self.0 / factor),
            // For display only: a tenth of a unit is precise enough.
            #[allow(clippy::cast_precision_loss)]
            Some((name, factor)) => write!(f, "{:.1}{name}", self.0 as f64 / *factor as f64),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// A length of time, written with a unit (`10s`, `5min`, `1h`, `7d`, `250ms`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

const SPAN_UNITS: &[(&str, u64)] =
    &[("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

pub(super) const SPAN_FORM: &str = "a duration with a unit, such as \"5min\" (ms, s, min, h, d)";

impl FromStr for Span {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let wrong = || TermError::new(text, SPAN_FORM);
        let (number, unit) = split_unit(text).ok_or_else(wrong)?;
        let (_, factor) = SPAN_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let millis = number.checked_mul(*factor).ok_or_else(wrong)?;
        Ok(Span(Duration::from_millis(millis)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match SPAN_UNITS
            .iter()
            .find(|(_, factor)| millis >= u128::from(*factor) && millis.is_multiple_of(u128::from(*factor)))
        {
            Some((name, factor)) => write!(f, "{}{name}", millis / u128::from(*factor)),
            None => write!(f, "{millis}ms"),
        }
    }
}

/// Splits `8GiB` or `8 GiB` into number and unit.
fn split_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let number = text.get(..end)?.parse().ok()?;
    Some((number, text.get(end..)?.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes, shown) in [
            ("8GiB", 8 << 30, "8GiB"),
            ("8 GiB", 8 << 30, "8GiB"),
            ("1536MiB", 1536 << 20, "1.5GiB"),
            ("500MB", 500_000_000, "476.8MiB"),
            ("512B", 512, "512B"),
        ] {
            let size: Bytes = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, shown), "{text}");
        }
    }

    #[test]
    fn spans() {
        for (text, millis, shown) in [
            ("5min", 300_000, "5min"),
            ("90s", 90_000, "90s"),
            ("1h", 3_600_000, "1h"),
            ("7d", 604_800_000, "7d"),
            ("168h", 604_800_000, "7d"),
            ("250ms", 250, "250ms"),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!((span.0.as_millis(), span.to_string().as_str()), (millis, shown), "{text}");
        }
    }

    #[test]
    fn refused() {
        for text in ["", "8", "GiB", "-1GiB", "8gib", "8GB ", "99999999999TiB", "8.5GiB", "٣GiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        for text in ["", "5", "min", "5 minutes", "-5s", "18446744073709551615h"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
