//! The files of the page, by path. A debug build reads the folder, too: a file that was changed since is sent as it is, so
//! that the change is visible without a rebuild. A release build has only the embedded files.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::domain::hex;

/// A file as `build.rs` lists it.
struct Embedded {
    path: &'static str,
    /// The file before its comments were left out.
    #[cfg(debug_assertions)]
    source: &'static [u8],
    plain: &'static [u8],
    gzip: &'static [u8],
}

static EMBEDDED: &[Embedded] = include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// A file that is ready to be sent. Clones share the bytes.
#[derive(Clone)]
pub(super) struct File {
    pub(super) path: Cow<'static, str>,
    pub(super) plain: Bytes,
    /// The compressed file, if that is shorter.
    pub(super) gzip: Option<Bytes>,
    /// The hash of `plain`.
    pub(super) hash: String,
}

static FILES: LazyLock<HashMap<&'static str, File>> =
    LazyLock::new(|| EMBEDDED.iter().map(|file| (file.path, File::of(file))).collect());

/// The file at this path. The path is compared with the complete paths of the embedded files, so it cannot lead
/// anywhere else.
pub(super) async fn find(path: &str) -> Option<File> {
    let embedded = FILES.get(path);
    #[cfg(debug_assertions)]
    if let Some(plain) = in_folder(path).await
        && EMBEDDED.iter().find(|file| file.path == path).is_none_or(|file| file.source != plain)
    {
        let hash = hash(&plain);
        return Some(File { path: Cow::Owned(path.to_owned()), plain, gzip: None, hash });
    }
    embedded.cloned()
}

/// The current file in the source folder.
#[cfg(debug_assertions)]
async fn in_folder(path: &str) -> Option<Bytes> {
    let is_name = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0']);
    if !path.split('/').all(is_name) {
        return None;
    }
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("console").join(path);
    tokio::fs::read(file).await.ok().map(Bytes::from)
}

fn hash(bytes: &[u8]) -> String {
    hex::of(&Sha256::digest(bytes)[..16])
}

impl File {
    fn of(file: &Embedded) -> Self {
        let is_shorter = file.gzip.len() < file.plain.len();
        Self {
            path: Cow::Borrowed(file.path),
            plain: Bytes::from_static(file.plain),
            gzip: is_shorter.then(|| Bytes::from_static(file.gzip)),
            hash: hash(file.plain),
        }
    }
}
