//! The built-in image.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

/// Made by `assets/make-demo.sh`.
const IMAGE: &[u8] = include_bytes!("../../assets/demo.img.zst");

/// A copy of the built-in image, which goes when this is dropped.
pub(crate) struct Demo {
    file: NamedTempFile,
}

impl Demo {
    /// Unpacks the image to a temporary file.
    pub(crate) fn unpack() -> Result<Self> {
        let unpack = || {
            let mut file =
                tempfile::Builder::new().prefix("btrpress-demo-").suffix(".img").tempfile()?;
            write_sparse(&mut zstd::Decoder::new(IMAGE)?, file.as_file_mut())?;
            Ok::<_, std::io::Error>(file)
        };
        let file = unpack().context("cannot unpack the demo image to a temporary file")?;
        Ok(Self { file })
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }
}

/// Copies `from` to the empty file `to`, with holes for what is zero.
fn write_sparse(from: &mut dyn Read, to: &mut std::fs::File) -> std::io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let mut block = Vec::with_capacity(ZEROS.len());
    let mut len = 0;
    loop {
        block.clear();
        from.take(ZEROS.len() as u64).read_to_end(&mut block)?;
        if block.is_empty() {
            return to.set_len(len);
        }
        if block != ZEROS[..block.len()] {
            to.seek(SeekFrom::Start(len))?;
            to.write_all(&block)?;
        }
        len += block.len() as u64;
    }
}
