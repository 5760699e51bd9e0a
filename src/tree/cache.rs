//! Verified tree blocks, the most recently used ones.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use crate::format::Node;

/// Keeps about `blocks_max` blocks: those used since the last turn, and those used in the turn before.
#[derive(Debug)]
pub(super) struct Cache {
    blocks_max: usize,
    turns: Mutex<Turns>,
}

#[derive(Debug, Default)]
struct Turns {
    young: HashMap<u64, Arc<Node>>,
    old: HashMap<u64, Arc<Node>>,
}

impl Turns {
    fn insert(&mut self, at: u64, node: Arc<Node>, blocks_max: usize) {
        self.young.insert(at, node);
        if self.young.len() * 2 > blocks_max {
            self.old = mem::take(&mut self.young);
        }
    }
}

impl Cache {
    pub(super) fn new(blocks_max: usize) -> Self {
        Self { blocks_max, turns: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, at: u64) -> Option<Arc<Node>> {
        let mut turns = self.lock();
        if let Some(node) = turns.young.get(&at) {
            return Some(Arc::clone(node));
        }
        let node = turns.old.remove(&at)?;
        turns.insert(at, Arc::clone(&node), self.blocks_max);
        Some(node)
    }

    pub(super) fn insert(&self, at: u64, node: Arc<Node>) {
        self.lock().insert(at, node, self.blocks_max);
    }

    pub(super) fn remove(&self, at: u64) {
        let mut turns = self.lock();
        turns.young.remove(&at);
        turns.old.remove(&at);
    }
}
