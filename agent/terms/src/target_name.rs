//! The name of the target, or its names where each of its ports is a target of its own.

use super::{
    error::TermError,
    iscsi::{Iqn, Portal},
};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// The name of a target. Some arrays have a name for each port: to an initiator those are targets that show the same LUNs.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct TargetName {
    /// That of every portal which has none of its own.
    first: Iqn,
    /// All the others, each once.
    others: Vec<Iqn>,
    at: BTreeMap<Portal, Iqn>,
}

impl TargetName {
    /// A name, and those of portals that have one of their own.
    pub fn new(first: Iqn, at: BTreeMap<Portal, Iqn>) -> Self {
        let names = Self::any_of(first, at.values().cloned());
        Self { at, ..names }
    }

    /// Names of which nothing else is known.
    pub fn any_of(first: Iqn, more: impl IntoIterator<Item = Iqn>) -> Self {
        let mut others = Vec::new();
        for name in more {
            if name != first && !others.contains(&name) {
                others.push(name);
            }
        }
        Self { first, others, at: BTreeMap::new() }
    }

    /// The name that this portal serves.
    pub fn at(&self, portal: &Portal) -> &Iqn {
        self.at.get(portal).unwrap_or(&self.first)
    }

    /// Each name once.
    pub fn all(&self) -> impl Iterator<Item = &Iqn> + Clone {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The first name.
    pub fn first(&self) -> &Iqn {
        &self.first
    }

    /// True if it is one of the names.
    pub fn is(&self, name: &str) -> bool {
        self.all().any(|one| one.as_str() == name)
    }
}

impl From<Iqn> for TargetName {
    fn from(name: Iqn) -> Self {
        Self::any_of(name, [])
    }
}

impl FromStr for TargetName {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        text.parse::<Iqn>().map(Self::from)
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.others.iter().try_for_each(|name| write!(f, ", {name}"))
    }
}

impl Serialize for TargetName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let [a, b]: [Iqn; 2] =
            ["iqn.2015-10.com.example:a", "iqn.2015-10.com.example:b"].map(|n| n.parse().unwrap());
        let [first, second]: [Portal; 2] = ["10.0.0.1", "10.0.1.1"].map(|portal| portal.parse().unwrap());
        let both = TargetName::new(
            a.clone(),
            BTreeMap::from([(first.clone(), a.clone()), (second.clone(), b.clone())]),
        );
        assert_eq!((both.at(&first), both.at(&second)), (&a, &b));
        assert_eq!(both.to_string(), "iqn.2015-10.com.example:a, iqn.2015-10.com.example:b");
        assert!(both.is(b.as_str()) && !TargetName::from(a.clone()).is(b.as_str()));
        assert_eq!(TargetName::from(a.clone()).at(&second), &a);
        assert_eq!(TargetName::any_of(a.clone(), [b.clone(), a.clone(), b]).all().count(), 2);
    }
}
