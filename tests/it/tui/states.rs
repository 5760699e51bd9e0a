//! Messages in, model and effects out.

use btrpress::compress::Target;
use btrpress::tui::message::{Action, Effect, Message};
use btrpress::tui::model::{Column, Cursor, Entry, Job, Kind, Model, Notice, Place, Screen, Step};

use super::sample::{MIB, amounts, browser, entries, entry, filesystem, overview, plan, press};

fn shown(model: &Model) -> Vec<String> {
    let listing = model.listing().unwrap();
    let name =
        |&index: &u32| String::from_utf8_lossy(&listing.entries[index as usize].name).into_owned();
    listing.shown.iter().map(name).collect()
}

fn selected(model: &Model) -> String {
    String::from_utf8_lossy(&model.listing().unwrap().selected().unwrap().name).into_owned()
}

#[test]
fn entering_lists_and_leaving_comes_back_to_the_same_row() {
    let mut model = overview();
    assert_eq!(press(&mut model, "j<Enter>"), [Effect::List(vec![Place::root_of(256)])]);
    assert_eq!(model.screen(), Screen::Browser);
    model.update(Message::Listed(Place::root_of(256), Ok(entries())));
    press(&mut model, "j");
    assert_eq!(selected(&model), "data");
    assert_eq!(press(&mut model, "l"), [Effect::List(vec![Place { tree: 256, inode: 257 }])]);
    assert_eq!(model.listing().unwrap().path, b"home/data");
    press(&mut model, "h");
    assert_eq!(selected(&model), "data");
    press(&mut model, "<Left>");
    assert_eq!((model.screen(), model.cursor.at), (Screen::Overview, 1));
}

#[test]
fn another_subvolume_is_entered_in_its_own_tree() {
    let mut model = browser();
    assert_eq!(selected(&model), "mia");
    assert_eq!(press(&mut model, "l"), [Effect::List(vec![Place { tree: 256, inode: 256 }])]);
}

#[test]
fn a_file_is_inspected_and_a_late_answer_is_not_taken_for_another() {
    let mut model = browser();
    press(&mut model, "n");
    while selected(&model) != "notes.txt" {
        press(&mut model, "j");
    }
    let effects = press(&mut model, "<Enter>");
    assert!(
        matches!(&effects[..], [Effect::Inspect(subject)] if subject.path == b"home/notes.txt")
    );
    let elsewhere = Place { tree: 1, inode: 1 };
    model.update(Message::Inspected(elsewhere, Ok(Box::new(super::sample::file_findings()))));
    assert!(model.inspection.as_ref().unwrap().findings.is_none());
    press(&mut model, "q");
    assert_eq!(model.screen(), Screen::Browser);
}

#[test]
fn every_column_orders_and_again_reverses() {
    let mut model = browser();
    assert_eq!(shown(&model)[..3], ["mia", "data", "machines"]);
    press(&mut model, "s");
    assert_eq!(shown(&model)[0], "still counted");
    press(&mut model, "s");
    assert_eq!(shown(&model)[0], "mia");
    press(&mut model, "n");
    assert_eq!(
        shown(&model)[1],
        "a very long name that says nearly everything about what is in it and then goes on.tar"
    );
    press(&mut model, "nt");
    assert_eq!(shown(&model)[..4], ["still counted", "mia", "machines", "empty"]);
    for (key, column) in [
        ("%", Column::Percent),
        ("w", Column::Waste),
        ("x", Column::Exclusive),
        ("C", Column::Items),
    ] {
        press(&mut model, key);
        assert_eq!((model.order.column, model.order.is_reversed), (column, false));
    }
    press(&mut model, "a");
    assert_eq!(model.order.column, Column::Disk);
}

#[test]
fn the_row_under_the_cursor_stays_when_rows_are_ordered_or_filled_in() {
    let mut model = browser();
    press(&mut model, "jj");
    assert_eq!(selected(&model), "machines");
    press(&mut model, "n");
    assert_eq!(selected(&model), "machines");
    let mut counted = entries();
    counted[12].amounts = Some(amounts([900 * MIB, 0, 0, 0, 0], 900 * MIB, 3));
    press(&mut model, "s");
    model.update(Message::Listed(Place::root_of(256), Ok(counted)));
    assert_eq!(selected(&model), "machines");
    assert_eq!(shown(&model)[0], "still counted");
}

#[test]
fn marks_survive_filling_in_and_are_summed() {
    let mut model = browser();
    press(&mut model, " j ");
    let listing = model.listing().unwrap();
    assert_eq!(listing.marked_total().0, 2);
    assert_eq!(listing.marked_total().1.disk(), 75 * MIB);
    model.update(Message::Listed(Place::root_of(256), Ok(entries())));
    assert_eq!(model.listing().unwrap().marked_total().0, 2);
    let mut fewer = entries();
    fewer.remove(0);
    model.update(Message::Listed(Place::root_of(256), Ok(fewer)));
    assert_eq!(model.listing().unwrap().marked_total().1.disk(), 75 * MIB);
    press(&mut model, "*");
    assert_eq!(model.listing().unwrap().marked_total().0, 10);
}

#[test]
fn a_filter_narrows_while_it_is_typed() {
    let mut model = browser();
    press(&mut model, "/TXT");
    assert_eq!(shown(&model).len(), 3);
    press(&mut model, "<Backspace><Backspace><Backspace>МЕНЮ<Enter>");
    assert_eq!(shown(&model), ["меню 🍲.txt"]);
    assert!(!model.is_filtering);
    press(&mut model, "<Esc>");
    assert_eq!(shown(&model).len(), entries().len());
    assert_eq!(selected(&model), "меню 🍲.txt");
    assert_eq!(model.screen(), Screen::Browser);
    press(&mut model, "/xyzzy");
    assert!(model.listing().unwrap().selected().is_none());
    assert_eq!(press(&mut model, "<Enter>zlihG "), []);
}

#[test]
fn what_dropping_subvolumes_frees_is_what_only_they_share() {
    let mut model = overview();
    assert_eq!(model.freed_by_marked(), Some(0));
    press(&mut model, "j ");
    assert_eq!(model.freed_by_marked(), Some(5 * MIB));
    model.marked.insert(261);
    assert_eq!(model.freed_by_marked(), Some(13 * MIB));
}

#[test]
fn nothing_is_written_before_a_capital_y() {
    let mut model = plan();
    let is_run = |effect: &Effect| matches!(effect, Effect::Run(_));
    assert!(!press(&mut model, "Yy z").iter().any(is_run));
    press(&mut model, "<Enter>");
    assert_eq!(model.screen(), Screen::Confirm);
    assert!(!press(&mut model, "y<Enter> zj").iter().any(is_run));
    let effects = press(&mut model, "Y");
    let [Effect::Run(request)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((request.job, request.target.to_string()), (Job::Recompress, "zstd:9".to_owned()));
    assert_eq!(request.subjects[0].path, b"home/data");
    assert!(!press(&mut model, "Y").iter().any(is_run), "it is confirmed once");
}

#[test]
fn what_cannot_be_written_is_not_run() {
    let mut model = plan();
    model.filesystem.as_mut().unwrap().refusal = Some("it is mounted".to_owned());
    assert_eq!(press(&mut model, "<Enter>Y"), []);
    let mut model = plan();
    press(&mut model, "<Enter>Y");
    model.update(Message::Refused("the device is in use".to_owned()));
    assert_eq!(model.screen(), Screen::Confirm);
    assert!(!model.is_running());
    assert_eq!(press(&mut model, "Y").len(), 1, "it may be tried again");
}

#[test]
fn what_was_confirmed_can_be_taken_back_until_it_begins() {
    let mut model = plan();
    press(&mut model, "<Enter>Y");
    assert_eq!(press(&mut model, "qq"), [Effect::Stop]);
    assert_eq!(model.screen(), Screen::Confirm);
    model.update(Message::Refused("stopped before anything was written".to_owned()));
    assert!(!model.is_running() && !model.is_done);
    press(&mut model, "q");
    assert_eq!(model.screen(), Screen::Plan);
    press(&mut model, "<Enter>Y");
    assert_eq!(model.update(Message::Terminate), Some(Effect::Stop));
    model.update(Message::Refused("stopped before anything was written".to_owned()));
    assert!(model.is_done);
}

#[test]
fn levels_change_and_predictions_follow() {
    let mut model = plan();
    let effects = press(&mut model, "l");
    let [Effect::Predict(request, targets)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(
        (request.target.to_string(), targets[0].to_string()),
        ("zstd:10".into(), "zstd:10".into())
    );
    let target = |model: &Model| model.plan.as_ref().unwrap().choice().target.to_string();
    for _ in 0..40 {
        press(&mut model, "l");
    }
    assert_eq!(target(&model), "zstd:22");
    for _ in 0..40 {
        press(&mut model, "<Left>");
    }
    assert_eq!(target(&model), "zstd:-15");
    press(&mut model, "lllllllllllllll");
    assert_eq!(target(&model), "zstd:1", "there is no level 0");
    press(&mut model, "g");
    assert_eq!(model.plan.as_ref().unwrap().choice().target, Target::None);
    assert_eq!(press(&mut model, "l"), []);
}

#[test]
fn options_make_predictions_anew() {
    let mut model = plan();
    let effects = press(&mut model, "u");
    let [Effect::Predict(request, _)] = &effects[..] else { panic!("{effects:?}") };
    assert!(request.options.only_uncompressed);
    assert!(model.plan.as_ref().unwrap().choices.iter().all(|choice| choice.prediction.is_none()));
    press(&mut model, "mmM");
    assert_eq!(model.plan.as_ref().unwrap().options.min_gain, 1);
    press(&mut model, "e*.iso<Enter>equ<Esc>");
    assert_eq!(model.plan.as_ref().unwrap().options.excludes, ["*.iso"]);
    press(&mut model, "e<Enter>");
    assert!(model.plan.as_ref().unwrap().options.excludes.is_empty());
    assert_eq!(press(&mut model, "q"), [Effect::Forget]);
}

#[test]
fn a_run_is_paused_and_stopped_and_only_then_left() {
    let mut model = plan();
    press(&mut model, "<Enter>Y");
    model.update(Message::Started);
    assert_eq!(model.screens, [Screen::Overview, Screen::Browser, Screen::Run]);
    assert_eq!(press(&mut model, "pp"), [Effect::Pause(true), Effect::Pause(false)]);
    assert_eq!(press(&mut model, "^c"), [Effect::Stop]);
    assert_eq!(press(&mut model, "qq"), []);
    assert!(!model.is_done && model.screen() == Screen::Run);
    model.update(Message::Finished(btrpress::tui::model::End::Stopped));
    press(&mut model, "q");
    assert_eq!(model.screen(), Screen::Browser);
    press(&mut model, "^c");
    assert!(model.is_done);
}

#[test]
fn a_new_opening_lists_what_is_open_again() {
    let mut model = browser();
    let subvolumes = super::sample::subvolumes();
    let effect = model.update(Message::Opened(Box::new(filesystem()), subvolumes));
    assert_eq!(effect, Some(Effect::List(vec![Place::root_of(256)])));
    assert_eq!(model.cursor.at, 1);
    let counted = amounts([1, 0, 0, 0, 0], 1, 1);
    let effect = model.update(Message::SubvolumesCounted(vec![(256, counted)]));
    assert_eq!(effect, Some(Effect::List(vec![Place::root_of(256)])));
}

#[test]
fn an_export_has_the_marked_rows_or_all_that_are_shown() {
    let mut model = browser();
    let effects = press(&mut model, "/txt<Enter>E");
    let [Effect::Export(rows)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(rows.len(), 3);
    let effects = press(&mut model, " E");
    let [Effect::Export(rows)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(rows.len(), 1);
    model.update(Message::Exported(Ok("rows.json".to_owned())));
    assert_eq!(model.notice, Some(Notice::Info("written to rows.json".to_owned())));
    press(&mut model, "j");
    assert_eq!(model.notice, None);
}

#[test]
fn the_mouse_selects_opens_and_orders() {
    let mut model = browser();
    model.update(Message::Click(5, 6));
    assert_eq!(model.listing().unwrap().cursor.at, 2);
    model.update(Message::Click(5, 3));
    assert_eq!(model.order.column, Column::Name);
    assert_eq!(selected(&model), "machines");
    let at = model.listing().unwrap().cursor.at as u16;
    let effect = model.update(Message::Click(5, 4 + at));
    assert_eq!(effect, Some(Effect::List(vec![Place { tree: 256, inode: 258 }])));
    model.update(Message::Act(Action::Go(Step::By(3))));
}

#[test]
fn the_window_follows_the_cursor_and_never_goes_past_the_end() {
    let mut cursor = Cursor::default();
    cursor.step(Step::By(15), 100, 10);
    assert_eq!(cursor.window(100, 10), 6..16);
    cursor.step(Step::By(-3), 100, 10);
    assert_eq!((cursor.at, cursor.window(100, 10)), (12, 6..16));
    cursor.step(Step::Halves(2), 100, 10);
    assert_eq!(cursor.at, 22);
    cursor.step(Step::Last, 100, 10);
    assert_eq!(cursor.window(100, 10), 90..100);
    assert_eq!(cursor.window(100, 30), 70..100);
    assert_eq!(cursor.window(100, 300), 0..100);
    cursor.step(Step::First, 0, 0);
    assert_eq!((cursor.at, cursor.window(0, 0)), (0, 0..0));
}

#[test]
fn keys_in_help_scroll_or_close_it() {
    let mut model = overview();
    model.size = (60, 15);
    press(&mut model, "?jj");
    assert_eq!(model.help, Some(2));
    press(&mut model, "z");
    assert_eq!((model.help, model.screen()), (None, Screen::Overview));
    press(&mut model, "q");
    assert!(model.is_done);
}

#[test]
fn a_directory_with_200_000_rows_is_ordered_by_every_column() {
    let many: Vec<Entry> = (0..200_000_u64)
        .map(|number| {
            let name = format!("file-{:06}", number * 7919 % 200_000);
            entry(
                name.as_bytes(),
                Kind::File,
                number,
                Some(amounts([number % 977, 0, 0, 0, 0], 977, 1)),
            )
        })
        .collect();
    let mut model = browser();
    model.update(Message::Listed(Place::root_of(256), Ok(many)));
    press(&mut model, "n");
    let names = shown(&model);
    assert!(names.is_sorted() && names.len() == 200_000);
    press(&mut model, "/file-19999");
    assert_eq!(shown(&model).len(), 10);
}

#[test]
fn a_signal_ends_the_program_but_a_run_only_after_its_commit() {
    let mut model = browser();
    assert_eq!(model.update(Message::Terminate), None);
    assert!(model.is_done);
    let mut model = plan();
    press(&mut model, "<Enter>Y");
    model.update(Message::Started);
    assert_eq!(model.update(Message::Terminate), Some(Effect::Stop));
    assert!(!model.is_done);
    model.update(Message::Finished(btrpress::tui::model::End::Stopped));
    assert!(model.is_done);
}
