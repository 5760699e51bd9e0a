//! The program: reads the command line, carries it out, and tells how it went.

mod cli;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

fn main() -> ExitCode {
    match cli::run(Cli::parse()) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            let status = cli::exit_status(&error);
            if status != 0 {
                eprintln!("btrpress: {error:#}");
            }
            ExitCode::from(status)
        }
    }
}
