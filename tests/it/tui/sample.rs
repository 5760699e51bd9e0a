//! Models with something in them, and keys to press.

use std::time::Duration;

use btrpress::tui::keymap;
use btrpress::tui::message::{Effect, Message};
use btrpress::tui::model::{
    Amounts, Device, Entry, Extent, Filesystem, Findings, Kind, Line, Model, Place, Prediction,
    Skip, Space, Stored, Subvolume, Survey, Table,
};
use btrpress::tui::theme::{Look, Palette, Signs};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const LOOK: Look = Look { palette: Palette::Rich, signs: Signs::Unicode };

/// Costs by none, zlib, lzo, zstd and prealloc.
pub(crate) fn amounts(disk: [u64; 5], uncompressed: u64, items: u64) -> Amounts {
    let [none, zlib, lzo, zstd, preallocated] = disk;
    let disk_by_method = [none, zlib, lzo, zstd, 0, preallocated];
    let disk: u64 = disk_by_method.iter().sum();
    Amounts {
        disk_by_method,
        uncompressed,
        referenced: uncompressed * 3 / 2,
        exclusive: disk / 3,
        waste: disk / 50,
        fragments: items * 2,
        items,
    }
}

pub(crate) fn filesystem() -> Filesystem {
    Filesystem {
        label: "atlas".to_owned(),
        uuid: "3f1b2c9a-77d0-4e0c-9c1d-2f6f0b8a4e55".to_owned(),
        generation: 4711,
        devices: vec![Device { id: 1, name: "atlas.img".to_owned(), bytes: 512 * MIB }],
        profiles: vec![
            "data single".to_owned(),
            "metadata dup".to_owned(),
            "system dup".to_owned(),
        ],
        format: "crc32c, 16 KiB nodes".to_owned(),
        space: Space {
            data: 231 * MIB,
            metadata: 22 * MIB,
            free: 110 * MIB,
            unallocated: 149 * MIB,
        },
        refusal: None,
    }
}

pub(crate) fn table() -> Table {
    let line = |disk, uncompressed| Line {
        disk: disk * MIB,
        uncompressed: uncompressed * MIB,
        referenced: uncompressed * MIB * 2,
    };
    Table {
        lines: [
            line(120, 120),
            line(31, 80),
            line(18, 40),
            line(58, 220),
            Line::default(),
            line(4, 4),
        ],
    }
}

pub(crate) fn subvolumes() -> Vec<Subvolume> {
    let day = 1_760_000_000;
    let subvolume = |id, parent: Option<u64>, depth, path: &str, snapshot_of: Option<u64>, mib| {
        let name = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("/");
        Subvolume {
            id,
            parent,
            depth,
            name: name.to_owned(),
            path: if path.is_empty() { "/".to_owned() } else { path.to_owned() },
            raw_path: path.as_bytes().to_vec(),
            is_read_only: snapshot_of.is_some(),
            snapshot_of,
            created: (id > 5).then_some(day + id as i64 * 86_400),
            amounts: Some(amounts([mib * MIB / 2, 0, 0, mib * MIB / 2, 0], mib * MIB * 2, 120)),
        }
    };
    vec![
        subvolume(5, None, 0, "", None, 0),
        subvolume(256, Some(5), 1, "home", None, 140),
        subvolume(260, Some(256), 2, "home/mia", None, 64),
        subvolume(257, Some(5), 1, "snapshots", None, 0),
        subvolume(261, Some(257), 2, "snapshots/home-monday", Some(256), 139),
        subvolume(262, Some(257), 2, "snapshots/home-tuesday", Some(256), 141),
        subvolume(258, Some(5), 1, "system", None, 87),
    ]
}

pub(crate) fn entry(name: &[u8], kind: Kind, inode: u64, amounts: Option<Amounts>) -> Entry {
    Entry { name: name.into(), kind, place: Place { tree: 256, inode }, amounts }
}

pub(crate) fn entries() -> Vec<Entry> {
    let zstd = |disk, uncompressed, items| Some(amounts([0, 0, 0, disk, 0], uncompressed, items));
    let raw = |bytes| Some(amounts([bytes, 0, 0, 0, 0], bytes, 1));
    vec![
        entry(b"data", Kind::Directory, 257, Some(amounts([9 * MIB, MIB, 0, 30 * MIB, 0], 130 * MIB, 44))),
        entry(b"machines", Kind::Directory, 258, zstd(11 * MIB, 20 * MIB, 3)),
        entry(b"mia", Kind::Subvolume, 256, raw(64 * MIB)),
        entry(b"notes.txt", Kind::File, 259, zstd(4096, 9000, 1)),
        entry("меню 🍲.txt".as_bytes(), Kind::File, 260, raw(28_672)),
        entry("年度报告.txt".as_bytes(), Kind::File, 261, zstd(8192, 30_000, 1)),
        entry(b"bad \xff\xfe name", Kind::File, 262, raw(1234)),
        entry(b"\x1b[2J\x1b[31mred\x07", Kind::File, 263, raw(77)),
        entry(
            b"a very long name that says nearly everything about what is in it and then goes on.tar",
            Kind::File,
            264,
            Some(amounts([0, 0, 3 * MIB, 0, MIB], 9 * MIB, 1)),
        ),
        entry(b"latest", Kind::Link, 265, Some(Amounts { items: 1, ..Amounts::default() })),
        entry(b"socket", Kind::Other, 266, Some(Amounts { items: 1, ..Amounts::default() })),
        entry(b"empty", Kind::Directory, 267, Some(Amounts { items: 1, ..Amounts::default() })),
        entry(b"still counted", Kind::Directory, 268, None),
    ]
}

pub(crate) fn new_model() -> Model {
    Model::new(LOOK, vec!["atlas.img".to_owned()], (80, 24))
}

/// The overview of a filesystem that is open and counted.
pub(crate) fn overview() -> Model {
    let mut model = new_model();
    model.update(Message::Opened(Box::new(filesystem()), subvolumes()));
    let sharing = vec![
        (vec![256], 5 * MIB),
        (vec![256, 261], 7 * MIB),
        (vec![261], MIB),
        (vec![258], 80 * MIB),
    ];
    model.update(Message::Counted(Box::new(table()), sharing));
    model
}

/// The browser in `home`.
pub(crate) fn browser() -> Model {
    let mut model = overview();
    press(&mut model, "j<Enter>");
    model.update(Message::Listed(Place::root_of(256), Ok(entries())));
    model
}

pub(crate) fn file_findings() -> Findings {
    let on_disk = |at: u64, bytenr, bytes, references, subvolumes: &[u64]| Extent {
        file_offset: at,
        length: 128 << 10,
        stored: Stored::Extent {
            bytenr,
            bytes,
            uncompressed: 128 << 10,
            method: if bytes < 128 << 10 {
                btrpress::tui::model::Method::Zstd
            } else {
                btrpress::tui::model::Method::Uncompressed
            },
            references,
            subvolumes: subvolumes.to_vec(),
        },
    };
    let hole = Extent { file_offset: 384 << 10, length: 256 << 10, stored: Stored::Hole };
    let mut lines = [Line::default(); 6];
    lines[0] = Line { disk: 128 << 10, uncompressed: 128 << 10, referenced: 128 << 10 };
    lines[3] = Line { disk: 81_920, uncompressed: 384 << 10, referenced: 384 << 10 };
    Findings {
        extents: vec![
            on_disk(0, 13_631_488, 40_960, 4, &[256, 261, 262]),
            on_disk(128 << 10, 13_672_448, 20_480, 4, &[256, 261, 262]),
            on_disk(256 << 10, 298_844_160, 131_072, 1, &[256]),
            hole,
            on_disk(640 << 10, 13_692_928, 20_480, 2, &[256, 262]),
        ],
        size: 768 << 10,
        table: Table { lines },
        ratios: [0; 10],
        skips: Vec::new(),
    }
}

pub(crate) fn tree_findings() -> Findings {
    Findings {
        extents: Vec::new(),
        size: 0,
        table: table(),
        ratios: [0, 12 * MIB, 44 * MIB, 31 * MIB, 9 * MIB, 3 * MIB, MIB, 0, 40_960, 124 * MIB],
        skips: vec![
            Skip { reason: "no copy on write".to_owned(), bytes: 12 * MIB, extents: 31 },
            Skip { reason: "preallocated".to_owned(), bytes: 4 * MIB, extents: 1 },
        ],
    }
}

/// The plan for `data`, with predictions for all that can be picked.
pub(crate) fn plan() -> Model {
    let mut model = browser();
    press(&mut model, "jz");
    let predictions = model.plan.as_ref().unwrap().choices.iter().enumerate();
    let predictions = predictions
        .map(|(index, choice)| {
            let after = if index == 0 { 130 } else { 52 - 3 * index as u64 } * MIB;
            let prediction = Prediction {
                after,
                margin: after / 20,
                time: Duration::from_secs(3 * index as u64 * index as u64),
                samples: 32,
            };
            (choice.target, prediction)
        })
        .collect();
    model.update(Message::Surveyed(Box::new(Survey {
        amounts: amounts([9 * MIB, MIB, 0, 30 * MIB, 0], 130 * MIB, 44),
        files: Some(42),
        skips: vec![Skip { reason: "preallocated".to_owned(), bytes: 4 * MIB, extents: 1 }],
        shared_with: vec!["snapshots/home-monday".to_owned(), "snapshots/home-tuesday".to_owned()],
    })));
    model.update(Message::Predicted(predictions));
    model
}

/// Presses keys, written as themselves, as `^d` or as `<Enter>`; what is to be done comes back.
pub(crate) fn press(model: &mut Model, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut rest = keys;
    while let Some(first) = rest.chars().next() {
        let (event, len) = if let Some((name, _)) =
            rest.strip_prefix('<').and_then(|named| named.split_once('>'))
        {
            let code = match name {
                "Enter" => KeyCode::Enter,
                "Esc" => KeyCode::Esc,
                "Left" => KeyCode::Left,
                "Right" => KeyCode::Right,
                "Up" => KeyCode::Up,
                "Down" => KeyCode::Down,
                "PgDn" => KeyCode::PageDown,
                "Backspace" => KeyCode::Backspace,
                "F1" => KeyCode::F(1),
                _ => panic!("unknown key {name}"),
            };
            (KeyEvent::new(code, KeyModifiers::NONE), name.len() + 2)
        } else if let Some(char) = rest.strip_prefix('^').and_then(|rest| rest.chars().next()) {
            (KeyEvent::new(KeyCode::Char(char), KeyModifiers::CONTROL), 2)
        } else {
            (KeyEvent::new(KeyCode::Char(first), KeyModifiers::NONE), first.len_utf8())
        };
        rest = &rest[len..];
        let message = keymap::message(model, event);
        effects.extend(message.and_then(|message| model.update(message)));
    }
    effects
}

/// What is seen in a terminal of this size.
pub(crate) fn screen(model: &Model, width: u16, height: u16) -> String {
    let mut model = model.clone();
    model.update(Message::Resized(width, height));
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| frame.render_widget(&model, frame.area())).unwrap();
    terminal.backend().to_string()
}
