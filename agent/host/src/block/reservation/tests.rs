//! A stand-in for a target, with what SPC-4 says of these five commands (5.13): each path by itself.

use super::*;
use std::cell::RefCell;

/// A LUN with paths, each registered or not.
#[derive(Debug, Default)]
struct Lun {
    keys: RefCell<Vec<Option<ReservationKey>>>,
    holder: RefCell<Option<usize>>,
}

/// One path to it.
struct Path<'a> {
    lun: &'a Lun,
    number: usize,
}

impl Lun {
    fn path(&self) -> Path<'_> {
        self.keys.borrow_mut().push(None);
        Path { lun: self, number: self.keys.borrow().len() - 1 }
    }
}

impl Path<'_> {
    fn key(&self) -> Option<ReservationKey> {
        self.lun.keys.borrow()[self.number]
    }

    /// Whether the target accepts a write of this path.
    fn may_write(&self) -> bool {
        self.lun.holder.borrow().is_none() || self.key().is_some()
    }

    fn set(&self, key: Option<ReservationKey>) {
        self.lun.keys.borrow_mut()[self.number] = key;
        if key.is_none() && *self.lun.holder.borrow() == Some(self.number) {
            *self.lun.holder.borrow_mut() = None;
        }
    }
}

impl Ask for Path<'_> {
    fn register(&self, key: ReservationKey) -> io::Result<Answer> {
        self.set(Some(key));
        Ok(Answer::Done)
    }

    fn unregister(&self, key: ReservationKey) -> io::Result<Answer> {
        if self.key() != Some(key) {
            return Ok(Answer::Conflict);
        }
        self.set(None);
        Ok(Answer::Done)
    }

    fn reserve(&self, key: ReservationKey) -> io::Result<Answer> {
        let mut holder = self.lun.holder.borrow_mut();
        if self.key() != Some(key) || holder.is_some_and(|holder| holder != self.number) {
            return Ok(Answer::Conflict);
        }
        *holder = Some(self.number);
        Ok(Answer::Done)
    }

    fn preempt(&self, key: ReservationKey) -> io::Result<Answer> {
        if self.key() != Some(key) {
            return Ok(Answer::Conflict);
        }
        let mut keys = self.lun.keys.borrow_mut();
        let mut holder = self.lun.holder.borrow_mut();
        if holder.is_some_and(|holder| keys[holder] == Some(key)) {
            *holder = Some(self.number);
        }
        for (number, registered) in keys.iter_mut().enumerate() {
            if number != self.number && *registered == Some(key) {
                *registered = None;
            }
        }
        Ok(Answer::Done)
    }

    fn clear(&self, key: ReservationKey) -> io::Result<Answer> {
        if self.key() != Some(key) {
            return Ok(Answer::Conflict);
        }
        self.lun.keys.borrow_mut().fill(None);
        *self.lun.holder.borrow_mut() = None;
        Ok(Answer::Done)
    }
}

fn key(of: char) -> ReservationKey {
    ReservationKey::of_machine(&of.to_string().repeat(32)).unwrap()
}

#[test]
fn only_who_has_taken_it_may_write() {
    let lun = Lun::default();
    let (own, other) = (lun.path(), lun.path());
    assert!(own.may_write() && other.may_write());
    take_by(&own, key('a')).unwrap();
    take_by(&own, key('a')).unwrap();
    expect(own.reserve(key('a')).unwrap()).unwrap();
    assert!(own.may_write() && !other.may_write());
}

/// The other computer keeps it, and this one's path is not left registered, with which it could write.
#[test]
fn a_conflict_leaves_nothing() {
    let lun = Lun::default();
    let (own, other) = (lun.path(), lun.path());
    take_by(&other, key('b')).unwrap();
    assert!(matches!(take_by(&own, key('a')), Err(Fault::Conflict)));
    assert!(other.may_write() && !own.may_write());
    assert_eq!(own.key(), None);
}

/// A target that keeps no registration over a loss of power may have registered the path when it says so. Newer kernels return that
/// as an error, and older ones as a status.
#[test]
fn a_registration_that_fails_is_taken_back() {
    struct Forgetful<'a>(Path<'a>, Option<i32>);

    impl Ask for Forgetful<'_> {
        fn register(&self, key: ReservationKey) -> io::Result<Answer> {
            self.0.register(key)?;
            match self.1 {
                Some(code) => Err(io::Error::from_raw_os_error(code)),
                None => Ok(Answer::Refused(2)),
            }
        }

        fn unregister(&self, key: ReservationKey) -> io::Result<Answer> {
            self.0.unregister(key)
        }

        fn reserve(&self, key: ReservationKey) -> io::Result<Answer> {
            self.0.reserve(key)
        }

        fn preempt(&self, key: ReservationKey) -> io::Result<Answer> {
            self.0.preempt(key)
        }

        fn clear(&self, key: ReservationKey) -> io::Result<Answer> {
            self.0.clear(key)
        }
    }

    let lun = Lun::default();
    for code in [None, Some(nix::libc::EINVAL)] {
        let path = Forgetful(lun.path(), code);
        take_by(&path, key('a')).unwrap_err();
        assert_eq!(path.0.key(), None, "{code:?}");
    }
}

/// After a log-in the path is another one.
#[test]
fn it_is_taken_from_an_earlier_path_of_this_node() {
    let lun = Lun::default();
    let (before, now) = (lun.path(), lun.path());
    take_by(&before, key('a')).unwrap();
    take_by(&now, key('a')).unwrap();
    assert!(now.may_write() && !before.may_write());
}

/// A node whose reservation was taken looks, and does not become able to write by that.
#[test]
fn a_look_gives_no_right() {
    let lun = Lun::default();
    let (own, other) = (lun.path(), lun.path());
    take_by(&own, key('a')).unwrap();
    other.register(key('b')).unwrap();
    other.clear(key('b')).unwrap();
    take_by(&other, key('b')).unwrap();
    assert_eq!(own.reserve(key('a')).unwrap(), Answer::Conflict);
    assert!(!own.may_write() && other.may_write());
}

#[test]
fn giving_up_frees_it_for_others() {
    let lun = Lun::default();
    let (own, other) = (lun.path(), lun.path());
    take_by(&own, key('a')).unwrap();
    own.unregister(key('a')).unwrap();
    take_by(&other, key('b')).unwrap();
    assert!(other.may_write() && !own.may_write());
}

#[test]
fn an_event_that_the_target_tells_first_is_no_answer() {
    let told = RefCell::new(2);
    let busy = || {
        let left = told.replace_with(|left| *left - 1);
        Ok(if left > 0 { Answer::Refused(2) } else { Answer::Done })
    };
    assert_eq!(again(busy).unwrap(), Answer::Done);
    assert_eq!(again(|| Ok(Answer::Refused(2))).unwrap(), Answer::Refused(2));
}

#[test]
fn what_the_disk_does_not_do_is_told_from_a_conflict() {
    let of = |code| told("sdb".into(), Fault::Io(io::Error::from_raw_os_error(code)));
    for code in [nix::libc::EINVAL, nix::libc::EOPNOTSUPP, nix::libc::ENOTTY] {
        assert!(matches!(of(code), ReservationError::Unsupported { .. }), "{code}");
    }
    assert!(matches!(of(nix::libc::ENXIO), ReservationError::Io { .. }));
    assert!(matches!(told("sdb".into(), Fault::Conflict), ReservationError::Conflict { .. }));
    for error in [of(nix::libc::EINVAL), of(nix::libc::ENXIO), told("sdb".into(), Fault::Conflict)] {
        let again = ReservationError::of_code("sdb", error.code());
        assert_eq!(std::mem::discriminant(&again), std::mem::discriminant(&error), "{error}");
    }
}

/// As sg_persist 1.46 and 1.48 print them.
#[test]
fn the_keys_that_sg_persist_prints() {
    let printed = "  IET       VIRTUAL-DISK      0001\n  Peripheral device type: disk\n  PR generation=0x2, 2 registered reservation keys follow:\n    0xbed\n    0xbed\n    0x0123456789abcdef\n";
    assert_eq!(keys_in(printed), ["0xbed", "0x0123456789abcdef"]);
    assert!(keys_in("  PR generation=0x0, there are NO registered reservation keys\n").is_empty());
}
