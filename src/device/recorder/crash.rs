//! The states that a power cut can leave.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::super::{Device, Overlay};
use super::Event;

/// Which states to try, out of more than could ever be tried.
#[derive(Debug, Clone)]
pub struct Sampling {
    /// Up to so many writes between two flushes, all their subsets are tried.
    pub exhaustive_max: usize,
    /// Of more writes, besides every prefix and the loss of every single one, so many subsets are drawn.
    pub subsets: usize,
    /// Bytes that are written in whole or not at all.
    pub sector: usize,
    /// Where drawing begins; the same seed draws the same.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { exhaustive_max: 8, subsets: 50, sector: 4096, seed: 0 }
    }
}

/// A write that has landed, or parts of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landing {
    /// Which event of the tape the write is.
    pub event: usize,
    /// If it was torn, the ranges of its bytes that landed.
    pub torn: Option<Vec<Range<usize>>>,
}

/// What states at one place of a tape have in common.
#[derive(Debug)]
struct Epoch {
    events: Arc<[Event]>,
    /// The devices without the writes in flight.
    durable: Vec<Overlay<Arc<dyn Device>>>,
    /// Writes since the last flush of their device.
    in_flight: Vec<usize>,
    sector: usize,
}

/// Which of the writes in flight have landed, by their places among them. There can be very many states with very many
/// writes, of which few are looked at.
#[derive(Debug, Clone)]
enum Choice {
    /// The first ones.
    Prefix(usize),
    /// All but one.
    AllBut(usize),
    /// Those whose bits are set.
    Set(u64),
    /// Few, half or most of them.
    Drawn(Random),
    /// The first ones, of which the last is torn.
    TornLast(usize, Random),
    /// All, of which one is torn.
    TornAmong(usize, Random),
    /// All, torn where that is possible.
    AllTorn(Random),
    /// All, with the first of these two after the second.
    Moved(usize, usize),
}

/// A state that a power cut can leave.
#[derive(Debug, Clone)]
pub struct Crash {
    /// Events before the cut.
    pub after: usize,
    /// Writes since the last flush of their device.
    pub in_flight: usize,
    epoch: Arc<Epoch>,
    choice: Choice,
}

impl Crash {
    /// The writes in flight that have landed, in the order in which they did.
    pub fn landed(&self) -> Vec<Landing> {
        let epoch = &*self.epoch;
        let whole = |event: &usize| Landing { event: *event, torn: None };
        let kept = |keep: &mut dyn FnMut(usize) -> bool| -> Vec<Landing> {
            let numbered = epoch.in_flight.iter().enumerate();
            numbered.filter(|(at, _)| keep(*at)).map(|(_, event)| whole(event)).collect()
        };
        match self.choice {
            Choice::Prefix(len) => kept(&mut |at| at < len),
            Choice::AllBut(lost) => kept(&mut |at| at != lost),
            Choice::Set(set) => kept(&mut |at| set >> at & 1 == 1),
            Choice::Drawn(mut random) => {
                let odds = random.below(7) + 1;
                kept(&mut |_| random.below(8) < odds)
            }
            Choice::TornLast(last, mut random) => {
                let mut landed = kept(&mut |at| at <= last);
                landed[last].torn = epoch.tear(epoch.in_flight[last], &mut random);
                landed
            }
            Choice::TornAmong(at, mut random) => {
                let mut landed = kept(&mut |_| true);
                landed[at].torn = epoch.tear(epoch.in_flight[at], &mut random);
                landed
            }
            Choice::AllTorn(mut random) => {
                let mut landed = kept(&mut |_| true);
                for landing in &mut landed {
                    landing.torn = epoch.tear(landing.event, &mut random);
                }
                landed
            }
            Choice::Moved(first, second) => {
                let mut landed = kept(&mut |_| true);
                landed[first..=second].rotate_left(1);
                landed
            }
        }
    }

    /// Whether a write has landed in parts.
    pub const fn is_torn(&self) -> bool {
        matches!(self.choice, Choice::TornLast(..) | Choice::TornAmong(..) | Choice::AllTorn(..))
    }

    /// The devices as they are after it, by number.
    ///
    /// # Panics
    /// If the device below can't be read.
    pub fn devices(&self) -> Vec<Overlay<Arc<dyn Device>>> {
        let devices = self.epoch.durable.clone();
        for landing in self.landed() {
            if let Event::Write { device, byte, bytes } = &self.epoch.events[landing.event] {
                let Some(parts) = landing.torn else {
                    write(&devices[*device], *byte, bytes);
                    continue;
                };
                for part in parts {
                    write(&devices[*device], byte + part.start as u64, &bytes[part.clone()]);
                }
            }
        }
        devices
    }
}

impl Epoch {
    fn range(&self, event: usize) -> (usize, Range<u64>) {
        match &self.events[event] {
            Event::Write { device, byte, bytes } => (*device, *byte..byte + bytes.len() as u64),
            Event::Flush { device } => (*device, 0..0),
        }
    }

    /// Sectors that a write takes.
    fn sectors(&self, event: usize) -> usize {
        let (_, range) = self.range(event);
        ((range.end - range.start) as usize).div_ceil(self.sector)
    }

    /// The parts of a write of several sectors that landed: some, but not all.
    fn tear(&self, event: usize, random: &mut Random) -> Option<Vec<Range<usize>>> {
        let sectors = self.sectors(event);
        if sectors < 2 {
            return None;
        }
        let (_, range) = self.range(event);
        let len = (range.end - range.start) as usize;
        let lost = random.below(sectors as u64) as usize;
        let kept = (lost + 1 + random.below(sectors as u64 - 1) as usize) % sectors;
        let landed = |at: &usize| *at == kept || (*at != lost && random.below(2) == 0);
        let parts = (0..sectors).filter(landed);
        Some(parts.map(|at| at * self.sector..((at + 1) * self.sector).min(len)).collect())
    }

    /// Pairs of writes in flight to the same bytes.
    fn overlaps(&self) -> Vec<(usize, usize)> {
        let numbered = self.in_flight.iter().enumerate();
        let mut sorted: Vec<_> = numbered.map(|(at, event)| (self.range(*event), at)).collect();
        sorted.sort_by_key(|((device, range), at)| (*device, range.start, *at));
        let mut found = Vec::new();
        for (number, ((device, range), at)) in sorted.iter().enumerate() {
            let after = sorted[number + 1..].iter();
            let touching =
                after.take_while(|((other, next), _)| other == device && next.start < range.end);
            found.extend(touching.map(|(_, other)| (*at.min(other), *at.max(other))));
        }
        found
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self { after, in_flight, .. }, landed) = (self, self.landed());
        write!(f, "after {after} events, {} of {in_flight} writes landed:", landed.len())?;
        let mut rest = &landed[..];
        while let Some(Landing { event, torn }) = rest.first() {
            // Writes in a row are shown as a range.
            let whole = rest
                .iter()
                .zip(*event..)
                .take_while(|(landing, event)| landing.torn.is_none() && landing.event == *event);
            let count = whole.count().max(1);
            match (torn, count) {
                (Some(_), _) => write!(f, " {event} (torn)")?,
                (None, 1) => write!(f, " {event}")?,
                (None, _) => write!(f, " {event}-{}", event + count - 1)?,
            }
            rest = &rest[count..];
        }
        Ok(())
    }
}

fn write(device: &Overlay<Arc<dyn Device>>, byte: u64, bytes: &[u8]) {
    device
        .write_at(byte, bytes)
        .expect("a write that was recorded fits, and its device can be read");
}

/// Gives crash after crash, in the order of the recording.
#[derive(Debug)]
pub struct Crashes {
    events: Arc<[Event]>,
    sampling: Sampling,
    random: Random,
    /// The next event to look at; one past the end when all is done.
    next: usize,
    durable: Vec<Overlay<Arc<dyn Device>>>,
    /// Writes since the last flush of their device.
    in_flight: Vec<usize>,
    ready: VecDeque<Crash>,
}

impl Crashes {
    pub(super) fn new(events: Vec<Event>, bases: Vec<Arc<dyn Device>>, sampling: Sampling) -> Self {
        Self {
            events: events.into(),
            random: Random(sampling.seed),
            sampling,
            next: 0,
            durable: bases.into_iter().map(Overlay::over).collect(),
            in_flight: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    /// Goes on to the next flush, or to the end, and lists what a cut just before it can leave. What an earlier cut
    /// since the flush before can leave is among it, as the subsets without the later writes.
    fn advance(&mut self) {
        let events = Arc::clone(&self.events);
        while let Some(Event::Write { .. }) = events.get(self.next) {
            self.in_flight.push(self.next);
            self.next += 1;
        }
        self.list();
        if let Some(Event::Flush { device }) = events.get(self.next) {
            for event in self.in_flight.extract_if(.., |event| events[*event].device() == *device) {
                if let Event::Write { byte, bytes, .. } = &events[event] {
                    write(&self.durable[*device], *byte, bytes);
                }
            }
        }
        self.next += 1;
    }

    fn list(&mut self) {
        let epoch = Epoch {
            events: Arc::clone(&self.events),
            durable: self.durable.clone(),
            in_flight: self.in_flight.clone(),
            sector: self.sampling.sector,
        };
        let count = epoch.in_flight.len();
        let mut choices = Vec::new();
        if count <= self.sampling.exhaustive_max {
            choices.extend((0..1 << count).map(Choice::Set));
        } else {
            choices.extend((0..=count).map(Choice::Prefix));
            choices.extend((0..count).map(Choice::AllBut));
            let drawn = 0..self.sampling.subsets;
            choices.extend(drawn.map(|_| Choice::Drawn(self.random.split())));
        }
        let can_tear = |at: &usize| epoch.sectors(epoch.in_flight[*at]) > 1;
        for at in (0..count).filter(can_tear) {
            choices.push(Choice::TornLast(at, self.random.split()));
            choices.push(Choice::TornAmong(at, self.random.split()));
        }
        if count > 1 && (0..count).any(|at| can_tear(&at)) {
            choices.push(Choice::AllTorn(self.random.split()));
        }
        // The older bytes last.
        let pairs = epoch.overlaps().into_iter();
        choices.extend(pairs.map(|(first, second)| Choice::Moved(first, second)));
        let epoch = Arc::new(epoch);
        self.ready.extend(choices.into_iter().map(|choice| Crash {
            after: self.next,
            in_flight: count,
            epoch: Arc::clone(&epoch),
            choice,
        }));
    }
}

impl Iterator for Crashes {
    type Item = Crash;

    fn next(&mut self) -> Option<Crash> {
        while self.ready.is_empty() && self.next <= self.events.len() {
            self.advance();
        }
        self.ready.pop_front()
    }
}

/// Numbers that look random and are the same for the same seed.
#[derive(Debug, Clone, Copy)]
struct Random(u64);

impl Random {
    /// Other such numbers.
    fn split(&mut self) -> Self {
        Self(self.below(u64::MAX))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
