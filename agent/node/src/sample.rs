//! Reads Prometheus' text format, as far as etcd writes it: histograms, and gauges with one value.

use std::collections::BTreeMap;

/// One reading of `/metrics`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample(BTreeMap<String, f64>);

impl Sample {
    /// Reads the text. Each line must be `name{labels} value [timestamp]` or a comment. The error names the first other line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut series = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let wrong = || format!("`{}` is not a line of metrics", line.escape_debug());
            // A label's value can contain spaces. After the labels only value and time follow.
            let end = match line.rfind('}') {
                Some(at) => at + 1,
                None if line.contains('{') => return Err(wrong()),
                None => line.find(char::is_whitespace).ok_or_else(wrong)?,
            };
            let (name, rest) = line.split_at_checked(end).ok_or_else(wrong)?;
            let value = rest.split_whitespace().next().and_then(number).ok_or_else(wrong)?;
            series.insert(name.to_owned(), value);
        }
        if series.is_empty() { Err("there are no metrics in it".into()) } else { Ok(Self(series)) }
    }

    /// The value of a metric that has no labels.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// The histograms with this name: one for each set of labels beside `le`.
    fn histograms(&self, name: &str) -> BTreeMap<String, BTreeMap<Bound, f64>> {
        let mut found: BTreeMap<String, BTreeMap<Bound, f64>> = BTreeMap::new();
        let begins = format!("{name}_bucket{{");
        for (series, count) in self.0.range(begins.clone()..) {
            let Some(labels) = series.strip_prefix(&begins) else { break };
            let Some((before, rest)) = labels.split_once("le=\"") else { continue };
            let Some((bound, after)) = rest.split_once('"') else { continue };
            if let Some(bound) = number(bound) {
                found.entry(format!("{before}{after}")).or_default().insert(Bound(bound), *count);
            }
        }
        found
    }
}

/// The upper bound of a bucket, with a total order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bound(f64);

impl Eq for Bound {}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bound {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// `+Inf`, `-Inf` and `NaN` too, as Prometheus writes them: std reads them in any case of letters.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// The counts of a histogram between two samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// Upper bounds in rising order, each with the number of observations up to it.
    buckets: Vec<(f64, f64)>,
}

impl Counted {
    /// The number of observations.
    pub fn count(&self) -> f64 {
        self.buckets.last().map_or(0.0, |(_, count)| *count)
    }

    /// The quantile that Prometheus' `histogram_quantile` gives (prometheus `promql/quantile.go`); none without observations.
    /// It interpolates within a bucket. The first bucket starts at 0. The last one has no upper bound, so its lower bound counts.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let all = self.count();
        let (infinite, _) = self.buckets.last()?;
        if all <= 0.0 || !infinite.is_infinite() || self.buckets.len() < 2 {
            return None;
        }
        let rank = share * all;
        let at = self.buckets.iter().position(|(_, count)| *count >= rank)?;
        let (end, until) = self.buckets.get(at)?;
        let before = at.checked_sub(1).and_then(|at| self.buckets.get(at));
        if end.is_infinite() {
            return before.map(|(bound, _)| *bound);
        }
        let (start, counted) = before.copied().unwrap_or_default();
        Some(start + (end - start) * (rank - counted) / (until - counted))
    }
}

/// Returns the counts of each histogram of a name from one sample to the next. If one counts less than before, etcd was
/// restarted. Then everything that it has counted is new, as in Prometheus' `increase`.
pub fn counted(samples: &[Sample; 2], name: &str) -> Vec<Counted> {
    let [before, after] = samples.each_ref().map(|sample| sample.histograms(name));
    let none = BTreeMap::new();
    let since = |labels: &String, now: &BTreeMap<Bound, f64>| {
        let was = before.get(labels).unwrap_or(&none);
        let of = |bound: &Bound| was.get(bound).copied().unwrap_or(0.0);
        let restarted = now.iter().any(|(bound, count)| *count < of(bound));
        let buckets =
            now.iter().map(|(bound, count)| (bound.0, count - if restarted { 0.0 } else { of(bound) }));
        Counted { buckets: buckets.collect() }
    };
    after.iter().map(|(labels, now)| since(labels, now)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP fsync How long.\n# TYPE fsync histogram\n\
        fsync_bucket{le=\"0.001\"} 10\nfsync_bucket{le=\"0.002\"} 90\nfsync_bucket{le=\"0.004\"} 99\n\
        fsync_bucket{le=\"+Inf\"} 100\nfsync_sum 0.2\nfsync_count 100\n\
        rtt_bucket{To=\"a b}c\",le=\"0.1\"} 5\nrtt_bucket{To=\"a b}c\",le=\"+Inf\"} 5\n\
        rtt_bucket{To=\"d\",le=\"0.1\"} 0\nrtt_bucket{To=\"d\",le=\"+Inf\"} 2\n\
        size 1.234e+06 1700000000000\n";

    fn close(found: Option<f64>, wanted: f64) -> bool {
        found.is_some_and(|found| (found - wanted).abs() < 1e-9)
    }

    #[test]
    fn quantiles_as_prometheus_has_them() {
        let sample = Sample::parse(TEXT).unwrap();
        assert_eq!(sample.value("size"), Some(1_234_000.0));
        let all = counted(&[Sample::default(), sample.clone()], "fsync");
        let [fsync] = all.as_slice() else { panic!("{all:?}") };
        assert!(close(Some(fsync.count()), 100.0));
        assert!(close(fsync.quantile(0.05), 0.0005), "in the first bucket: from 0");
        assert!(close(fsync.quantile(0.5), 0.0015));
        assert!(close(fsync.quantile(0.99), 0.004));
        assert!(close(fsync.quantile(0.999), 0.004), "in the last: its lower bound");
        let peers = counted(&[Sample::default(), sample.clone()], "rtt");
        assert_eq!(peers.iter().map(Counted::count).collect::<Vec<_>>(), [5.0, 2.0]);
        // Nothing happened in between.
        assert_eq!(counted(&[sample.clone(), sample.clone()], "fsync")[0].quantile(0.99), None);
        let later = Sample::parse(&TEXT.replace("+Inf\"} 100", "+Inf\"} 101")).unwrap();
        assert!(close(counted(&[sample.clone(), later], "fsync")[0].quantile(0.5), 0.004));
        let restarted = Sample::parse(&TEXT.replace("0.001\"} 10", "0.001\"} 4")).unwrap();
        assert!(close(Some(counted(&[sample, restarted], "fsync")[0].count()), 100.0));
    }

    #[test]
    fn what_is_no_metrics() {
        for text in ["", "# only comments", "<html>", "a{b=\"c\"}", "a{b=\"c\"} d", "a{b=\"c\" 1", "a"] {
            assert!(Sample::parse(text).is_err(), "{text}");
        }
    }
}
