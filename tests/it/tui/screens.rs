//! Every screen in a small, a usual and a large terminal.

use std::time::Duration;

use btrpress::tui::message::Message;
use btrpress::tui::model::{End, Listing, Model, Place, Progress, Skip};
use btrpress::tui::theme::{Look, Palette, Signs};
use insta::assert_snapshot;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::widgets::Widget;

use super::sample::{
    MIB, amounts, browser, file_findings, filesystem, new_model, overview, plan, press, screen,
    subvolumes, tree_findings,
};

const SIZES: [(u16, u16); 3] = [(60, 15), (80, 24), (160, 50)];

fn assert_screens(name: &str, model: &Model) {
    for (width, height) in SIZES {
        assert_snapshot!(format!("{name}-{width}x{height}"), screen(model, width, height));
    }
}

#[test]
fn the_overview() {
    let mut model = overview();
    assert_screens("overview", &model);
    press(&mut model, "j jj ");
    assert_screens("overview-marked", &model);
}

#[test]
fn a_scan_in_progress() {
    let mut model = new_model();
    assert_screens("opening", &model);
    let uncounted = subvolumes().into_iter().map(|mut subvolume| {
        subvolume.amounts = None;
        subvolume
    });
    model.update(Message::Opened(Box::new(filesystem()), uncounted.collect()));
    model.update(Message::Scanning(1234, 5678));
    model.update(Message::Tick(Duration::from_millis(1234)));
    assert_screens("scanning", &model);
}

#[test]
fn a_filesystem_that_cannot_be_opened_or_written() {
    let mut model = new_model();
    model.update(Message::Failed("atlas.img: no Btrfs superblock was found in it".to_owned()));
    assert_screens("failed", &model);
    let mut model = plan();
    let refusal = "a balance is unfinished; mount it, and let it finish or cancel it".to_owned();
    model.filesystem.as_mut().unwrap().refusal = Some(refusal);
    assert_screens("unwritable-plan", &model);
    press(&mut model, "<Enter>");
    assert_screens("unwritable-confirm", &model);
    press(&mut model, "<Esc><Esc><Esc>");
    assert_screens("unwritable-overview", &model);
}

#[test]
fn the_browser() {
    let mut model = browser();
    assert_screens("browser", &model);
    press(&mut model, "  ");
    model.is_filtering = true;
    press(&mut model, "a");
    assert_screens("browser-filter", &model);
    press(&mut model, "<Esc>nt");
    assert_screens("browser-by-name", &model);
}

#[test]
fn an_empty_directory_and_one_that_is_still_read() {
    let mut model = browser();
    model.trail = vec![Listing::loading(Place::root_of(256), b"home".to_vec())];
    assert_snapshot!("browser-reading", screen(&model, 80, 24));
    model.update(Message::Listed(Place::root_of(256), Ok(Vec::new())));
    assert_snapshot!("browser-empty", screen(&model, 80, 24));
}

#[test]
fn an_empty_filesystem() {
    let mut model = new_model();
    let top = subvolumes().into_iter().take(1);
    model.update(Message::Opened(Box::new(filesystem()), top.collect()));
    model.update(Message::Counted(Box::default(), Vec::new()));
    assert_screens("empty", &model);
}

#[test]
fn the_inspector() {
    let mut model = browser();
    press(&mut model, "Gi");
    let place = model.inspection.as_ref().unwrap().subject.place;
    model.inspection.as_mut().unwrap().subject.kind = btrpress::tui::model::Kind::File;
    model.update(Message::Inspected(place, Ok(Box::new(file_findings()))));
    assert_screens("inspector-file", &model);
    press(&mut model, "<Esc>gi");
    let place = model.inspection.as_ref().unwrap().subject.place;
    model.update(Message::Inspected(place, Ok(Box::new(tree_findings()))));
    assert_screens("inspector-tree", &model);
}

#[test]
fn the_plan_and_its_confirmation() {
    let mut model = plan();
    assert_screens("plan", &model);
    press(&mut model, "u3mjje*.iso");
    assert_snapshot!("plan-typing", screen(&model, 80, 24));
    press(&mut model, "<Esc>");
    press(&mut model, "<Enter>");
    assert_screens("confirm", &model);
}

fn running() -> Model {
    let mut model = plan();
    press(&mut model, "<Enter>Y");
    model.update(Message::Started);
    for second in 1..40_u64 {
        model.update(Message::Progressed(Box::new(Progress {
            done: (second * (2000 + 300 * (second % 5))) << 10,
            written: second * MIB / 2,
            saved: (second * MIB / 3) as i64,
            replaced: second * MIB,
            renewed: second * MIB * 2 / 3,
            extents: 8 * second,
            path: "home/data/年度报告.txt".to_owned(),
            commits: second / 10,
            pass: 1,
            skips: vec![Skip { reason: "no gain".to_owned(), bytes: 0, extents: 9 }],
        })));
        model.update(Message::Tick(Duration::from_millis(1001 * second)));
    }
    model
}

#[test]
fn a_run() {
    let mut model = running();
    assert_screens("run", &model);
    press(&mut model, "p");
    assert_snapshot!("run-paused", screen(&model, 80, 24));
    press(&mut model, "q");
    assert_snapshot!("run-stopping", screen(&model, 80, 24));
    model.update(Message::Finished(End::Stopped));
    assert_snapshot!("run-stopped", screen(&model, 80, 24));
    model.update(Message::Finished(End::Done));
    let mut counted = super::sample::table();
    counted.lines[0].disk -= 17 * MIB;
    model.update(Message::Counted(Box::new(counted), Vec::new()));
    let after = amounts([9 * MIB, 0, 0, 14 * MIB, 0], 130 * MIB, 44);
    model.update(Message::Recounted(Box::new(after)));
    assert_screens("run-done", &model);
    let why = "atlas.img: cannot write at byte 1234: input/output error".to_owned();
    model.update(Message::Finished(End::Failed(why)));
    assert_snapshot!("run-failed", screen(&model, 80, 24));
}

#[test]
fn help_of_each_screen_has_each_of_its_keys() {
    let mut run = running();
    let mut inspector = browser();
    press(&mut inspector, "i");
    for (name, model) in [
        ("overview", &mut overview()),
        ("browser", &mut browser()),
        ("inspector", &mut inspector),
        ("plan", &mut plan()),
        ("run", &mut run),
    ] {
        press(model, "?");
        assert!(model.help.is_some());
        let shown = screen(model, 100, 60);
        for binding in btrpress::tui::keymap::KEYS.iter().filter(|key| key.is_on(model.screen())) {
            assert!(shown.contains(binding.help), "{name}: {}", binding.help);
        }
        assert_snapshot!(format!("help-{name}"), screen(model, 80, 24));
    }
    assert_snapshot!("help-small", screen(&run, 60, 15));
}

#[test]
fn a_terminal_without_colours_or_signs() {
    let mut model = browser();
    model.look = Look { palette: Palette::Plain, signs: Signs::Ascii };
    press(&mut model, "j j");
    assert_snapshot!("ascii-browser", screen(&model, 80, 24));
    press(&mut model, "?");
    assert_snapshot!("ascii-help", screen(&model, 80, 24));
    let mut model = overview();
    model.look = Look { palette: Palette::Plain, signs: Signs::Unicode };
    assert_snapshot!("plain-overview", screen(&model, 80, 24));
    model.look.signs = Signs::Console;
    assert_snapshot!("console-overview", screen(&model, 80, 24));
    for (width, height) in SIZES {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        let plain = Model { look: Look { palette: Palette::Plain, ..model.look }, ..model.clone() };
        plain.render(area, &mut buffer);
        let has_no_colour =
            |cell: &ratatui::buffer::Cell| cell.fg == Color::Reset && cell.bg == Color::Reset;
        assert!(buffer.content.iter().all(has_no_colour), "NO_COLOR means none");
    }
}

#[test]
fn any_size_can_be_drawn() {
    let models = [new_model(), overview(), browser(), plan(), running()]
        .map(|model| (model.screen(), model));
    for (screen_name, model) in &models {
        for (width, height) in
            [(1, 1), (39, 9), (40, 10), (41, 11), (500, 11), (40, 200), (300, 100)]
        {
            let shown = screen(model, width, height);
            assert!(!shown.is_empty(), "{screen_name:?}");
            let mut help = model.clone();
            press(&mut help, "?");
            screen(&help, width, height);
        }
    }
}

#[test]
fn help_fits_the_smallest_screen() {
    for binding in btrpress::tui::keymap::KEYS {
        assert!(binding.help.len() <= 43, "{}", binding.help);
    }
}
