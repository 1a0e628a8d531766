//! Which mount options the config accepts.

use terms::{MountClass, similar_mount_option};

/// What the config expects in the place of this option; none if it accepts the option.
pub(super) fn expected_instead(option: &str) -> Option<&'static str> {
    let plain = |c: char| c.is_ascii_graphic() && c != ',' && c != '%';
    if option.is_empty() || !option.chars().all(plain) {
        return Some("mount options of xfs(5) or mount(8), one per item");
    }
    match MountClass::of(option)? {
        MountClass::Refused(expected) => Some(expected),
        MountClass::Mount | MountClass::Superblock | MountClass::SuperblockFlag => None,
    }
}

/// A warning if neither mount(8) nor xfs(5) has the option. It is an error only where it would be a danger, because a newer kernel
/// may know it.
pub(super) fn warning(option: &str) -> Option<String> {
    if MountClass::of(option).is_some() {
        return None;
    }
    let meant =
        similar_mount_option(option).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
    Some(format!(
        "`{option}` is an option of neither mount(8) nor xfs(5), and the kernel may refuse the mount{meant}"
    ))
}

#[cfg(test)]
mod tests {
    use super::{expected_instead, warning};

    #[test]
    fn known_and_unknown() {
        for option in [
            "prjquota",
            "noatime",
            "logbufs=8",
            "logbsize=256k",
            "x-systemd.device-timeout=5min",
            "dax",
            "context=u:object_r:t:s0",
        ] {
            assert_eq!((warning(option), expected_instead(option)), (None, None), "{option}");
        }
        for (option, said) in [
            ("noatme", "did you mean `noatime`?"),
            ("logbufs", "did you mean `logbufs=`?"),
            ("data=journal", "neither"),
        ] {
            assert!(warning(option).unwrap().contains(said), "{option}: {:?}", warning(option));
        }
        for (option, expected) in [
            ("ro", "a writable mount"),
            ("remount", "an option of a first mount"),
            ("defcontext=u:object_r:t:s0", "`context=`"),
            ("a,b", "one per item"),
            ("a b", "one per item"),
            ("", "one per item"),
            ("context=u:object_r:t:s0:c1,c2", "one per item"),
        ] {
            assert!(expected_instead(option).unwrap().contains(expected), "{option}");
        }
    }
}
