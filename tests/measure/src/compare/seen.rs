//! The observed state of a node, as text for a cell of the table.

use std::fmt;
use std::time::Duration;

/// Where etcd's data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the root disk, where it was before the move.
    Old,
    /// On the disk that etcd was moved to.
    New,
}

/// An etcd that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serving {
    /// Where its data is.
    pub place: Place,
    /// How many of the initial keys are missing, and how many there were.
    pub old: (u64, u64),
    /// How many keys are missing that a client wrote later and that etcd acknowledged, and how many there
    /// were.
    pub lost: (usize, usize),
    /// Its revision. A new cluster has revision 1.
    pub revision: u64,
}

impl Serving {
    /// Whether no key is missing.
    pub fn is_whole(&self) -> bool {
        self.old.0 == 0 && self.lost.0 == 0
    }
}

/// A node after a boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// etcd answers.
    Serves(Serving),
    /// etcd did not answer for this time. The text is its last error, if there is one.
    Down(Duration, Option<String>),
    /// The boot ended in emergency mode.
    Emergency,
}

impl Seen {
    /// Whether etcd serves all keys from this place.
    pub fn is_whole_at(&self, place: Place) -> bool {
        matches!(self, Seen::Serves(serving) if serving.is_whole() && serving.place == place)
    }
}

impl fmt::Display for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.place {
            Place::Old => "the old disk",
            Place::New => "the new disk",
        };
        write!(f, "etcd serves from {place}, ")?;
        let ((old, of_old), (lost, of)) = (self.old, self.lost);
        if self.is_whole() && of == 0 {
            return f.write_str("nothing lost");
        }
        if self.is_whole() {
            return write!(f, "all {of} acknowledged writes there");
        }
        if old == of_old {
            write!(f, "as a **new, empty cluster** (revision {}): ", self.revision)?;
        }
        write!(f, "**{lost} of {of} acknowledged writes lost**")?;
        if old > 0 {
            write!(f, ", and {old} of {of_old} older keys")?;
        }
        Ok(())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Serves(serving) => serving.fmt(f),
            Seen::Down(span, None) => write!(f, "etcd stays down ({} s watched)", span.as_secs()),
            Seen::Down(span, Some(word)) => {
                write!(f, "etcd stays down ({} s watched): `{word}`", span.as_secs())
            }
            Seen::Emergency => f.write_str("the boot ends in emergency mode, etcd is down"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(old: u64, lost: usize, of: usize) -> Serving {
        Serving { place: Place::Old, old: (old, 2000), lost: (lost, of), revision: 7 }
    }

    #[test]
    fn what_is_lost_is_said() {
        let cases = [
            (serving(0, 0, 0), "etcd serves from the old disk, nothing lost"),
            (serving(0, 0, 9), "etcd serves from the old disk, all 9 acknowledged writes there"),
            (serving(0, 3, 9), "etcd serves from the old disk, **3 of 9 acknowledged writes lost**"),
            (
                serving(2000, 9, 9),
                "etcd serves from the old disk, as a **new, empty cluster** (revision 7): **9 of 9 acknowledged writes \
                 lost**, and 2000 of 2000 older keys",
            ),
        ];
        for (serving, said) in cases {
            assert_eq!(serving.to_string(), said);
            assert_eq!(Seen::Serves(serving).is_whole_at(Place::Old), !said.contains("lost**"), "{said}");
            assert!(!Seen::Serves(serving).is_whole_at(Place::New));
        }
    }
}
