//! What is made from the command line's own description.

use std::io::{Write, stdout};

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;

/// Prints completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "btrpress", &mut text);
    Ok(stdout().write_all(&text)?)
}

/// Prints the manual page.
pub(crate) fn man() -> Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut text)?;
    Ok(stdout().write_all(&text)?)
}
