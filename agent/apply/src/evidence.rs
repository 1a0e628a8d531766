//! What a run knows of its copy: from the pass that counts to the proof that the commit point needs.
//!
//! What comes later can only be made of what comes before it, because the fields are private: there is no [`Proof`] without a
//! comparison, no comparison that counts without a pass, and a new pass takes the place of whatever was known before.

use anyhow::bail;
use host::tree::{Moved, State, Summary};
use plan::Way;
use std::mem;
use terms::Fingerprint;

/// How far a run has come.
#[derive(Debug, Default)]
pub enum Evidence {
    /// Nothing that counts.
    #[default]
    Nothing,
    /// A pass was made with etcd stopped.
    Copied(Copied),
    /// A pass was made while containers of etcd's pod could still write.
    CopiedMeanwhile(CopiedMeanwhile),
    /// Both trees were found to be the same, while those containers could still write.
    Provisional(Provisional),
    /// Both trees were found to be the same, with nobody writing to the source.
    Proven(Proof),
}

/// The copy was brought up to date with etcd stopped.
#[derive(Debug)]
pub struct Copied(());

/// The state of the source right before a pass, or why a proof cannot begin with it, for a person.
pub type Beginning = Result<State, String>;

/// The copy was brought up to date while containers of etcd's pod could still write.
#[derive(Debug)]
pub struct CopiedMeanwhile {
    source: Beginning,
}

/// A proof that counts if its source has not changed since the pass.
#[derive(Debug)]
pub struct Provisional {
    fingerprint: Fingerprint,
    way: Way,
    source: State,
}

/// A copy is the same as its source, with nobody writing to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    fingerprint: Fingerprint,
    way: Way,
}

impl Evidence {
    /// The pass with etcd stopped, which a comparison uses up. An error if the last one was none.
    pub fn take_copied(&mut self) -> anyhow::Result<Copied> {
        match mem::take(self) {
            Self::Copied(copied) => Ok(copied),
            Self::Nothing | Self::CopiedMeanwhile(_) | Self::Provisional(_) | Self::Proven(_) => {
                bail!("nothing was copied in this run with etcd stopped")
            }
        }
    }

    /// The pass during which containers could write, which a comparison uses up. An error if the last one was none.
    pub fn take_copied_meanwhile(&mut self) -> anyhow::Result<CopiedMeanwhile> {
        match mem::take(self) {
            Self::CopiedMeanwhile(copied) => Ok(copied),
            Self::Nothing | Self::Copied(_) | Self::Provisional(_) | Self::Proven(_) => {
                bail!("nothing was copied in this run while containers ended")
            }
        }
    }

    /// The provisional proof, if there is one. What else there was is void.
    pub fn take_provisional(&mut self) -> Option<Provisional> {
        match mem::take(self) {
            Self::Provisional(proof) => Some(proof),
            Self::Nothing | Self::Copied(_) | Self::CopiedMeanwhile(_) | Self::Proven(_) => None,
        }
    }

    /// The proof, if there is one.
    pub fn proof(&self) -> Option<Proof> {
        match self {
            Self::Proven(proof) => Some(*proof),
            Self::Nothing | Self::Copied(_) | Self::CopiedMeanwhile(_) | Self::Provisional(_) => None,
        }
    }
}

impl Copied {
    /// Keeps the result of this pass: nobody has written to the source meanwhile.
    pub fn by(_: Moved) -> Self {
        Self(())
    }

    /// Both trees were compared after it, and are the same.
    pub fn proven(self, found: &Summary, way: Way) -> Proof {
        Proof { fingerprint: found.fingerprint, way }
    }
}

impl CopiedMeanwhile {
    /// A pass that began so.
    pub fn from(source: Beginning) -> Self {
        Self { source }
    }

    /// The state with which the proof begins; else why there is none, for a person.
    pub fn begun(self) -> Result<BegunAtRest, String> {
        self.source.map(BegunAtRest)
    }
}

/// A source to which nobody wrote when the pass began.
#[derive(Debug)]
pub struct BegunAtRest(State);

impl BegunAtRest {
    /// Both trees were compared after the pass, and are the same.
    pub fn proven(self, found: &Summary, way: Way) -> Provisional {
        Provisional { fingerprint: found.fingerprint, way, source: self.0 }
    }
}

impl Provisional {
    /// The proof, if the source is still as it was when the pass began; else what has changed, for a person.
    pub fn confirmed(self, now: &State) -> Result<Proof, String> {
        match self.source.difference(now) {
            None => Ok(Proof { fingerprint: self.fingerprint, way: self.way }),
            Some(change) => Err(change),
        }
    }
}

impl Proof {
    /// The fingerprint of both trees.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Which copy it is of.
    pub fn way(&self) -> Way {
        self.way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::Bytes;

    fn summary() -> Summary {
        Summary {
            files: 1,
            directories: 0,
            bytes: Bytes(1),
            fingerprint: Fingerprint { seed: 1, hash: [2; 16] },
        }
    }

    fn copied() -> Evidence {
        Evidence::Copied(Copied::by(Moved::default()))
    }

    #[test]
    fn a_comparison_uses_up_its_pass() {
        let mut known = copied();
        let proof = known.take_copied().unwrap().proven(&summary(), Way::ToLun);
        assert_eq!((proof.fingerprint(), proof.way()), (summary().fingerprint, Way::ToLun));
        assert!(known.take_copied().is_err(), "{known:?}");
    }

    #[test]
    fn whoever_asks_for_other_evidence_gets_none_and_leaves_none() {
        let mut known = copied();
        assert!(known.take_copied_meanwhile().is_err());
        assert!(matches!(known, Evidence::Nothing), "{known:?}");
        known = Evidence::CopiedMeanwhile(CopiedMeanwhile::from(Err("etcd writes".into())));
        assert!(known.take_copied().is_err());
        assert!(matches!(known, Evidence::Nothing), "{known:?}");
        known = copied();
        assert!(known.take_provisional().is_none() && known.proof().is_none());
        assert!(matches!(known, Evidence::Nothing), "{known:?}");
        known = Evidence::Proven(Copied::by(Moved::default()).proven(&summary(), Way::ToLun));
        assert!(known.proof().is_some());
        assert!(known.take_provisional().is_none());
        assert!(known.proof().is_none());
    }

    #[test]
    fn no_proof_begins_with_a_source_that_is_written_to() {
        let copied = CopiedMeanwhile::from(Err("db was written a moment ago".into()));
        assert_eq!(copied.begun().unwrap_err(), "db was written a moment ago");
    }
}
