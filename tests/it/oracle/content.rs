//! Bytes to fill files with: the same seed gives the same bytes on every machine.

/// Words of the text-like contents; the first ones come most often.
const WORDS: [&str; 48] = [
    "the",
    "of",
    "extent",
    "and",
    "to",
    "tree",
    "a",
    "in",
    "block",
    "is",
    "for",
    "node",
    "that",
    "leaf",
    "with",
    "root",
    "key",
    "as",
    "item",
    "on",
    "offset",
    "be",
    "level",
    "by",
    "parent",
    "this",
    "snapshot",
    "from",
    "reference",
    "an",
    "checksum",
    "commit",
    "at",
    "generation",
    "which",
    "superblock",
    "or",
    "chunk",
    "device",
    "are",
    "subvolume",
    "stripe",
    "it",
    "balance",
    "mirror",
    "not",
    "\n",
    ".\n\n",
];

/// How compressible a piece of content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Prose: about a third of its size when compressed.
    Text,
    /// Records of counters, small numbers and noise: about half.
    Records,
    /// Noise, which nothing makes smaller.
    Noise,
    /// Zeros that are written out.
    Zeros,
    /// Stretches of all the others, changing every 4 to 200 KiB.
    Mixed,
}

/// A small generator of numbers (splitmix64).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// Goes on from `state`, which `new` makes of a seed.
    pub(crate) const fn of(state: u64) -> Self {
        Self(state)
    }

    pub(crate) const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }
}

/// `len_bytes` of content.
pub(crate) fn content(kind: Kind, seed: u64, len_bytes: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed ^ ((kind as u64) << 56));
    let mut bytes = Vec::with_capacity(len_bytes as usize + 64);
    while (bytes.len() as u64) < len_bytes {
        match kind {
            Kind::Text => {
                // The smaller of two rolls: some words far more often than others.
                let word = dice.below(WORDS.len() as u64).min(dice.below(WORDS.len() as u64));
                bytes.extend_from_slice(WORDS[word as usize].as_bytes());
                bytes.push(b' ');
            }
            Kind::Records => {
                bytes.extend_from_slice(&(bytes.len() as u64 / 24).to_le_bytes());
                bytes.extend_from_slice(&(dice.below(50_000)).to_le_bytes());
                bytes.extend_from_slice(&dice.roll().to_le_bytes());
            }
            Kind::Noise => bytes.extend_from_slice(&dice.roll().to_le_bytes()),
            Kind::Zeros => bytes.resize(len_bytes as usize, 0),
            Kind::Mixed => {
                let kinds = [Kind::Text, Kind::Records, Kind::Noise, Kind::Zeros];
                let stretch_bytes = 4096 + dice.below(196 << 10);
                let kind = kinds[dice.below(4) as usize];
                bytes.extend(content(kind, dice.roll(), stretch_bytes));
            }
        }
    }
    bytes.truncate(len_bytes as usize);
    bytes
}
