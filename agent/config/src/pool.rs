//! The config of a whole pool: what all nodes share, and their entries.

use super::{
    backing::{Nodes, Storage},
    chap::SecretSource,
    entry,
    entry_rules::Kind,
    error::ConfigError,
    errors::Errors,
    mount_options,
    node_config::{Config, NodeRow},
    parse,
    parts::{ClusterConfig, EtcdConfig, Target},
    plain_tables::{Boot, HealthConfig, LunConfig},
    shared,
    source::Source,
    tables::NodeTable,
};

/// The config that all nodes of a pool share.
#[derive(Debug, Clone)]
pub struct Pool {
    /// The part of the storage that all nodes share.
    pub storage: Storage,
    /// etcd on every node.
    pub etcd: EtcdConfig,
    /// How etcd is asked about its cluster.
    pub cluster: ClusterConfig,
    /// Requirements for every LUN, and its filesystem.
    pub lun: LunConfig,
    /// Behaviour at boot.
    pub boot: Boot,
    /// The health check that the timer starts.
    pub health: HealthConfig,
    entries: Vec<NodeTable>,
}

impl Pool {
    /// Merges and validates the texts. All errors are found in one run. The entries of nodes are validated later, by
    /// [`Pool::for_node`] and [`Pool::nodes`]: an error in the entry of another node must not stop this one. If there is an error
    /// elsewhere, theirs are listed with it.
    pub fn load(sources: &[Source]) -> Result<Self, ConfigError> {
        if sources.is_empty() {
            return Err(ConfigError::NoFile);
        }
        let (merged, entries) = parse::tables(sources)?;
        let mut errors = Errors::default();
        let shared = shared::validate(&merged, sources, &mut errors);
        if !errors.is_empty() {
            entry::check(&Kind::of_tables(&merged), &entries, &mut errors);
        }
        let pool = shared.map(|(storage, etcd, cluster)| Self {
            storage,
            etcd,
            cluster,
            lun: merged.lun,
            boot: merged.boot,
            health: merged.health,
            entries,
        });
        errors
            .placed(|error| error.at(|key| parse::whereabouts(sources, key, None)))
            .finish(&sources.iter().map(|source| source.path.as_str()).collect::<Vec<_>>(), pool)
    }

    /// The config of one node. Only the entry that matches this node must be complete.
    pub fn for_node(self, machine_id: &str, hostname: &str) -> Result<Config, ConfigError> {
        let Self { storage, etcd, cluster, lun, boot, health, entries } = self;
        let (backing, node) = entry::choose(&storage, &entries, machine_id, hostname)?;
        Ok(Config { backing, storage, etcd, cluster, lun, boot, health, node })
    }

    /// Returns the settings that are legal and probably a mistake. For `config check`.
    pub fn warnings(&self) -> Vec<String> {
        let options = self.lun.mount_options.iter().filter_map(|option| mount_options::warning(option));
        let mut found: Vec<_> = options.map(|said| format!("`lun.mount_options`: {said}")).collect();
        for target in self.storage.targets() {
            self.warn_of(target, &mut found);
        }
        let unnamed = match &self.storage {
            Storage::Iscsi(_) => entry::without_wwid(&self.entries),
            Storage::Device(_) => Vec::new(),
        };
        for (one, other) in entry::overlapping(&self.entries) {
            found.push(format!(
                "`node.hostname`: a node may match both {one} and {other}, and then it has no entry: write patterns of which a node matches one"
            ));
        }
        if !unnamed.is_empty() {
            found.push(format!(
                "`node.wwid`: there is none for {}, so only the number says which LUN is formatted: `etcd-lun luns` prints the WWID on the node",
                unnamed.join(", ")
            ));
        }
        for (number, names) in
            self.storage.targets().iter().flat_map(|one| entry::same_numbers(one, &self.entries))
        {
            found.push(format!(
                "`node.lun`: {} have number {number} and no `wwid`: right only if the array shows each node another LUN under that number",
                names.join(", ")
            ));
        }
        found
    }

    /// Warns of the keys of a target, whichever nodes take it.
    fn warn_of(&self, target: &Target, found: &mut Vec<String>) {
        for (table, chap) in target.chaps() {
            if chap.secrets().any(|secret| matches!(secret, SecretSource::Inline(secret) if secret.is_weak()))
            {
                found.push(SecretSource::short(&target.key(table)));
            }
        }
        match &target.chap {
            None => found.push(format!(
                "{}: there is none, so whoever reaches a portal, a pod too, gets etcd's data by a node's initiator name alone",
                target.key("target.chap")
            )),
            Some(chap) if self.entries.len() > 1 && matches!(chap.password, SecretSource::Inline(_)) => {
                found.push(format!(
                    "{}: all nodes have this secret, and may have each other's LUN with it: use `credential`, with another secret on each node",
                    target.key("target.chap.password")
                ));
            }
            Some(_) => {}
        }
        for portal in target.portals.iter().filter(|portal| portal.is_loopback()) {
            found.push(format!(
                "{}: {portal} is the node itself, and etcd's data would not leave it: this is right for a test only",
                target.key("target.portals")
            ));
        }
        if target.multipath && !target.has_paths(true) {
            found.push(format!(
                "{}: there is one path, because `target.portals` has one portal",
                target.key("target.multipath")
            ));
        }
        if !entry::is_taken(target, &self.entries) {
            found.push(format!("{}: no [[node]] has this `target`", target.key("target.name")));
        }
    }

    /// The entries of all nodes as a table, for people. It is subject to the same rules as [`Pool::nodes`].
    pub fn rows(&self) -> Result<Vec<NodeRow>, ConfigError> {
        entry::rows(&self.storage, &self.entries)
    }

    /// The host names of all entries, in their order. An entry by machine id has none, and one with a pattern neither.
    pub fn host_names(&self) -> Result<Vec<String>, ConfigError> {
        self.nodes()?;
        let patterns = self.patterns();
        let names = self.entries.iter().filter_map(|entry| entry.hostname.clone());
        Ok(names.filter(|name| !patterns.contains(name)).collect())
    }

    /// The patterns of host names. The names of their nodes are not in the config.
    pub fn patterns(&self) -> Vec<String> {
        entry::patterns(&self.entries)
    }

    /// The nodes whose names are known: those of the entries, without the patterns, and these.
    pub fn nodes_named(&self, names: &[String]) -> Result<Nodes, ConfigError> {
        entry::of_names(&self.storage, &self.entries, names)
    }

    /// The pool as it is before its target has LUNs: nobody knows their WWIDs then, so no entry needs one.
    pub fn before_its_luns(mut self) -> Self {
        if let Storage::Iscsi(targets) = &mut self.storage {
            targets.iter_mut().for_each(|target| target.multipath = false);
        }
        self
    }

    /// Returns true if the config has an entry for a node with this name.
    pub fn knows(&self, name: &str) -> bool {
        entry::choose(&self.storage, &self.entries, name, name).is_ok()
    }

    /// True unless the entry for a node with this name says that its etcd stays on its local disk for now.
    pub fn moves(&self, name: &str) -> bool {
        entry::choose(&self.storage, &self.entries, name, name).is_ok_and(|(_, entry)| entry.migrate)
    }

    /// The entries of all nodes. Each must be complete. No two may name the same node, or have the same initiator name, by which
    /// a target distinguishes nodes, or the same LUN.
    pub fn nodes(&self) -> Result<Nodes, ConfigError> {
        entry::all(&self.storage, &self.entries)
    }
}
