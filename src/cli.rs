//! The command line: what can be typed, and what it means.
//!
//! [`Cli`] is the words as typed; each command's module carries it out.

mod args;
mod check;
mod demo;
mod generate;
mod limits;
mod list;
mod open;
mod report;
mod rewrite;
mod status;
mod ui;

pub(crate) use args::{Cli, Command};
pub(crate) use status::exit_status;

use anyhow::Result;
use clap::CommandFactory;
use clap::error::ErrorKind;

use self::open::Source;

/// Carries out what was asked for; gives the exit status.
pub(crate) fn run(cli: Cli) -> Result<u8> {
    let place = cli.place();
    match cli.command {
        Some(Command::Report(args)) => {
            report::run(&Source::new(args.devices.clone(), place), &args)
        }
        Some(Command::Ls(args)) => {
            let (devices, path) = args.split(cli.demo);
            list::list(&Source::new(devices, place), &path, args.units())
        }
        Some(Command::Cat(args)) => {
            let (devices, path) = args.split(cli.demo);
            list::cat(&Source::new(devices, place), &path)
        }
        Some(Command::Recompress(args)) => return rewrite::recompress(&args, place, cli.batch),
        Some(Command::Defrag(args)) => return rewrite::defrag(&args, place, cli.batch),
        Some(Command::Check(args)) => return check::check(&args, place),
        Some(Command::Completions { shell }) => generate::completions(shell),
        Some(Command::Man) => generate::man(),
        None if cli.batch => wrong_usage(
            ErrorKind::MissingSubcommand,
            "--batch needs something to do: recompress or defrag",
        ),
        None => ui::run(Source::new(cli.devices, place)),
    }?;
    Ok(0)
}

/// Ends the program with a message about wrong usage.
pub(crate) fn wrong_usage(kind: ErrorKind, message: &str) -> ! {
    Cli::command().error(kind, message).exit()
}
