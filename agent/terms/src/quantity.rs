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
        let (_, factor) = SIZE_UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| meant(text, SIZE_FORM, size_unit(unit).map(|unit| format!("{number}{unit}"))))?;
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
        let (_, factor) = SPAN_UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| meant(text, SPAN_FORM, sum(text)))?;
        let millis = number.checked_mul(*factor).filter(|millis| *millis <= LONGEST_MILLIS);
        Ok(Span(Duration::from_millis(millis.ok_or_else(|| TermError::new(text, TOO_LONG))?)))
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

/// Ten years, in milliseconds. Nothing here lasts longer, so a longer time is a mistake.
const LONGEST_MILLIS: u64 = 3650 * 86_400_000;
const TOO_LONG: &str = "a duration of ten years at most";

/// The error of a text with an unknown unit, with the text that was probably meant.
fn meant(text: &str, form: &str, meant: Option<impl fmt::Display>) -> TermError {
    let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    TermError::new(text, format!("{form}{meant}"))
}

/// The unit of a size as Kubernetes, lsblk and people write it.
fn size_unit(unit: &str) -> Option<&'static str> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "ti" | "t" | "tib" => "TiB",
        "gi" | "g" | "gib" => "GiB",
        "mi" | "m" | "mib" => "MiB",
        "ki" | "k" | "kib" => "KiB",
        "tb" => "TB",
        "gb" => "GB",
        "mb" => "MB",
        "kb" => "kB",
        "b" | "byte" | "bytes" => "B",
        _ => return None,
    })
}

/// The unit of a duration as Go and people write it.
fn span_unit(unit: &str) -> Option<&'static str> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "day" | "days" | "d" => "d",
        "hour" | "hours" | "hr" | "hrs" | "h" => "h",
        "m" | "mins" | "minute" | "minutes" | "min" => "min",
        "sec" | "secs" | "second" | "seconds" | "s" => "s",
        "msec" | "millisecond" | "milliseconds" | "ms" => "ms",
        _ => return None,
    })
}

/// The duration of several numbers with units, as Go and systemd write it: `1h30m`, `5min 30s`.
fn sum(text: &str) -> Option<Span> {
    let (mut rest, mut millis) = (text, 0_u64);
    while !rest.is_empty() {
        let (number, more) = split_unit(rest)?;
        let end = more.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(more.len());
        let unit = span_unit(more.get(..end)?)?;
        let (_, factor) = SPAN_UNITS.iter().find(|(name, _)| *name == unit)?;
        millis = millis.checked_add(number.checked_mul(*factor)?)?;
        rest = more.get(end..)?.trim_start();
    }
    (millis <= LONGEST_MILLIS).then(|| Span(Duration::from_millis(millis)))
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
    fn a_common_spelling_is_refused_and_told_the_right_one() {
        for (text, right) in [("8Gi", "8GiB"), ("8G", "8GiB"), ("8gib", "8GiB"), ("500 mb", "500MB")] {
            let said = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(said.ends_with(&format!("; did you mean `{right}`?")), "{said}");
            assert!(right.parse::<Bytes>().is_ok(), "{right}");
        }
        for (text, right) in [
            ("5m", "5min"),
            ("5 minutes", "5min"),
            ("90sec", "90s"),
            ("2 Hours", "2h"),
            ("1h30m", "90min"),
            ("5min 30s", "330s"),
            ("1d12h", "36h"),
        ] {
            let said = text.parse::<Span>().unwrap_err().to_string();
            assert!(said.ends_with(&format!("; did you mean `{right}`?")), "{said}");
            assert!(right.parse::<Span>().is_ok(), "{right}");
        }
        for text in ["8 parsecs", "1h30", "1h30x", "1.5h"] {
            assert!(!text.parse::<Span>().unwrap_err().to_string().contains("did you mean"), "{text}");
        }
        assert!("3650d".parse::<Span>().is_ok());
        let said = "3651d".parse::<Span>().unwrap_err().to_string();
        assert_eq!(said, "`3651d` is not a duration of ten years at most");
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
