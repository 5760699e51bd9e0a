//! The pieces of a file.

use super::Filesystem;
use crate::error::{Error, Result};
use crate::format::{FileExtent, Key, KeyKind};
use crate::tree::Range;

/// A piece of a file: a file extent item, and where in the file it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePiece {
    /// Where in the file it starts, in bytes.
    pub offset: u64,
    /// Where its bytes are.
    pub extent: FileExtent,
    /// The payload of an inline extent, as stored; empty for others.
    pub inline: Vec<u8>,
}

/// Iterator over the pieces of one file, in file order.
#[derive(Debug)]
pub struct FileExtents<'f> {
    root: u64,
    items: Range<'f>,
}

impl Filesystem {
    /// The pieces of a file, in order.
    pub fn file_extents(&self, root: u64, ino: u64) -> Result<FileExtents<'_>> {
        let items = self.forest.tree(root)?.range(Key::all_of_kind(ino, KeyKind::EXTENT_DATA));
        Ok(FileExtents { root, items })
    }
}

impl Iterator for FileExtents<'_> {
    type Item = Result<FilePiece>;

    fn next(&mut self) -> Option<Self::Item> {
        let root = self.root;
        self.items.next().map(|item| {
            let item = item?;
            let key = item.key();
            let (extent, inline) = FileExtent::parse(item.data())
                .map_err(|damage| Error::in_item(damage, root, key))?;
            Ok(FilePiece { offset: key.offset, extent, inline: inline.to_vec() })
        })
    }
}
