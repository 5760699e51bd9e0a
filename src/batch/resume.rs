//! The note that a stopped run leaves for the one that goes on.
//!
//! It is a help, not a need: without it all that was done is encoded once more and found to be as good as it gets. What
//! it says wrong leads at worst to an extent that is passed over. So whatever goes wrong with it is passed over as well.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::apply::Outcome;
use crate::batch::Options;
use crate::error::Result;
use crate::fs::Filesystem;
use crate::plan::Settled;
use crate::report::uuid;

/// What must be the same for a note to be of use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    version: String,
    request: String,
    generation: u64,
}

/// The place of one filesystem's note.
pub(super) struct Resume {
    path: Option<PathBuf>,
    head: Head,
}

impl Resume {
    pub(super) fn new(fs: &Filesystem, options: &Options) -> Self {
        let superblock = fs.forest().superblock();
        let path = options.notes.as_ref().map(|folder| folder.join(uuid(&superblock.fsid)));
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let request = format!("{:?}", options.request);
        Self { path, head: Head { version, request, generation: superblock.generation.get() } }
    }

    /// What an earlier run has settled that was stopped, for the same request.
    pub(super) fn settled(&self, fs: &Filesystem) -> Result<Settled> {
        let Some((head, mut settled)) = self.read() else { return Ok(Settled::default()) };
        let now = self.head.generation;
        let same = Head { generation: now, ..head.clone() };
        // An older generation than noted: the filesystem is a copy from before.
        if same != self.head || now < head.generation {
            return Ok(Settled::default());
        }
        if now > head.generation {
            settled.forget_newer(fs.forest(), head.generation)?;
        }
        Ok(settled)
    }

    fn read(&self) -> Option<(Head, Settled)> {
        let bytes = fs::read(self.path.as_ref()?).ok()?;
        let bytes = zstd::decode_all(&bytes[..]).ok()?;
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let (head, settled) = bytes.split_at(end);
        Some((serde_json::from_slice(head).ok()?, Settled::from_bytes(&settled[1..])?))
    }

    /// Leaves a note after a run that was stopped, and takes it away after one that came to its end.
    pub(super) fn keep(&self, options: &Options, outcome: &Outcome) {
        let Some(path) = self.path.as_ref().filter(|_| !options.is_dry_run) else { return };
        if outcome.stopped.is_none() {
            let _ = fs::remove_file(path);
            return;
        }
        let generation = self.head.generation.max(outcome.progress.generation);
        let head = Head { generation, ..self.head.clone() };
        let mut bytes = serde_json::to_vec(&head).expect("texts and numbers are JSON");
        bytes.push(b'\n');
        bytes.extend(outcome.settled.to_bytes());
        let write = || {
            let folder = path.parent().expect("it is in a folder");
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&zstd::encode_all(&bytes[..], 0)?)?;
            file.persist(path).map_err(std::io::Error::from)
        };
        let _ = write();
    }
}
