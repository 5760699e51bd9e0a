//! The interactive UI.

use std::sync::Arc;

use anyhow::Result;
use btrpress::tui::{self, Options};

use super::demo::Demo;
use super::open::{Place, Source, Writes, open_devices};

/// Shows the UI until the user leaves it.
pub(crate) fn run(source: Source) -> Result<()> {
    // The demo's copy must outlive the UI.
    let (paths, place, names, _demo) = match source {
        Source::Devices(paths, place) => {
            let names =
                paths.iter().map(|path| tui::text::name(path.as_os_str().as_encoded_bytes()));
            let names = names.collect();
            (paths, place, names, None)
        }
        Source::Demo => {
            let demo = Demo::unpack()?;
            let names = vec!["a copy of the demo image".to_owned()];
            (vec![demo.path().to_owned()], Place::Whole, names, Some(demo))
        }
    };
    tui::run(Options {
        names,
        open: Arc::new(move |access| open_devices(&paths, place, access, Writes::GoThrough)),
    })
}
