//! `check` finds nothing on what the kernel made, and what was broken on purpose.

use btrpress::check::{Options, run};
use btrpress::usage::unwatched;

use crate::fixture::{ALL, fixture};
use crate::read::open;

mod faults;
mod faults_of_files;
mod faults_of_space;

#[test]
fn nothing_is_wrong_with_what_the_kernel_made() {
    let mut wrong = Vec::new();
    for name in ALL {
        let fixture = fixture(name);
        let fs = open(&fixture);
        let report = run(&fs, Options { data: true }, &mut unwatched).unwrap();
        wrong.extend(
            report.findings.iter().map(|found| format!("{name}: {}: {}", found.at, found.problem)),
        );
        wrong.extend(report.faults.iter().map(|fault| format!("{name}: {fault:?}")));
        assert!(report.blocks > 8 && report.data_bytes > 0, "{name}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
