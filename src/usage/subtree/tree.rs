//! The tree of directories, numbered in the order of a walk.

use std::collections::HashMap;

use crate::fs::TOP_DIR;

/// A subvolume's directories. A directory's number is its place in a walk that goes through a directory before what is
/// in it, so that all directories below one have numbers that follow its own.
#[derive(Debug)]
pub(super) struct Directories {
    numbers: HashMap<u64, u32>,
    /// By number: inode, parent's number, depth. The top is its own parent.
    walked: Vec<(u64, u32, u32)>,
}

impl Directories {
    /// Numbers those of `inodes` that can be reached from the top, going by `names`: parent and child.
    pub(super) fn new(inodes: impl Iterator<Item = u64>, names: &[(u64, u64)]) -> Self {
        let mut numbers: HashMap<u64, u32> = inodes.map(|ino| (ino, u32::MAX)).collect();
        let mut below: Vec<(u64, u64)> =
            names.iter().copied().filter(|(_, child)| numbers.contains_key(child)).collect();
        below.sort_unstable();
        let mut walked: Vec<(u64, u32, u32)> = Vec::new();
        let mut waiting = vec![(TOP_DIR, 0, 0)];
        while let Some((ino, parent, depth)) = waiting.pop() {
            let number = walked.len() as u32;
            match numbers.get_mut(&ino) {
                // Seen already: only damage makes a directory have two names.
                Some(known) if *known == u32::MAX => *known = number,
                _ => continue,
            }
            walked.push((ino, parent, depth));
            let first = below.partition_point(|(parent, _)| *parent < ino);
            let children = below[first..].iter().take_while(|(parent, _)| *parent == ino);
            waiting.extend(children.map(|(_, child)| (*child, number, depth + 1)));
        }
        numbers.retain(|_, number| *number != u32::MAX);
        Self { numbers, walked }
    }

    pub(super) const fn len(&self) -> usize {
        self.walked.len()
    }

    pub(super) fn number(&self, ino: u64) -> Option<u32> {
        self.numbers.get(&ino).copied()
    }

    pub(super) fn ino(&self, number: usize) -> u64 {
        self.walked[number].0
    }

    /// The number of the directory that a directory is in; the top is in itself.
    pub(super) fn parent(&self, number: u32) -> u32 {
        self.walked[number as usize].1
    }

    /// The lowest directory that holds both, or is one and holds the other.
    pub(super) fn meet(&self, a: u32, b: u32) -> u32 {
        let (mut a, mut b) = (a, b);
        while a != b {
            if self.walked[a as usize].2 >= self.walked[b as usize].2 {
                a = self.parent(a);
            } else {
                b = self.parent(b);
            }
        }
        a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_meet_where_their_paths_part() {
        let names = [(256, 300), (300, 301), (300, 302), (302, 303), (256, 304), (900, 901)];
        let inodes = [256, 300, 301, 302, 303, 304, 901];
        let tree = Directories::new(inodes.into_iter(), &names);
        let number = |ino| tree.number(ino).unwrap();
        let meet = |a, b| tree.ino(tree.meet(number(a), number(b)) as usize);
        assert_eq!(meet(301, 303), 300);
        assert_eq!(meet(302, 303), 302);
        assert_eq!(meet(303, 304), 256);
        assert_eq!(tree.number(901), None);
        assert!(number(303) > number(302) && number(302) > number(300));
    }

    #[test]
    fn a_circle_of_directories_ends() {
        let names = [(256, 257), (257, 258), (258, 257)];
        let tree = Directories::new([256, 257, 258].into_iter(), &names);
        assert_eq!(tree.len(), 3);
    }
}
