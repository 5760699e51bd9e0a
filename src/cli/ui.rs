//! The interactive UI.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use btrpress::device::Latch;
use btrpress::tui::{self, Options};

use super::demo::Demo;
use super::open::{Source, Writes, open_device};

/// Shows the UI until the user leaves it.
pub(crate) fn run(source: Source) -> Result<()> {
    // The demo's copy must outlive the UI.
    let (paths, names, _demo) = match source {
        Source::Devices(paths) => {
            let names =
                paths.iter().map(|path| tui::text::name(path.as_os_str().as_encoded_bytes()));
            let names = names.collect();
            (paths, names, None)
        }
        Source::Demo => {
            let demo = Demo::unpack()?;
            (vec![demo.path().to_owned()], vec!["a copy of the demo image".to_owned()], Some(demo))
        }
    };
    tui::run(Options {
        names,
        open: Arc::new(move |access| {
            let latch = Latch::default();
            let open = |path: &PathBuf| open_device(path, access, Writes::GoThrough, &latch);
            paths.iter().map(open).collect()
        }),
    })
}
