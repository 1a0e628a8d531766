//! What the lanes of a suite share: whatever the first of them makes, and the others only copy.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};

/// A directory that several processes share.
#[derive(Debug, Clone)]
pub struct Shared(PathBuf);

/// What is in a [`Shared`] directory, and who made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its own directory.
    pub dir: PathBuf,
    /// Whether this call made it.
    pub now: bool,
}

impl Shared {
    /// Uses a directory, and makes it if it is absent.
    pub fn at(dir: PathBuf) -> Result<Self> {
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(Self(dir))
    }

    /// The directory of what is called `name`. The first process that asks for it makes it, and others wait meanwhile. If that
    /// fails, the next one that asks makes it.
    pub fn once(&self, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<Made> {
        let lock = self.0.join(format!("{name}.lock"));
        let open = File::create(&lock).with_context(|| format!("cannot create {}", lock.display()))?;
        let _lock = Flock::lock(open, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
        let dir = self.0.join(name);
        if dir.exists() {
            return Ok(Made { dir, now: false });
        }
        let unfinished = self.0.join(format!("{name}.unfinished"));
        fs::remove_dir_all(&unfinished).ok();
        fs::create_dir(&unfinished)?;
        make(&unfinished)?;
        fs::rename(&unfinished, &dir)?;
        Ok(Made { dir, now: true })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_makes_it_and_the_others_wait() {
        let root = std::env::temp_dir().join(format!("bed-shared-test-{}", std::process::id()));
        let shared = Shared::at(root.clone()).unwrap();
        let half_made = |dir: &Path| {
            fs::write(dir.join("half"), "")?;
            anyhow::bail!("no")
        };
        assert!(shared.once("node", half_made).is_err());
        let times = AtomicUsize::new(0);
        let make = |dir: &Path| {
            times.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(20));
            Ok(fs::write(dir.join("whole"), "")?)
        };
        let made: Vec<Made> = std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..4).map(|_| scope.spawn(|| shared.once("node", make).unwrap())).collect();
            lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
        });
        assert_eq!(times.load(Ordering::SeqCst), 1);
        assert_eq!(made.iter().filter(|made| made.now).count(), 1);
        for made in made {
            let files: Vec<_> =
                fs::read_dir(made.dir).unwrap().map(|file| file.unwrap().file_name()).collect();
            assert_eq!(files, ["whole"]);
        }
        fs::remove_dir_all(root).unwrap();
    }
}
