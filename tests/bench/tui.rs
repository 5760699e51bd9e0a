//! From a key to a picture, in a directory of 200,000 rows and with another thread at work: what a user feels.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use btrpress::tui::keymap;
use btrpress::tui::message::Message;
use btrpress::tui::model::{Amounts, Entry, Kind, Model, Place, Subvolume};
use btrpress::tui::theme::{Look, Palette, Signs};
use divan::Bencher;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

const ROWS: u64 = 200_000;
const SCREEN: Rect = Rect::new(0, 0, 160, 50);

fn main() {
    divan::main();
}

/// Names and costs in no order, as a hash table would have them.
fn rows() -> Vec<Entry> {
    let row = |number: u64| {
        let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        Entry {
            name: format!("Message {scattered:x}-{number}.eml").into_bytes().into(),
            kind: if number.is_multiple_of(50) { Kind::Directory } else { Kind::File },
            place: Place { tree: 5, inode: 257 + number },
            amounts: Some(Amounts {
                disk_by_method: [scattered % 4096, 0, 0, scattered % 1_000_000, 0, 0],
                uncompressed: scattered % 3_000_000 + 4096,
                referenced: scattered % 5_000_000,
                exclusive: scattered % 700_000,
                waste: scattered % 4096,
                fragments: scattered % 30,
                items: 1,
            }),
        }
    };
    (0..ROWS).map(row).collect()
}

fn model() -> Model {
    let look = Look { palette: Palette::Rich, signs: Signs::Unicode };
    let mut model = Model::new(look, vec!["bench.img".to_owned()], (SCREEN.width, SCREEN.height));
    let top = Subvolume { id: 5, ..Subvolume::default() };
    model.update(Message::Opened(Box::default(), vec![top]));
    model.update(Message::Scanning(1000, 60_000));
    press(&mut model, KeyCode::Enter);
    model.update(Message::Listed(Place::root_of(5), Ok(rows())));
    press(&mut model, KeyCode::Down);
    model
}

fn press(model: &mut Model, key: KeyCode) {
    let event = KeyEvent::new(key, KeyModifiers::NONE);
    if let Some(message) = keymap::message(model, event) {
        black_box(model.update(message));
    }
}

/// A thread that is never done, in place of a scan.
struct Scan(Arc<AtomicBool>);

impl Scan {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        thread::spawn(move || {
            let mut number: u64 = 1;
            while !flag.load(Ordering::Relaxed) {
                number = black_box(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(9));
            }
        });
        Self(is_over)
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Presses keys, and draws after each; the time is that of the whole row of keys.
fn keys(bencher: Bencher<'_, '_>, keys: &[KeyCode]) {
    let _scan = Scan::start();
    let mut buffer = Buffer::empty(SCREEN);
    bencher.with_inputs(model).bench_local_values(|mut model| {
        for &key in keys {
            press(&mut model, key);
            buffer.reset();
            (&model).render(SCREEN, &mut buffer);
        }
        model
    });
}

#[divan::bench]
fn down(bencher: Bencher<'_, '_>) {
    keys(bencher, &[KeyCode::Down]);
}

#[divan::bench]
fn to_the_end(bencher: Bencher<'_, '_>) {
    keys(bencher, &[KeyCode::End]);
}

#[divan::bench]
fn sort_by_name(bencher: Bencher<'_, '_>) {
    keys(bencher, &[KeyCode::Char('n')]);
}

#[divan::bench]
fn sort_by_ratio(bencher: Bencher<'_, '_>) {
    keys(bencher, &[KeyCode::Char('%')]);
}

#[divan::bench]
fn reverse(bencher: Bencher<'_, '_>) {
    keys(bencher, &[KeyCode::Char('s')]);
}

#[divan::bench]
fn directories_first(bencher: Bencher<'_, '_>) {
    keys(bencher, &[KeyCode::Char('t')]);
}

#[divan::bench]
fn filter(bencher: Bencher<'_, '_>) {
    keys(bencher, &[KeyCode::Char('/'), KeyCode::Char('a')]);
}

#[divan::bench]
fn invert_marks(bencher: Bencher<'_, '_>) {
    keys(bencher, &[KeyCode::Char('*')]);
}
