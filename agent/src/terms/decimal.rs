//! Decimal numbers, as the kernel and Prometheus write them.

/// Reads `12.5`, `-3` or `1.5e-05`; no infinity, and nothing that isn't a number.
///
/// Exact wherever 15 digits and a power of ten up to 22 are, as all such numbers are here; of others the last bit may differ from
/// what std's parser finds, which carries ten kilobytes of tables for it.
pub fn decimal(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let (mut digits, mut full, mut any) = (0u64, false, false);
    for byte in whole.bytes().chain(fraction.bytes()) {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        any = true;
        match digits.checked_mul(10).and_then(|digits| digits.checked_add(digit.into())) {
            Some(more) if !full => digits = more,
            _ => {
                full = true; // digits that no f64 could hold
                exponent = exponent.checked_add(1)?;
            }
        }
    }
    let value = match exponent {
        _ if !any => return None,
        _ if digits == 0 => 0.0,
        0.. => digits as f64 * 10f64.powi(exponent),
        _ => digits as f64 / 10f64.powi(exponent.checked_neg()?),
    };
    Some(if text.starts_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_std_reads_them() {
        for text in [
            "0",
            "-0.0",
            "0.00",
            "12.34",
            "99.99",
            "1.7e+09",
            "1e-05",
            "0.001",
            "8.192",
            "16384",
            "1.7321875e+09",
            ".5",
            "5.",
            "+3",
            "1E3",
            "4.503599627370496e+15",
            "2.147483648e+09",
            "0.0001",
            "1e22",
            "123456789012345e-22",
        ] {
            assert_eq!(decimal(text), text.parse().ok(), "{text}");
        }
        for text in [
            "3.141592653589793238462643383279",
            "18446744073709551615",
            "18446744073709551619e0",
            "1.2345678901234567e-250",
        ] {
            let (ours, theirs) = (decimal(text).unwrap(), text.parse::<f64>().unwrap());
            assert!((ours - theirs).abs() <= theirs * 4.0 * f64::EPSILON, "{text}: {ours}");
        }
        assert_eq!((decimal("1e400"), decimal("1e-400")), (Some(f64::INFINITY), Some(0.0)));
        for text in
            ["", "-", "e5", ".", "1e", "1x", "0x1", "1.2.3", "--1", "NaN", "inf", " 1", "1e99999999999", "٣"]
        {
            assert_eq!(decimal(text), None, "{text}");
        }
    }
}
