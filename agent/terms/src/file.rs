//! Paths, and the two names of a filesystem.

use super::error::TermError;
use std::{
    fmt,
    path::{Component, Path},
    str::FromStr,
};

/// An absolute path in plain form: no `.` or `..`, no doubled or trailing slash, valid UTF-8, no control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AbsPath(String);

pub(super) const PATH_FORM: &str =
    "an absolute path without \".\", \"..\" or a trailing slash, such as \"/var/lib/etcd\"";

impl AbsPath {
    /// A path that stands in this program's source. It is not checked here, and so must be in plain form.
    pub fn of_source(path: &'static str) -> Self {
        Self(path.to_owned())
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path in std's type.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// The directory that holds it; the root is its own parent.
    pub fn parent(&self) -> Self {
        match self.0.rsplit_once('/') {
            Some(("", _)) | None => Self("/".into()),
            Some((parent, _)) => Self(parent.to_owned()),
        }
    }

    /// The last component; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(_, name)| name)
    }

    /// The path of an entry below it. `name` must be a plain relative path.
    pub fn join(&self, name: &str) -> Self {
        let base = self.0.trim_end_matches('/');
        Self(format!("{base}/{name}"))
    }
}

impl FromStr for AbsPath {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let mut components = Path::new(text).components();
        let plain = components.next() == Some(Component::RootDir)
            && components.clone().all(|part| matches!(part, Component::Normal(_)))
            // `components` drops these silently, so the text itself is examined.
            && (text == "/" || !text.ends_with('/'))
            && !text.contains("//")
            && !text.split('/').any(|part| part == ".")
            && !text.chars().any(char::is_control);
        if plain { Ok(Self(text.to_owned())) } else { Err(TermError::new(text, PATH_FORM)) }
    }
}

impl fmt::Display for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An XFS label: 1 to 12 characters (`mkfs.xfs(8)`, `-L`) that udev doesn't escape in `/dev/disk/by-label`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FsLabel(String);

pub(super) const LABEL_FORM: &str =
    "a filesystem label of 1 to 12 letters, digits, \"-\", \"_\" or \".\", such as \"etcd-lun\"";

impl FsLabel {
    /// A label that stands in this program's source. It is not checked here, and so must be valid.
    pub fn of_source(label: &'static str) -> Self {
        Self(label.to_owned())
    }

    /// The label as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FsLabel {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if (1..=12).contains(&text.len()) && text.bytes().all(plain) && text != "." && text != ".." {
            Ok(Self(text.to_owned()))
        } else {
            Err(TermError::new(text, LABEL_FORM))
        }
    }
}

impl fmt::Display for FsLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A filesystem's UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FsUuid(pub [u8; 16]);

pub(super) const UUID_FORM: &str = "a UUID, such as \"0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b\"";

impl FromStr for FsUuid {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let wrong = || TermError::new(text, UUID_FORM);
        let dashes = [8, 13, 18, 23];
        let shape = text.len() == 36
            && text
                .bytes()
                .enumerate()
                .all(|(at, b)| if dashes.contains(&at) { b == b'-' } else { b.is_ascii_hexdigit() });
        if !shape {
            return Err(wrong());
        }
        let number = u128::from_str_radix(&text.replace('-', ""), 16).map_err(|_| wrong())?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for FsUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", u128::from_be_bytes(self.0));
        let part = |range| hex.get(range).unwrap_or_default();
        write!(f, "{}-{}-{}-{}-{}", part(0..8), part(8..12), part(12..16), part(16..20), part(20..32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let path: AbsPath = "/var/lib/etcd".parse().unwrap();
        assert_eq!(
            (path.parent().as_str(), path.name(), path.join("member").as_str()),
            ("/var/lib", "etcd", "/var/lib/etcd/member")
        );
        assert_eq!("/srv".parse::<AbsPath>().unwrap().parent().as_str(), "/");
        for text in ["", "var/lib", "/var/lib/", "/var//lib", "/var/../lib", "/var/./lib", "/a\nb"] {
            assert!(text.parse::<AbsPath>().is_err(), "{text}");
        }
    }

    #[test]
    fn labels_and_uuids() {
        assert!("etcd-lun".parse::<FsLabel>().is_ok());
        for text in ["", "thirteen-long", "a b", "a/b", ".."] {
            assert!(text.parse::<FsLabel>().is_err(), "{text}");
        }
        let text = "0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b";
        assert_eq!(text.parse::<FsUuid>().unwrap().to_string(), text);
        for text in [
            "",
            "0b8d7a5e9a4c4b7e8f0e3f1c2d4e5a6b",
            "0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6g",
            "+b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b",
        ] {
            assert!(text.parse::<FsUuid>().is_err(), "{text}");
        }
    }
}
