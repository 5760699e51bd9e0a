//! Btrfs' codecs, bytes to bytes: what lies in a compressed extent, and what it decodes to.
//!
//! [`Encoder`] makes the payload of an extent or of an inline item, sector padding and LZO framing
//! included; [`Decoder`] reads what any kernel wrote, and is as strict or as lenient as the kernel:
//! data that ends early is followed by zeros, data that goes on too long is cut. Which codecs and
//! levels there are is said by [`Algorithm`], [`Codec`] and [`Target`].
//!
//! Nothing here does I/O or knows of files and trees. A payload depends on the data, the codec and
//! the sector size alone, never on what an encoder did before. No input makes a decoder panic or
//! take more memory than the data may have, whatever it claims.

mod codec;
mod decode;
mod encode;
mod lzo;
mod zlib;
mod zstd;

pub use codec::{Algorithm, Codec, Target, TargetError};
pub use decode::{DecodeError, Decoder, decode, decode_inline};
pub use encode::Encoder;

/// Most bytes that a compressed extent may have, before and after compression.
pub const COMPRESSED_MAX: usize = 128 * 1024;
