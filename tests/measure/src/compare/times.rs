//! The times of one thing that was measured again and again.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};

/// The times, the shortest first.
#[derive(Debug, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Measures so many times.
    pub fn measure(times: usize, mut once: impl FnMut() -> Result<Duration>) -> Result<Self> {
        Self::of((0..times).map(|_| once()).collect::<Result<_>>()?)
    }

    /// These times. An error if there is none.
    pub fn of(mut times: Vec<Duration>) -> Result<Self> {
        times.sort_unstable();
        times.first().context("nothing was measured: --times must be at least 1")?;
        Ok(Self(times))
    }

    /// Of an even number, the longer one of the two in the middle.
    fn median(&self) -> f32 {
        self.0.get(self.0.len() / 2).map_or(0.0, Duration::as_secs_f32)
    }

    /// The median, what part it is of the other's median, and all single times if there are several.
    pub fn beside(&self, plain: &Times) -> String {
        let (took, base) = (self.median(), plain.median());
        let mut text = format!("{took:.1} s, {:.2} × a plain reboot ({base:.1} s)", took / base);
        for (of, times) in [("", self), ("; plain", plain)] {
            if times.0.len() > 1 {
                let all: Vec<String> =
                    times.0.iter().map(|one| format!("{:.1}", one.as_secs_f32())).collect();
                let _ = write!(text, "{of}: {}", all.join(" "));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_stands_beside_the_others() {
        let seconds =
            |all: &[u64]| Times::of(all.iter().map(|one| Duration::from_secs(*one)).collect()).unwrap();
        assert_eq!(seconds(&[6]).beside(&seconds(&[3])), "6.0 s, 2.00 × a plain reboot (3.0 s)");
        let several = seconds(&[9, 3, 6]).beside(&seconds(&[4, 2, 3]));
        assert_eq!(several, "6.0 s, 2.00 × a plain reboot (3.0 s): 3.0 6.0 9.0; plain: 2.0 3.0 4.0");
        assert!(Times::of(Vec::new()).is_err());
    }
}
