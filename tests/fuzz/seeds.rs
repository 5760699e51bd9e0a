//! Writes a corpus to begin with: `seeds DIRECTORY`.

use std::fs;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let corpus = PathBuf::from(std::env::args_os().nth(1).expect("a directory"));
    for (number, (target, bytes)) in btrpress_fuzz::seeds().into_iter().enumerate() {
        let place = corpus.join(target);
        fs::create_dir_all(&place)?;
        fs::write(place.join(format!("seed-{number}")), bytes)?;
    }
    Ok(())
}
