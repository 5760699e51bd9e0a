//! Names and levels of the codecs.

use std::{fmt, ops::RangeInclusive, str::FromStr};

/// An algorithm that a kernel can read; also the one that an extent on disk says it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Deflate in a zlib stream.
    Zlib,
    /// LZO1X, sector by sector.
    Lzo,
    /// One Zstandard frame.
    Zstd,
}

impl Algorithm {
    /// Every algorithm, in the order of their numbers on disk.
    pub const ALL: [Self; 3] = [Self::Zlib, Self::Lzo, Self::Zstd];

    /// Number in the `compression` byte of a file extent item.
    pub const fn disk_id(self) -> u8 {
        match self {
            Self::Zlib => 1,
            Self::Lzo => 2,
            Self::Zstd => 3,
        }
    }

    /// Algorithm of a `compression` byte; none for uncompressed (0) and unknown ones.
    pub const fn from_disk_id(id: u8) -> Option<Self> {
        match id {
            1 => Some(Self::Zlib),
            2 => Some(Self::Lzo),
            3 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Name as it is written in mount options and in a [`Target`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::Lzo => "lzo",
            Self::Zstd => "zstd",
        }
    }

    /// Levels that we can write. The level is not on disk, so every kernel reads all of them.
    pub const fn levels(self) -> RangeInclusive<i32> {
        match self {
            Self::Zlib => 1..=12,
            Self::Lzo => 1..=13,
            Self::Zstd => -15..=22,
        }
    }

    /// Level meant when only the algorithm is named; the kernel's, too.
    pub const fn default_level(self) -> i32 {
        match self {
            Self::Zlib | Self::Zstd => 3,
            Self::Lzo => 1,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Algorithm and level, as in `zstd:15`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Codec {
    /// What the extent will say it has.
    pub algorithm: Algorithm,
    /// One of [`Algorithm::levels`].
    pub level: i32,
}

impl From<Algorithm> for Codec {
    /// The algorithm at its default level.
    fn from(algorithm: Algorithm) -> Self {
        Self { algorithm, level: algorithm.default_level() }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.level)
    }
}

/// What data should become, as in `none`, `lzo` or `zstd:15`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Stored as it is.
    None,
    /// Compressed where that saves a sector.
    Codec(Codec),
}

impl Target {
    /// The codec, if there is one.
    pub const fn codec(self) -> Option<Codec> {
        match self {
            Self::None => None,
            Self::Codec(codec) => Some(codec),
        }
    }
}

impl From<Codec> for Target {
    fn from(codec: Codec) -> Self {
        Self::Codec(codec)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Codec(codec) => codec.fmt(f),
        }
    }
}

/// Why a word is no [`Target`]; says what would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The word before the colon names no algorithm.
    #[error("use none, zlib[:1..12], lzo[:1..13] or zstd[:-15..22]")]
    Algorithm,
    /// The algorithm does not have this level.
    #[error("{0} has levels {first} to {last}", first = .0.levels().start(), last = .0.levels().end())]
    Level(Algorithm),
    /// `none` with a level.
    #[error("none has no level")]
    NoneLevel,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        if name == "none" {
            return if level.is_none() { Ok(Self::None) } else { Err(TargetError::NoneLevel) };
        }
        let algorithm = Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
            .ok_or(TargetError::Algorithm)?;
        let Some(level) = level else { return Ok(Self::Codec(algorithm.into())) };
        let level = level
            .parse()
            .ok()
            .filter(|level| algorithm.levels().contains(level))
            .ok_or(TargetError::Level(algorithm))?;
        // To libzstd and the kernel alike, level 0 is another word for the default.
        let level = if level == 0 { algorithm.default_level() } else { level };
        Ok(Self::Codec(Codec { algorithm, level }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codec(algorithm: Algorithm, level: i32) -> Target {
        Target::Codec(Codec { algorithm, level })
    }

    #[test]
    fn a_target_is_read_as_it_is_written() {
        let cases = [
            ("none", Target::None, "none"),
            ("zlib", codec(Algorithm::Zlib, 3), "zlib:3"),
            ("lzo", codec(Algorithm::Lzo, 1), "lzo:1"),
            ("zstd", codec(Algorithm::Zstd, 3), "zstd:3"),
            ("zlib:12", codec(Algorithm::Zlib, 12), "zlib:12"),
            ("lzo:13", codec(Algorithm::Lzo, 13), "lzo:13"),
            ("zstd:22", codec(Algorithm::Zstd, 22), "zstd:22"),
            ("zstd:-15", codec(Algorithm::Zstd, -15), "zstd:-15"),
            ("zstd:0", codec(Algorithm::Zstd, 3), "zstd:3"),
        ];
        for (text, target, shown) in cases {
            assert_eq!(text.parse(), Ok(target), "{text}");
            assert_eq!(target.to_string(), shown);
            assert_eq!(shown.parse(), Ok(target), "{shown}");
        }
    }

    #[test]
    fn a_wrong_target_is_told_what_is_right() {
        let error = |text: &str| text.parse::<Target>().unwrap_err();
        for text in ["", "zst", "ZSTD", "zstd ", ":3", "gzip:9"] {
            assert_eq!(error(text), TargetError::Algorithm, "{text:?}");
        }
        for text in ["zlib:0", "zlib:13", "zlib:", "zlib:x", "zlib:3:3", "zlib: 3"] {
            assert_eq!(error(text), TargetError::Level(Algorithm::Zlib), "{text:?}");
        }
        for text in ["zstd:23", "zstd:-16", "zstd:99999999999"] {
            assert_eq!(error(text), TargetError::Level(Algorithm::Zstd), "{text:?}");
        }
        assert_eq!(error("none:1"), TargetError::NoneLevel);
        assert_eq!(error("zstd:23").to_string(), "zstd has levels -15 to 22");
    }

    #[test]
    fn the_usage_names_every_level() {
        let usage = TargetError::Algorithm.to_string();
        for algorithm in Algorithm::ALL {
            let levels = algorithm.levels();
            let words = format!("{algorithm}[:{}..{}]", levels.start(), levels.end());
            assert!(usage.contains(&words), "{words} is not in {usage:?}");
            assert_eq!(Algorithm::from_disk_id(algorithm.disk_id()), Some(algorithm));
        }
    }
}
