//! The image that brings the program to the nodes.

use std::{fmt, str::FromStr};

/// An image, named by the digest of its manifest or of its index: `REGISTRY/REPOSITORY@sha256:DIGEST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRef(String);

impl ImageRef {
    /// The reference as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why nodes can't take the program from an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// There is no digest.
    #[error(
        "`{0}` has no digest, and a tag may name another program tomorrow: give REPOSITORY@sha256:DIGEST, where \
         DIGEST is what `skopeo inspect --format '{{{{.Digest}}}}' docker://{0}` prints"
    )]
    NoDigest(String),
    /// There is a tag beside the digest.
    #[error("`{0}` has a tag and a digest, which podman does not accept together: remove `:{1}`")]
    Tagged(String, String),
    /// The registry is not named.
    #[error("`{0}` does not name its registry: begin with the registry's host name, such as quay.io/")]
    NoRegistry(String),
    /// The registry runs in the cluster.
    #[error(
        "`{0}` is in the cluster's own registry, which a node cannot reach before its kubelet runs: push the image to \
         a registry outside the cluster"
    )]
    InCluster(String),
    /// The text is no reference.
    #[error("`{0}` is not an image, such as quay.io/example/etcd-lun@sha256: and 64 hexadecimal digits")]
    Form(String),
}

/// The name of the cluster's own registry as its service, and the beginning of its name as a route (OpenShift's
/// documentation, "Accessing the registry").
const SERVICE: &str = "image-registry.openshift-image-registry.svc";
const ROUTE: &str = "default-route-openshift-image-registry.";

impl FromStr for ImageRef {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Self, ImageError> {
        let said = || text.to_owned();
        let (name, digest) = text.split_once('@').ok_or_else(|| ImageError::NoDigest(said()))?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_digest =
            digest.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(is_hex));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte);
        if !is_digest || !name.bytes().all(plain) || name.split('/').any(str::is_empty) {
            return Err(ImageError::Form(said()));
        }
        let (registry, repository) = name.split_once('/').ok_or_else(|| ImageError::NoRegistry(said()))?;
        // podman has this rule too: a first part without these is a directory of a registry that the node chooses.
        if !registry.contains(['.', ':']) && registry != "localhost" {
            return Err(ImageError::NoRegistry(said()));
        }
        if let Some((_, tag)) = repository.split_once(':') {
            return Err(ImageError::Tagged(said(), tag.to_owned()));
        }
        let host = registry.split(':').next().unwrap_or_default();
        if host == SERVICE
            || host.strip_prefix(SERVICE).is_some_and(|rest| rest.starts_with('.'))
            || host.starts_with(ROUTE)
        {
            return Err(ImageError::InCluster(said()));
        }
        // Registries refuse capitals in a repository's name (OCI distribution specification, "Pulling manifests").
        if repository.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(ImageError::Form(said()));
        }
        Ok(Self(said()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn references() {
        for name in ["quay.io/a/etcd-lun", "registry:5000/x", "localhost/a/b/c", "192.0.2.1:5000/etcd_lun"] {
            let text = format!("{name}@{DIGEST}");
            assert_eq!(text.parse::<ImageRef>().map(|image| image.to_string()), Ok(text));
        }
        let said = |name: &str| format!("{name}@{DIGEST}").parse::<ImageRef>().unwrap_err();
        let text = |name: &str| format!("{name}@{DIGEST}");
        for name in ["etcd-lun", "a/etcd-lun"] {
            assert_eq!(said(name), ImageError::NoRegistry(text(name)));
        }
        for name in [
            "image-registry.openshift-image-registry.svc:5000/a/b",
            "image-registry.openshift-image-registry.svc.cluster.local/a/b",
            "default-route-openshift-image-registry.apps.example.com/a/b",
        ] {
            assert_eq!(said(name), ImageError::InCluster(text(name)));
        }
        assert_eq!(said("quay.io/A/b"), ImageError::Form(text("quay.io/A/b")));
        assert!(matches!(said("quay.io/a/b:v1"), ImageError::Tagged(_, tag) if tag == "v1"));
        for text in ["quay.io/a/b", "quay.io/a/b:v1", ""] {
            assert_eq!(text.parse::<ImageRef>(), Err(ImageError::NoDigest(text.into())));
        }
        for text in ["quay.io/a b@", "quay.io//b@", "/b@", "quay.io/a/b$(id)@", "quay.io/a\nb@"] {
            let text = format!("{text}{DIGEST}");
            assert_eq!(text.parse::<ImageRef>(), Err(ImageError::Form(text)));
        }
        let upper = format!("quay.io/a/b@{}", DIGEST.to_uppercase());
        for text in ["quay.io/a/b@", "quay.io/a/b@sha256:12", "quay.io/a/b@sha512:12", &upper] {
            assert_eq!(text.parse::<ImageRef>(), Err(ImageError::Form(text.into())));
        }
        let message = ImageError::NoDigest("quay.io/a/b:v1".into()).to_string();
        assert!(message.contains("--format '{{.Digest}}' docker://quay.io/a/b:v1"), "{message}");
    }
}
