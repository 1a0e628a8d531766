//! The etcd cluster, as this node's member lists it and as its other members answer.

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// The cluster at one moment. It is asked by hand only, and only while this node's etcd runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cluster {
    /// This node's member.
    pub own: Member,
    /// The leader's name, as this node's member sees it; none if it sees no leader.
    pub leader: Option<String>,
    /// All other members, learners too.
    pub others: Vec<Member>,
}

/// The other members' view of this node's member, while its etcd is stopped here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Elsewhere {
    /// It answers on another computer.
    Alive {
        /// Its name.
        name: String,
        /// Where it answers.
        at: String,
    },
    /// It answers on no other computer, or is no member.
    Silent {
        /// The member that was asked.
        asked: String,
    },
    /// There are no other members.
    Alone,
}

/// A member of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Member {
    /// Its name; for a member that has not started yet, its id in hexadecimal digits.
    pub name: String,
    /// True if it is a learner, which has no vote.
    pub learner: bool,
    /// The health of the member.
    pub health: MemberHealth,
}

/// The health of a member. Unknown is not healthy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemberHealth {
    /// It answers, sees the leader that this node's member sees, and has caught up with it.
    Healthy,
    /// It does not, or could not be asked: what was found.
    NotHealthy(String),
}

impl Member {
    /// The health of the member.
    pub fn is_healthy(&self) -> bool {
        self.health == MemberHealth::Healthy
    }
}

impl Cluster {
    /// The number of members with a vote, this node's included.
    pub fn voters(&self) -> usize {
        self.all().filter(|member| !member.learner).count()
    }

    /// The number of voters that must serve for the cluster to take writes: more than half.
    pub fn quorum(&self) -> usize {
        self.voters() / 2 + 1
    }

    /// The number of other voters that are healthy.
    pub fn healthy_others(&self) -> usize {
        self.other_voters().filter(|member| member.is_healthy()).count()
    }

    /// True if the others can do without this node's member: it is a learner, which has no vote, or has the only vote, without which
    /// no other member can do, ever; or enough of the others are healthy.
    pub fn can_spare_own(&self) -> bool {
        self.own.learner || self.voters() == 1 || self.healthy_others() >= self.quorum()
    }

    /// The voters beside this node's member.
    pub fn other_voters(&self) -> impl Iterator<Item = &Member> {
        self.others.iter().filter(|member| !member.learner)
    }

    /// Returns true if this node's member serves: it answers and sees a leader. A learner serves in its way.
    pub fn own_serves(&self) -> bool {
        self.leader.is_some()
    }

    fn all(&self) -> impl Iterator<Item = &Member> {
        std::iter::once(&self.own).chain(&self.others)
    }
}

impl fmt::Display for Cluster {
    /// One line: `3 voters, 2 healthy, leader master-0; master-2: connection refused`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let voters = self.voters();
        if voters == 0 {
            return write!(f, "this member, {}, is a learner, and lists no other", self.own.name);
        }
        let healthy = self.all().filter(|member| !member.learner && member.is_healthy()).count();
        write!(f, "{voters} voter{}, {healthy} healthy", if voters == 1 { "" } else { "s" })?;
        match self.all().filter(|member| member.learner).count() {
            0 => {}
            1 => f.write_str(", 1 learner")?,
            learners => write!(f, ", {learners} learners")?,
        }
        match &self.leader {
            Some(leader) => write!(f, ", leader {leader}")?,
            None => f.write_str(", no leader")?,
        }
        for member in self.all() {
            if let MemberHealth::NotHealthy(why) = &member.health {
                write!(f, "; {}: {why}", member.name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, ill: Option<&str>) -> Member {
        let health = ill.map_or(MemberHealth::Healthy, |why| MemberHealth::NotHealthy(why.into()));
        Member { name: name.into(), learner: false, health }
    }

    #[test]
    fn a_learner_is_no_voter() {
        let learner = Member { learner: true, ..member("d", None) };
        let others = vec![member("b", None), member("c", Some("connection refused")), learner];
        let cluster = Cluster { own: member("a", None), leader: Some("b".into()), others };
        assert_eq!((cluster.voters(), cluster.quorum(), cluster.healthy_others()), (3, 2, 1));
        assert_eq!(cluster.to_string(), "3 voters, 2 healthy, 1 learner, leader b; c: connection refused");
        let alone = Cluster { others: Vec::new(), leader: None, ..cluster };
        assert_eq!(alone.to_string(), "1 voter, 1 healthy, no leader");
    }
}
