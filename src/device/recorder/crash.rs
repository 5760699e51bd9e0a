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

/// A state that a power cut can leave.
#[derive(Debug, Clone)]
pub struct Crash {
    /// Events before the cut.
    pub after: usize,
    /// Writes since the last flush of their device.
    pub in_flight: usize,
    /// Those of them that landed, in the order in which they did.
    pub landed: Vec<Landing>,
    events: Arc<[Event]>,
    durable: Arc<[Overlay<Arc<dyn Device>>]>,
}

impl Crash {
    /// The devices as they are after it, by number.
    ///
    /// # Panics
    /// If the device below can't be read.
    pub fn devices(&self) -> Vec<Overlay<Arc<dyn Device>>> {
        let devices = self.durable.to_vec();
        for landing in &self.landed {
            if let Event::Write { device, byte, bytes } = &self.events[landing.event] {
                let Some(parts) = &landing.torn else {
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

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, in_flight, landed, .. } = self;
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
        let writes = self.in_flight.clone();
        let all: Vec<_> = writes.iter().map(|&event| Landing { event, torn: None }).collect();
        let mut states: Vec<Vec<Landing>> = Vec::new();
        let subset = |keep: &mut dyn FnMut(usize) -> bool| -> Vec<Landing> {
            all.iter()
                .enumerate()
                .filter(|(at, _)| keep(*at))
                .map(|(_, landing)| landing.clone())
                .collect()
        };
        if all.len() <= self.sampling.exhaustive_max {
            states.extend((0_u64..1 << all.len()).map(|set| subset(&mut |at| set >> at & 1 == 1)));
        } else {
            states.extend((0..=all.len()).map(|len| subset(&mut |at| at < len)));
            states.extend((0..all.len()).map(|lost| subset(&mut |at| at != lost)));
            for _ in 0..self.sampling.subsets {
                // Few, half or most of them.
                let odds = self.random.below(7) + 1;
                states.push(subset(&mut |_| self.random.below(8) < odds));
            }
        }
        for (at, event) in writes.iter().enumerate() {
            if let Some(torn) = self.torn(*event) {
                states.push([&all[..at], std::slice::from_ref(&torn)].concat());
                states.push([&all[..at], std::slice::from_ref(&torn), &all[at + 1..]].concat());
            }
        }
        if writes.len() > 1 {
            let torn = writes.iter().zip(&all);
            let torn: Vec<_> = torn
                .map(|(event, whole)| self.torn(*event).unwrap_or_else(|| whole.clone()))
                .collect();
            states.extend(torn.iter().any(|landing| landing.torn.is_some()).then_some(torn));
        }
        for (first, second) in self.overlaps(&writes) {
            // The older bytes last.
            let mut order = all.clone();
            let moved = order.remove(first);
            order.insert(second, moved);
            states.push(order);
        }
        let durable: Arc<[_]> = self.durable.clone().into();
        self.ready.extend(states.into_iter().map(|landed| Crash {
            after: self.next,
            in_flight: writes.len(),
            landed,
            events: Arc::clone(&self.events),
            durable: Arc::clone(&durable),
        }));
    }

    fn range(&self, event: usize) -> (usize, Range<u64>) {
        match &self.events[event] {
            Event::Write { device, byte, bytes } => (*device, *byte..byte + bytes.len() as u64),
            Event::Flush { device } => (*device, 0..0),
        }
    }

    /// A write of several sectors of which some, but not all, have landed.
    fn torn(&mut self, event: usize) -> Option<Landing> {
        let (_, range) = self.range(event);
        let (len, sector) = ((range.end - range.start) as usize, self.sampling.sector);
        let sectors = len.div_ceil(sector);
        if sectors < 2 {
            return None;
        }
        let lost = self.random.below(sectors as u64) as usize;
        let kept = (lost + 1 + self.random.below(sectors as u64 - 1) as usize) % sectors;
        let landed = |at: &usize| *at == kept || (*at != lost && self.random.below(2) == 0);
        let parts = (0..sectors)
            .filter(landed)
            .map(|at| at * sector..((at + 1) * sector).min(len))
            .collect();
        Some(Landing { event, torn: Some(parts) })
    }

    /// Pairs of writes, by place in `writes`, to the same bytes.
    fn overlaps(&self, writes: &[usize]) -> Vec<(usize, usize)> {
        let mut sorted: Vec<_> =
            writes.iter().enumerate().map(|(at, event)| (self.range(*event), at)).collect();
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
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
