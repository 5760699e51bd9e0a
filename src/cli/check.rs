//! `check`.

use std::io::{IsTerminal, Write, stderr, stdout};

use anyhow::Result;
use btrpress::check::{Options, Report, run};
use btrpress::device::Access;
use btrpress::usage::Progress;
use btrpress::volume::Fault;
use serde_json::json;

use super::args::CheckArgs;
use super::open::{Place, Source};

/// Status when something is wrong with the filesystem.
const FOUND: u8 = 1;

/// Checks a filesystem and lists what is wrong with it; gives the exit status.
pub(crate) fn check(args: &CheckArgs, place: Place) -> Result<u8> {
    let opened = Source::new(args.devices.clone(), place).open(Access::Read)?;
    let is_watched = stderr().is_terminal();
    let report = run(&opened.fs, Options { data: args.data }, &mut |progress| {
        if is_watched {
            show(progress);
        }
        Ok(())
    });
    if is_watched {
        eprint!("\r\x1b[K");
    }
    let report = report?;
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", json(&report))?;
    } else {
        list(&report, &mut out)?;
    }
    let is_sound = report.count == 0 && report.faults.is_empty();
    Ok(if is_sound { 0 } else { FOUND })
}

fn show(progress: Progress) {
    let percent = (progress.done.saturating_mul(100)).checked_div(progress.total).unwrap_or(0);
    eprint!("\rchecking: {:3} %", percent.min(100));
}

fn list(report: &Report, out: &mut impl Write) -> Result<()> {
    for finding in &report.findings {
        writeln!(out, "{}: {}", finding.at, finding.problem)?;
    }
    let more = report.count.saturating_sub(report.findings.len() as u64);
    if more > 0 {
        writeln!(out, "and {more} more")?;
    }
    for fault in &report.faults {
        writeln!(out, "{}", shown(fault))?;
    }
    writeln!(
        out,
        "{} tree blocks, {} extents and {} bytes of data checked: {}",
        report.blocks,
        report.extents,
        report.data_bytes,
        match report.count + report.faults.len() as u64 {
            0 => "nothing wrong".to_owned(),
            1 => "1 thing wrong".to_owned(),
            count => format!("{count} things wrong"),
        }
    )?;
    Ok(())
}

fn shown(fault: &Fault) -> String {
    format!(
        "{} at byte {}: bad copy of block {}: {}",
        fault.device, fault.physical.byte, fault.logical, fault.kind
    )
}

fn json(report: &Report) -> serde_json::Value {
    let findings: Vec<_> = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "kind": finding.problem.name(),
                "place": finding.at.to_string(),
                "problem": finding.problem.to_string(),
            })
        })
        .collect();
    let faults: Vec<_> = report.faults.iter().map(shown).collect();
    json!({
        "findings": findings,
        "count": report.count,
        "faults": faults,
        "tree_blocks": report.blocks,
        "extents": report.extents,
        "data_bytes": report.data_bytes,
    })
}
