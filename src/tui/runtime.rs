//! Owns the terminal, the channels and the threads. The only loop; it decides nothing.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use crossbeam_channel::{Receiver, Sender, bounded, select_biased, tick};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::crossterm::execute;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::message::{Action, Message};
use super::model::{Model, Step};
use super::theme::Look;
use super::worker::Workers;
use super::{Options, keymap};

/// The clock's ticks, which turn the signs of what goes on.
const TICK: Duration = Duration::from_millis(100);
/// Messages of the workers that may wait.
const MESSAGES_MAX: usize = 64;
/// Rows by a notch of the wheel.
const WHEEL: isize = 3;

/// Shows the UI until the user leaves it.
///
/// # Errors
/// If there is no terminal, or it fails.
pub fn run(options: Options) -> Result<()> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        bail!(
            "there is no terminal for the interactive UI; use `btrpress report DEVICE` to see what is stored, or \
             `btrpress --batch recompress DEVICE --to zstd` to change it"
        );
    }
    let signals = Signals::new([SIGTERM, SIGHUP, SIGINT]).context("cannot listen for signals")?;
    let terminal = ratatui::try_init().context("cannot set up the terminal")?;
    let has_panicked = watch_for_panics();
    let result = execute!(io::stdout(), EnableMouseCapture)
        .context("cannot set up the terminal")
        .and_then(|()| Runtime::new(terminal, options, signals)?.run(&has_panicked));
    // Both may fail only when the terminal is gone, and nothing is left to restore then.
    let _ = execute!(io::stdout(), DisableMouseCapture);
    let _ = ratatui::try_restore();
    result
}

/// Gives the mouse back when any thread panics, and lets the loop know, so that it does not draw over the message. The
/// hook that ratatui has set restores all else.
fn watch_for_panics() -> Arc<AtomicBool> {
    let has_panicked = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_panicked);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        flag.store(true, Ordering::SeqCst);
        let _ = execute!(io::stdout(), DisableMouseCapture);
        hook(info);
    }));
    has_panicked
}

struct Runtime {
    terminal: DefaultTerminal,
    model: Model,
    workers: Workers,
    started: Instant,
    events: Receiver<io::Result<Event>>,
    signals: Receiver<()>,
    messages: Receiver<Message>,
    clock: Receiver<Instant>,
    /// Whether the terminal is gone while a run still has to end.
    is_blind: bool,
}

impl Runtime {
    fn new(mut terminal: DefaultTerminal, options: Options, mut signals: Signals) -> Result<Self> {
        let started = Instant::now();
        let size = terminal.size().context("cannot ask for the terminal's size")?;
        let look = Look::of_environment(|name| std::env::var(name).ok());
        let model = Model::new(look, options.names.clone(), (size.width, size.height));
        // The first picture does not wait for anything.
        terminal.draw(|frame| frame.render_widget(&model, frame.area()))?;
        let (to_signals, signal) = bounded(1);
        thread::spawn(move || {
            for _ in &mut signals {
                if to_signals.send(()).is_err() {
                    return;
                }
            }
        });
        let (to_events, events) = bounded(MESSAGES_MAX);
        thread::spawn(move || read_events(&to_events));
        let (to_messages, messages) = bounded(MESSAGES_MAX);
        let workers = Workers::start(options, to_messages);
        let clock = tick(TICK);
        Ok(Self {
            terminal,
            model,
            workers,
            started,
            events,
            signals: signal,
            messages,
            clock,
            is_blind: false,
        })
    }

    fn run(mut self, has_panicked: &AtomicBool) -> Result<()> {
        let mut result = Ok(());
        while !self.model.is_done {
            self.wait();
            self.take_what_waits();
            if has_panicked.load(Ordering::SeqCst) {
                result = Err(anyhow!("a thread has failed, see above; what was committed stays"));
                break;
            }
            if !self.is_blind
                && let Err(error) =
                    self.terminal.draw(|frame| frame.render_widget(&self.model, frame.area()))
            {
                self.is_blind = true;
                result = Err(error).context("the terminal is gone");
                self.update(Message::Terminate);
            }
        }
        // Nobody reads messages any more: threads that send some must not wait for that.
        self.messages = crossbeam_channel::never();
        self.workers.finish();
        result
    }

    /// Waits for one thing to happen; keys come first.
    fn wait(&mut self) {
        select_biased! {
            recv(self.signals) -> _ => self.update(Message::Terminate),
            recv(self.events) -> event => if let Ok(Ok(event)) = event {
                self.take_event(&event);
            } else {
                self.events = crossbeam_channel::never();
                self.update(Message::Terminate);
            },
            recv(self.messages) -> message => {
                if let Ok(message) = message {
                    self.update(message);
                }
            }
            recv(self.clock) -> _ => self.update(Message::Tick(self.started.elapsed())),
        }
    }

    /// Takes what has come meanwhile, too: a picture for all of it is enough.
    fn take_what_waits(&mut self) {
        for _ in 0..MESSAGES_MAX {
            if let Ok(Ok(event)) = self.events.try_recv() {
                self.take_event(&event);
            } else if let Ok(message) = self.messages.try_recv() {
                self.update(message);
            } else {
                break;
            }
        }
    }

    fn take_event(&mut self, event: &Event) {
        let message = match event {
            Event::Key(key) => keymap::message(&self.model, *key),
            Event::Mouse(mouse) => of_mouse(*mouse),
            Event::Resize(width, height) => Some(Message::Resized(*width, *height)),
            Event::FocusGained | Event::FocusLost | Event::Paste(_) => None,
        };
        if let Some(message) = message {
            self.update(message);
        }
    }

    fn update(&mut self, message: Message) {
        if let Some(effect) = self.model.update(message) {
            self.workers.carry_out(effect);
        }
    }
}

fn read_events(to: &Sender<io::Result<Event>>) {
    loop {
        let event = event::read();
        let is_last = event.is_err();
        if to.send(event).is_err() || is_last {
            return;
        }
    }
}

fn of_mouse(mouse: MouseEvent) -> Option<Message> {
    match mouse.kind {
        MouseEventKind::ScrollDown => Some(Message::Act(Action::Go(Step::By(WHEEL)))),
        MouseEventKind::ScrollUp => Some(Message::Act(Action::Go(Step::By(-WHEEL)))),
        MouseEventKind::Down(MouseButton::Left) => Some(Message::Click(mouse.column, mouse.row)),
        _ => None,
    }
}
