//! Draws histograms as text.

use super::{
    limits::{HEAVY_LIMIT, LIMIT},
    summary::{Summary, nanos, upper_bounds},
};
use std::fmt::Write as _;

/// The width of all bars of a line together.
const WIDTH: usize = 56;
const COUNT_WIDTH: usize = 6;

/// Draws bars: one row for each bucket and one column for each series, all on one logarithmic scale. The longest bar of a column
/// fills its width.
pub fn chart(columns: &[(&str, &Summary)]) -> String {
    let bar = WIDTH / columns.len().max(1);
    let mut text = format!("{:>10}  ", "up to");
    for (title, _) in columns {
        let _ = write!(text, "{:<width$}", end_of(title, bar + COUNT_WIDTH), width = bar + COUNT_WIDTH + 2);
    }
    end_line(&mut text);
    let all = || columns.iter().flat_map(|(_, summary)| &summary.histogram).map(|bucket| bucket.up_to_ns);
    let (Some(first), Some(last)) = (all().min(), all().max()) else { return text };
    let mut limits = [(HEAVY_LIMIT, "heavily loaded cluster's"), (LIMIT, "etcd's")].into_iter().peekable();
    for up_to in upper_bounds().filter(|up_to| (first..=last).contains(up_to)) {
        while let Some((_, whose)) = limits.next_if(|(limit, _)| nanos(*limit) < up_to) {
            let _ = writeln!(text, "{:>10}  {whose} limit: 99 of 100 must be above this line", "---------");
        }
        let _ = write!(text, "{:>10}  ", milliseconds(up_to));
        for (_, summary) in columns {
            let longest = summary.histogram.iter().map(|bucket| bucket.count).max().unwrap_or(0);
            let count =
                summary.histogram.iter().find(|bucket| bucket.up_to_ns == up_to).map_or(0, |b| b.count);
            let shown =
                if count == 0 { String::new() } else { format!("{} {count}", blocks(count, longest, bar)) };
            let _ = write!(text, "{shown:<width$}", width = bar + COUNT_WIDTH + 2);
        }
        end_line(&mut text);
    }
    text
}

fn end_line(text: &mut String) {
    text.truncate(text.trim_end().len());
    text.push('\n');
}

/// A bar of whole and partial blocks. It has at least the thinnest block, because one call in 8,000 counts.
fn blocks(count: u64, longest: u64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = u64::try_from(width).unwrap_or(0) * 8 * count / longest.max(1);
    let eighths = usize::try_from(eighths).unwrap_or(0).max(1);
    let part = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    "█".repeat(eighths / 8) + part
}

/// The same drawing for a terminal that has ASCII only.
pub fn in_ascii(drawn: &str) -> String {
    let plain = |letter: char| match letter {
        '█' | '▏' | '▎' | '▍' | '▌' | '▋' | '▊' | '▉' => '#',
        '…' => '~',
        other => other,
    };
    drawn.chars().map(plain).collect()
}

/// The end of a text that may be too long. The end of a path says most.
fn end_of(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    std::iter::once('…').chain(text.chars().skip(length + 1 - width)).collect()
}

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

/// The same, with all digits where a rounded time would look like a limit: "10.0 ms" is above 10 ms or below it.
pub fn beside_limits(nanos: u64) -> String {
    let shown = milliseconds(nanos);
    let is_limit = [LIMIT, HEAVY_LIMIT].into_iter().any(|limit| milliseconds(self::nanos(limit)) == shown);
    if is_limit { format!("{}.{:06} ms", nanos / 1_000_000, nanos % 1_000_000) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn summary(parts: &[(u64, usize)]) -> Summary {
        let syncs: Vec<_> = parts
            .iter()
            .flat_map(|(micros, count)| std::iter::repeat_n(Duration::from_micros(*micros), *count))
            .collect();
        Summary::of(&syncs, Duration::from_secs(1)).unwrap()
    }

    #[test]
    fn one_column() {
        let summary = summary(&[(900, 10), (1400, 80), (2900, 9), (12_000, 1)]);
        let expected = "     up to  /var/lib
   1.00 ms  ███████ 10
   1.50 ms  ████████████████████████████████████████████████████████ 80
   2.00 ms
 ---------  heavily loaded cluster's limit: 99 of 100 must be above this line
   3.00 ms  ██████▎ 9
   5.00 ms
   7.00 ms
   10.0 ms
 ---------  etcd's limit: 99 of 100 must be above this line
   15.0 ms  ▋ 1
";
        let drawn = chart(&[("/var/lib", &summary)]);
        assert_eq!(drawn, expected);
        let ascii = in_ascii(&drawn);
        assert!(ascii.is_ascii() && ascii.contains("   3.00 ms  ####### 9\n"), "{ascii}");
    }

    #[test]
    fn all_above_the_limits() {
        let expected = "     up to  /x
 ---------  heavily loaded cluster's limit: 99 of 100 must be above this line
 ---------  etcd's limit: 99 of 100 must be above this line
   20.0 ms  ████████████████████████████████████████████████████████ 3
";
        assert_eq!(chart(&[("/x", &summary(&[(16_000, 3)]))]), expected);
    }

    #[test]
    fn two_columns_share_a_scale() {
        let (fast, slow) = (summary(&[(90, 7999), (140, 1)]), summary(&[(190, 8000)]));
        let expected = "     up to  /var/lib/etcd                       …ectory/of/a/long/name/that/ends/here
  0.100 ms  ████████████████████████████ 7999
  0.150 ms  ▏ 1
  0.200 ms                                      ████████████████████████████ 8000
";
        let long = "/a/directory/of/a/long/name/that/ends/here";
        let drawn = chart(&[("/var/lib/etcd", &fast), (long, &slow)]);
        assert!(drawn.lines().all(|line| line.chars().count() <= 100), "{drawn}");
        assert_eq!(drawn.lines().skip(1).collect::<Vec<_>>(), expected.lines().skip(1).collect::<Vec<_>>());
        assert!(drawn.lines().next().unwrap().contains("…") && drawn.contains("that/ends/here\n"), "{drawn}");
    }

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
