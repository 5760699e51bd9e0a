//! How the program ends.

use std::io;

use btrpress::error::Error;

/// Whether the disk that holds an image is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The exit status for an error; see `--help`.
pub(crate) fn exit_status(error: &anyhow::Error) -> u8 {
    if error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    }) {
        // Who read the output has had enough of it.
        return 0;
    }
    match error.downcast_ref::<Error>() {
        Some(Error::Refused(_) | Error::InUse { .. } | Error::Unsupported(_)) => 3,
        Some(Error::NoSpace(_)) => 5,
        Some(Error::Io { source, .. }) if is_full(source) => 5,
        _ => 1,
    }
}
