//! The source: lines that change at any time, and the process that reads them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_core::id::{ItemId, RunId};
use redrive_core::item::NewItem;
use redrive_core::reading::Reading;
use redrive_core::status::Control;
use redrive_engine::admit::{self, Batch, KnownKeys};
use redrive_engine::env::Env;
use redrive_engine::recipe::Recipe;
use redrive_store::{Cursor, Error, Store};

use crate::hub::Hub;
use crate::met::Met;
use crate::scenario::{Chaos, Line, Pace};
use crate::script::content;
use crate::slip::Slip;
use crate::store::FaultyStore;

/// What the source's process has, and what outlives it.
#[derive(Clone)]
pub struct Source {
    /// The run's shared part.
    pub hub: Arc<Hub>,
    /// The store as this process sees it.
    pub store: FaultyStore,
    /// Its clock and dice.
    pub env: Env,
    /// The pipeline.
    pub recipe: Arc<Recipe>,
    /// The run.
    pub run: RunId,
    /// Every version of the file there was; the last is the present one. No crash changes it.
    pub versions: Arc<Mutex<Vec<Vec<Line>>>>,
    /// Whether lines are being admitted at this moment.
    pub reading: Arc<AtomicBool>,
    /// Whether all is said.
    pub done: Arc<AtomicBool>,
    /// Lines submitted at once.
    pub piece: usize,
    /// Speed.
    pub pace: Pace,
    /// How often lines change.
    pub chaos: Chaos,
    /// A mistake of this process, to see it found.
    pub slip: Option<Slip>,
}

/// How far a version was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Position {
    version: usize,
    agreed: u64,
    at: usize,
}

impl Position {
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(' ').map(str::parse::<usize>);
        let mut next = || parts.next()?.ok();
        Some(Self { version: next()?, agreed: next()? as u64, at: next()? })
    }

    fn written(self) -> String {
        format!("{} {} {}", self.version, self.agreed, self.at)
    }
}

impl Source {
    fn versions(&self) -> MutexGuard<'_, Vec<Vec<Line>>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the present version, and its lines.
    fn present(&self) -> (usize, Vec<Line>) {
        let versions = self.versions();
        (versions.len() - 1, versions.last().cloned().unwrap_or_default())
    }

    /// Reads the source to its end, from where the store says it was read to, and then watches it.
    pub async fn read(self) {
        // Somebody may have edited the file while nobody read it.
        if !self.hub.healed() && self.hub.rng.permille(self.chaos.edits) {
            self.edit();
        }
        loop {
            self.reading.store(true, Ordering::SeqCst);
            let whole = self.read_through().await;
            self.reading.store(false, Ordering::SeqCst);
            if whole && self.hub.healed() {
                break;
            }
            self.hub.sleep(self.pace.tick).await;
            if whole && self.hub.rng.permille(self.chaos.edits) {
                self.edit();
            }
        }
        self.done.store(true, Ordering::SeqCst);
    }

    /// Reads what there is to read; `false` when it has to be tried again. A cancelled run needs no more.
    async fn read_through(&self) -> bool {
        let Ok(Some(row)) = self.store.run(self.run).await else { return false };
        if row.control == Control::Cancelled {
            return true;
        }
        let before = row.cursor.as_deref().and_then(Position::read);
        let (version, lines) = self.present();
        let goes_on = before.filter(|before| before.version == version || self.slip == Some(Slip::ReadsOn));
        let (mut position, reading) = match goes_on {
            Some(_) if row.admitted_all => return true,
            Some(before) if row.reading > 0 => {
                (before, Reading { number: row.reading, agreed: before.agreed })
            }
            _ => {
                let Ok(over) = admit::starts_over(&self.store, &row).await else { return false };
                let start = self.start(over, before, version, &lines);
                let begun = self.store.begin_reading(self.run, row.reading, Some(start.written())).await;
                let Ok(number) = begun else { return false };
                self.hub.log("reading", &[i64::from(number)], || format!("{number} from {}", start.at));
                (start, Reading { number, agreed: start.agreed })
            }
        };
        while position.at < lines.len() {
            let upto = (position.at + self.piece).min(lines.len());
            let piece = lines[position.at..upto].iter().zip(position.at..);
            let items: Vec<NewItem> = piece
                .map(|(line, at)| NewItem::new(line.key.clone(), line.payload.clone(), at as u64 + 1))
                .collect();
            position.at = upto;
            if !self.tell(items, position, reading, false).await {
                return false;
            }
            let pause = self.hub.rng.span(0, self.pace.tick / 2);
            self.hub.sleep(pause).await;
        }
        if reading.number > 1 && self.slip != Some(Slip::KeepsRemoved) {
            match admit::remove_unseen(&self.store, &self.recipe, &self.env, self.run, reading).await {
                Ok(0) => {}
                Ok(_) => self.hub.meet(Met::Removed),
                Err(_) => return false,
            }
        }
        self.tell(Vec::new(), position, reading, true).await
    }

    /// Where a new reading starts: where the present version still is what was read of an older one.
    fn start(&self, over: bool, before: Option<Position>, version: usize, lines: &[Line]) -> Position {
        let versions = self.versions();
        let old = before.and_then(|before| Some((before.at, versions.get(before.version)?)));
        let agrees = old.map_or(0, |(at, old)| {
            let same = |(a, b): &(&Line, &Line)| a.key == b.key && a.payload == b.payload;
            old.iter().take(at).zip(lines).take_while(same).count()
        });
        let more = if self.slip == Some(Slip::AgreesTooFar) { 2 } else { 0 };
        let at = if over { 0 } else { (agrees + more).min(lines.len()) };
        let agreed = if at == 0 { 0 } else { at as u64 + 1 };
        Position { version, agreed, at }
    }

    /// Submits some lines; `true` when that was acknowledged, or cannot be any more.
    async fn tell(&self, items: Vec<NewItem>, position: Position, reading: Reading, done: bool) -> bool {
        let row = self.store.run(self.run).await.ok().flatten();
        let Some(row) = row.filter(|row| row.control == Control::Go || row.control == Control::Cancelled)
        else {
            return false;
        };
        if row.control == Control::Cancelled && self.hub.rng.permille(500) {
            return true;
        }
        let cursor = Cursor { position: position.written(), done, duplicates: 0 };
        let batch = Batch { run: self.run, reading, items, cursor, known_keys: KnownKeys::Replaced };
        matches!(
            admit::submit(&self.store, &self.recipe, &self.env, batch).await,
            Ok(_) | Err(Error::RunCancelled { .. })
        )
    }

    /// The ids that the lines of the present version must have, unless a key is also another line's.
    #[must_use]
    pub fn own_ids(&self) -> Vec<ItemId> {
        let (_, lines) = self.present();
        let alone = |line: &&Line| lines.iter().filter(|other| other.key == line.key).count() == 1;
        let id = |line: &Line| {
            let item = NewItem::new(line.key.clone(), line.payload.clone(), 0);
            ItemId::derive(self.run, None, &item.key, item.version())
        };
        lines.iter().filter(alone).map(id).collect()
    }

    /// The keys of the present version.
    #[must_use]
    pub fn keys(&self) -> Vec<Arc<str>> {
        self.present().1.into_iter().map(|line| line.key).collect()
    }

    /// Somebody edits the file: a line changes, comes, goes, or two change places.
    fn edit(&self) {
        let rng = &self.hub.rng;
        let (version, mut lines) = self.present();
        let last = lines.len() - 1;
        let at = rng.size(0, if rng.permille(300) { last.min(1) } else { last });
        let what = match rng.below(5) {
            0 if lines.len() > 1 => {
                lines.remove(at);
                "removed"
            }
            1 => {
                let key: Arc<str> = Arc::from(format!("late-{version}"));
                lines.insert(at, Line { key, payload: content(7_000_000 + version as u64) });
                "inserted"
            }
            2 => {
                let other = rng.size(0, last);
                lines.swap(at, other);
                "swapped"
            }
            // Few enough versions that a line sometimes changes back.
            _ => {
                lines[at].payload = content(5_000_000 + rng.below(3));
                "changed"
            }
        };
        self.hub.log("edit", &[i64::try_from(at).unwrap_or(0)], || format!("line {at} {what}"));
        self.hub.meet(Met::SourceEdited);
        self.versions().push(lines);
    }
}
