//! The tables of what was measured.

use std::fmt::Write as _;
use std::time::Duration;

use super::lab::Measured;
use super::phase::Phase;
use super::way::{Runtime, Way};

/// What was measured, by runtime and size.
#[derive(Debug, Default)]
pub struct Figures(Vec<Row>);

#[derive(Debug)]
struct Row {
    runtime: Runtime,
    bytes: u64,
    measured: Vec<(Way, Measured)>,
}

impl Row {
    /// The median of what a way has of this, where it was measured.
    fn median(&self, way: Way, time: impl Fn(&Measured) -> Duration) -> Option<Duration> {
        let of_way = self.measured.iter().filter(|(of, _)| *of == way);
        let mut times: Vec<Duration> = of_way.map(|(_, measured)| time(measured)).collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    }

    /// The median of how idle the processors were before `etcd-lun apply` (0) or in a phase of it.
    fn idle(&self, nth: usize) -> String {
        let of_apply = self.measured.iter().filter(|(way, _)| *way == Way::Apply);
        let mut shares: Vec<f64> =
            of_apply.filter_map(|(_, measured)| measured.idle.get(nth).copied()).collect();
        shares.sort_unstable_by(f64::total_cmp);
        shares.get(shares.len() / 2).map_or_else(|| "–".into(), |share| format!("{:.0} %", 100.0 * share))
    }

    fn gap(&self, way: Way) -> Option<Duration> {
        self.median(way, |measured| measured.gap)
    }

    /// The time of a way, and how many plain restarts that is.
    fn cell(&self, way: Way) -> String {
        let Some(gap) = self.gap(way) else { return "–".into() };
        match self.gap(Way::Restart) {
            Some(plain) if way != Way::Restart => {
                format!("{:.1} s, {:.2} ×", gap.as_secs_f64(), gap.as_secs_f64() / plain.as_secs_f64())
            }
            _ => format!("{:.1} s", gap.as_secs_f64()),
        }
    }
}

impl Figures {
    /// Adds a measurement. What is measured more than once counts with its median.
    pub fn put(&mut self, runtime: Runtime, bytes: u64, way: Way, measured: Measured) {
        let at = self.0.iter().position(|row| row.runtime == runtime && row.bytes == bytes);
        let at = at.unwrap_or_else(|| {
            self.0.push(Row { runtime, bytes, measured: Vec::new() });
            self.0.len() - 1
        });
        self.0[at].measured.push((way, measured));
    }

    /// The table in Markdown: the longest time without an answer, and its ratio to a plain restart.
    pub fn table(&self) -> String {
        self.rows(Row::cell)
    }

    /// The table of etcd's own start.
    pub fn starts(&self) -> String {
        self.rows(|row, way| {
            let start = row.median(way, |measured| measured.start.took);
            start.map_or_else(|| "–".into(), |start| format!("{:.1} s", start.as_secs_f64()))
        })
    }

    /// The table of what the client's writes took while the data was copied, by `etcd-lun apply`: 99 of 100 of them, before and in
    /// each phase. It pauses for 40 ms after each write, which these times include.
    pub fn noise(&self) -> String {
        let mut text = String::from(
            "| runtime | database | before | first copy | rounds | idle before | in the first copy | in the rounds |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        );
        for row in &self.0 {
            let Some(before) = row.median(Way::Apply, |measured| measured.before[1]) else { continue };
            let cell = |wanted: Phase| {
                let of = |measured: &Measured| {
                    measured
                        .meanwhile
                        .iter()
                        .find(|(phase, ..)| *phase == wanted)
                        .map(|(_, took, times)| (*took, times[1]))
                };
                let most =
                    row.median(Way::Apply, |measured| of(measured).unwrap_or_default().1).unwrap_or_default();
                let took =
                    row.median(Way::Apply, |measured| of(measured).unwrap_or_default().0).unwrap_or_default();
                let times = most.as_secs_f64() / before.as_secs_f64();
                format!("{} ms, {times:.2} ×, in {:.1} s", most.as_millis(), took.as_secs_f64())
            };
            let idle: Vec<String> = (0..3).map(|nth| row.idle(nth)).collect();
            writeln!(
                text,
                "| {} | {} MiB | {} ms | {} | {} | {} |",
                row.runtime,
                row.bytes >> 20,
                before.as_millis(),
                cell(Phase::FirstCopy),
                cell(Phase::Rounds),
                idle.join(" | ")
            )
            .ok();
        }
        text
    }

    fn rows(&self, cell: impl Fn(&Row, Way) -> String) -> String {
        let mut text = String::from("| runtime | database |");
        for way in Way::ALL {
            write!(text, " {way} |").ok();
        }
        writeln!(text, "\n|---|---:|{}", "---:|".repeat(Way::ALL.len())).ok();
        for row in &self.0 {
            write!(text, "| {} | {} MiB |", row.runtime, row.bytes >> 20).ok();
            for way in Way::ALL {
                write!(text, " {} |", cell(row, way)).ok();
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::start::Start;
    use super::*;

    #[test]
    fn ratios() {
        let measured = |seconds| Measured {
            gap: Duration::from_secs(seconds),
            start: Start { took: Duration::from_secs(seconds / 2), log: Vec::new() },
            account: Vec::new(),
            before: [Duration::from_millis(50); 2],
            meanwhile: vec![(Phase::Rounds, Duration::from_secs(3), [Duration::from_millis(60); 2])],
            idle: vec![0.5, 0.25],
            lost: 0,
        };
        let mut figures = Figures::default();
        for (way, seconds) in Way::ALL.into_iter().zip([10, 16, 20, 60, 12, 11]) {
            figures.put(Runtime::Systemd, 100 << 20, way, measured(seconds));
        }
        for seconds in [40, 30, 2] {
            figures.put(Runtime::StaticPod, 100 << 20, Way::Restart, measured(seconds));
        }
        let table = figures.table();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| systemd | 100 MiB | 10.0 s | 16.0 s, 1.60 × | 20.0 s, 2.00 × | 60.0 s, 6.00 × | 12.0 s, 1.20 × | 11.0 s, 1.10 × |",
                "| static pod | 100 MiB | 30.0 s | – | – | – | – | – |"
            ]
        );
        assert_eq!(
            figures.starts().lines().skip(2).collect::<Vec<_>>(),
            [
                "| systemd | 100 MiB | 5.0 s | 8.0 s | 10.0 s | 30.0 s | 6.0 s | 5.0 s |",
                "| static pod | 100 MiB | 15.0 s | – | – | – | – | – |"
            ]
        );
        assert_eq!(
            figures.noise().lines().nth(2),
            Some(
                "| systemd | 100 MiB | 50 ms | 0 ms, 0.00 ×, in 0.0 s | 60 ms, 1.20 ×, in 3.0 s | 50 % | 25 % | – |"
            )
        );
    }
}
