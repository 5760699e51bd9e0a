//! Keys: one table, which the footer and the help show too.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::message::{Action, Message};
use super::model::{Column, Model, Screen, Step};

/// What some keys do on some screens.
#[derive(Debug)]
pub struct Binding {
    keys: &'static [Key],
    /// The keys as they are shown.
    pub label: &'static str,
    /// What they do, as help tells it.
    pub help: &'static str,
    /// What they do, in a word for the footer; none where they don't belong there.
    pub hint: Option<&'static str>,
    action: Action,
    screens: &'static [Screen],
}

#[derive(Debug, Clone, Copy)]
enum Key {
    Plain(KeyCode),
    Ctrl(char),
}

use Action as A;
use Column as C;
use Key::{Ctrl, Plain};
use KeyCode as K;
use Screen::{Browser, Confirm, Inspector, Overview, Plan, Run};

const LISTS: &[Screen] = &[Overview, Browser, Inspector, Plan];
const ROWS: &[Screen] = &[Overview, Browser];
const EVERYWHERE: &[Screen] = &[Overview, Browser, Inspector, Plan, Confirm, Run];

const fn ch(char: char) -> Key {
    Plain(K::Char(char))
}

const fn bind(
    screens: &'static [Screen],
    keys: &'static [Key],
    label: &'static str,
    action: Action,
    help: &'static str,
) -> Binding {
    Binding { keys, label, help, hint: None, action, screens }
}

impl Binding {
    const fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Whether it does something on `screen`.
    pub fn is_on(&self, screen: Screen) -> bool {
        self.screens.contains(&screen)
    }

    fn has(&self, event: KeyEvent) -> bool {
        let is_ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        self.keys.iter().any(|&key| match key {
            Plain(code) => !is_ctrl && event.code == code,
            Ctrl(char) => is_ctrl && event.code == K::Char(char),
        })
    }
}

/// Every key, the more important ones first.
#[rustfmt::skip]
pub const KEYS: &[Binding] = &[
    bind(&[Confirm], &[ch('Y')], "Y", A::Write, "write: begin the run").hint("write"),
    bind(ROWS, &[Plain(K::Enter), ch('l'), Plain(K::Right)], "Enter l →", A::Enter, "open what is under the cursor").hint("open"),
    bind(&[Plan], &[Plain(K::Enter)], "Enter", A::Enter, "go on to the last question").hint("continue"),
    bind(&[Browser], &[ch('h'), Plain(K::Left), Plain(K::Backspace), ch('<')], "h ← ⌫ <", A::Leave, "out to the parent directory").hint("out"),
    bind(&[Plan], &[ch('l'), Plain(K::Right), ch('+')], "l →", A::Level(1), "raise the level").hint("level"),
    bind(&[Plan], &[ch('h'), Plain(K::Left), ch('-')], "h ←", A::Level(-1), "lower the level"),
    bind(&[Run], &[ch('p')], "p", A::Pause, "pause, or go on").hint("pause"),
    bind(&[Run], &[ch('q'), Plain(K::Esc)], "q Esc", A::Stop, "stop after the current commit, then back").hint("stop"),
    bind(LISTS, &[ch('j'), Plain(K::Down)], "j ↓", A::Go(Step::By(1)), "down"),
    bind(LISTS, &[ch('k'), Plain(K::Up)], "k ↑", A::Go(Step::By(-1)), "up"),
    bind(LISTS, &[ch('g'), Plain(K::Home)], "g Home", A::Go(Step::First), "to the first row"),
    bind(LISTS, &[ch('G'), Plain(K::End)], "G End", A::Go(Step::Last), "to the last row"),
    bind(LISTS, &[Plain(K::PageDown), Ctrl('f')], "PgDn ^f", A::Go(Step::Halves(2)), "a page down"),
    bind(LISTS, &[Plain(K::PageUp), Ctrl('b')], "PgUp ^b", A::Go(Step::Halves(-2)), "a page up"),
    bind(LISTS, &[Ctrl('d')], "^d", A::Go(Step::Halves(1)), "half a page down"),
    bind(LISTS, &[Ctrl('u')], "^u", A::Go(Step::Halves(-1)), "half a page up"),
    bind(ROWS, &[ch(' ')], "Space", A::Mark, "mark or unmark, and down").hint("mark"),
    bind(ROWS, &[ch('*')], "*", A::Invert, "invert the marks"),
    bind(&[Overview, Browser, Inspector], &[ch('z')], "z", A::Recompress, "recompress the marked rows, or this one").hint("recompress"),
    bind(ROWS, &[ch('i')], "i", A::Inspect, "inspect: extents, table, ratios").hint("inspect"),
    bind(&[Overview, Browser, Inspector], &[ch('F')], "F", A::Defragment, "defragment the marked rows, or this one").hint("defrag"),
    bind(&[Browser], &[ch('/')], "/", A::Filter, "show names that contain what is typed").hint("filter"),
    bind(&[Browser], &[ch('n')], "n", A::Sort(C::Name), "order by name; the key again reverses"),
    bind(&[Browser], &[ch('s')], "s", A::Sort(C::Disk), "order by disk usage").hint("sort"),
    bind(&[Browser], &[ch('%')], "%", A::Sort(C::Percent), "order by ratio"),
    bind(&[Browser], &[ch('w')], "w", A::Sort(C::Waste), "order by waste"),
    bind(&[Browser], &[ch('x')], "x", A::Sort(C::Exclusive), "order by exclusive"),
    bind(&[Browser], &[ch('C')], "C", A::Sort(C::Items), "order by number of items"),
    bind(&[Browser], &[ch('a')], "a", A::NextMetric, "order by the next number"),
    bind(&[Browser], &[ch('t')], "t", A::DirectoriesFirst, "directories first, or mixed"),
    bind(&[Plan], &[ch('u')], "u", A::OnlyUncompressed, "leave compressed data alone, or don't").hint("only uncompressed"),
    bind(&[Plan], &[ch('m')], "m", A::MinGain(1), "raise the least gain"),
    bind(&[Plan], &[ch('M')], "M", A::MinGain(-1), "lower the least gain"),
    bind(&[Plan], &[ch('e')], "e", A::Exclude, "exclude a glob; an empty one forgets all").hint("exclude"),
    bind(ROWS, &[ch('E')], "E", A::Export, "export what is shown or marked as JSON"),
    bind(ROWS, &[ch('r')], "r", A::Rescan, "open and count anew"),
    bind(EVERYWHERE, &[ch('?'), Plain(K::F(1))], "? F1", A::Help, "this help").hint("help"),
    bind(&[Overview], &[ch('q'), Plain(K::Esc)], "q Esc", A::Back, "quit").hint("quit"),
    bind(&[Browser, Inspector, Plan, Confirm], &[ch('q'), Plain(K::Esc)], "q Esc", A::Back, "back").hint("back"),
    bind(EVERYWHERE, &[Ctrl('c')], "^c", A::Interrupt, "quit; a run stops after its commit"),
];

/// What a key means on the screen that is seen.
pub fn message(model: &Model, event: KeyEvent) -> Option<Message> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let is_typing = model.is_filtering || model.plan.as_ref().is_some_and(|p| p.typing.is_some());
    if is_typing && model.help.is_none() {
        let is_plain = !event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match event.code {
            K::Char(char) if is_plain => return Some(Message::Type(char)),
            K::Backspace => return Some(Message::Erase),
            K::Enter => return Some(Message::Accept),
            K::Esc => return Some(Message::Discard),
            _ => {}
        }
    }
    if model.help.is_some() {
        return Some(Message::Act(in_help(event)));
    }
    let screen = model.screen();
    let binding = KEYS.iter().find(|binding| binding.is_on(screen) && binding.has(event))?;
    Some(Message::Act(binding.action))
}

/// Help scrolls; every other key but Ctrl-C closes it.
fn in_help(event: KeyEvent) -> Action {
    let scrolls = KEYS
        .iter()
        .find(|binding| binding.has(event) && matches!(binding.action, A::Go(_) | A::Interrupt));
    scrolls.map_or(A::Help, |binding| binding.action)
}
