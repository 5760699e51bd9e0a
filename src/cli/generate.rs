//! What is made from the command line's own description.

use std::io::{Write, stdout};

use anyhow::Result;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::Cli;

/// Prints completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "btrpress", &mut text);
    Ok(stdout().write_all(&text)?)
}

/// Prints the manual page: of the program, then of each command.
pub(crate) fn man() -> Result<()> {
    let mut program = Cli::command();
    program.build();
    let mut text = Vec::new();
    let page = Man::new(program.clone());
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    text.extend(body(&program)?);
    for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
        writeln!(text, ".SH \"BTRPRESS {}\"", command.get_name().to_uppercase())?;
        // Its sections are parts of one of this page.
        text.extend(String::from_utf8(body(command)?)?.replace(".SH ", ".SS ").into_bytes());
    }
    Ok(stdout().write_all(&text)?)
}

/// How a command is called, what it does, its options, and what its help says after them.
fn body(command: &Command) -> Result<Vec<u8>> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for paragraph in after.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        let (title, lines) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        writeln!(text, ".SH {}\n.nf", title.trim_end_matches(':').to_uppercase())?;
        writeln!(text, "{}\n.fi", lines.replace('\\', "\\e").replace('-', "\\-"))?;
    }
    Ok(text)
}
