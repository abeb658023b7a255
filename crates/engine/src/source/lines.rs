//! Lines and records of files, or of a stream.

use std::io::{Error, ErrorKind, Read};
use std::path::PathBuf;

use redrive_core::item::NewItem;

use super::feed::{Feed, Line, Look, expand, is_stream};
use super::record::{At, Form, Format, MAX_LINE, fields};
use super::trail::{Place, Position, Running};
use super::{Piece, Source, SourceError, Standing, Start};

/// Most items in one piece.
const PIECE_ITEMS: usize = 1_000;
/// A piece ends when it holds this many bytes.
const PIECE_BYTES: usize = 4 << 20;
/// Files of so many bytes together are compared with what was read even where they look as they did.
const MOMENT: u64 = 64 << 20;

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineSpec {
    /// Files and patterns.
    pub paths: Vec<String>,
    /// How their items are written.
    pub format: Format,
    /// Where in an item its key is; `None`: its hash is its key.
    pub key: Option<String>,
}

/// Items from the lines of files, or of a stream.
pub struct Lines {
    spec: LineSpec,
    files: Vec<PathBuf>,
    /// How the files looked when they were opened.
    looks: Vec<Look>,
    /// How they looked when they were found to look otherwise.
    pending: Option<Vec<Look>>,
    feed: Option<Feed>,
    /// A stream, which cannot be gone back in, and may come slowly.
    live: bool,
    header: Vec<String>,
    place: Place,
    running: Running,
    position: Position,
    standing: Standing,
    /// Whether it stands before something that was read.
    lost: bool,
}

impl Lines {
    /// Opens files, and finds out how they stand to what was read of them before.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn open(spec: LineSpec, position: Option<&str>) -> Result<Self, SourceError> {
        let files = expand(&spec.paths)?;
        if let [file] = &files[..]
            && is_stream(file)
        {
            let name = file.display().to_string();
            let feed = Feed::open(file).map_err(|cause| SourceError { what: name.clone(), cause })?;
            return Ok(Self { feed: Some(feed), live: true, ..Self::unread(spec, files) });
        }
        let mut lines = Self::unread(spec, files);
        lines.look_at_headers()?;
        let how = lines.how();
        match position.and_then(Position::read).filter(|position| position.how == how) {
            Some(position) => lines.follow(&position)?,
            // A file that is not there, or is none of lines, is told before anything is done.
            None => {
                lines.position.how = how;
                lines.begin_file()?;
            }
        }
        Ok(lines)
    }

    /// Reads from a stream that cannot be gone back in.
    #[must_use]
    pub fn stream(name: &str, reader: Box<dyn Read + Send>, spec: LineSpec) -> Self {
        let lines = Self::unread(spec, vec![PathBuf::from(name)]);
        Self { feed: Some(Feed::new(reader)), live: true, ..lines }
    }

    fn unread(spec: LineSpec, files: Vec<PathBuf>) -> Self {
        Self {
            spec,
            files,
            looks: Vec::new(),
            pending: None,
            feed: None,
            live: false,
            header: Vec::new(),
            place: Place::default(),
            running: Running::default(),
            position: Position::default(),
            standing: Standing::Anew,
            lost: false,
        }
    }

    /// Mark of how lines become items.
    fn how(&self) -> String {
        format!("{:?} {:?}", self.spec.format, self.spec.key)
    }

    fn failed(&self, cause: Error) -> SourceError {
        let file = self.files.get(self.place.file).or(self.files.last());
        SourceError { what: file.map(|file| file.display().to_string()).unwrap_or_default(), cause }
    }

    fn path(&self) -> String {
        self.files.get(self.place.file).map(|file| file.display().to_string()).unwrap_or_default()
    }

    fn form(&self) -> Form {
        self.spec.format.of(&self.path())
    }

    /// Opens the file of the present place at its beginning.
    fn begin_file(&mut self) -> Result<(), SourceError> {
        let path = self.files[self.place.file].clone();
        let look = Look::at(&path).map_err(|error| self.failed(error))?;
        self.looks.truncate(self.place.file);
        self.looks.push(look);
        self.feed = Some(Feed::open(&path).map_err(|error| self.failed(error))?);
        self.running.begin_file(&path.display().to_string());
        Ok(())
    }

    /// Reads the header of every table once, so that what is wrong with one is told before anything is done.
    fn look_at_headers(&mut self) -> Result<(), SourceError> {
        for file in 0..self.files.len() {
            self.place.file = file;
            if let Form::Csv { delimiter } = self.form() {
                self.begin_file()?;
                self.read_header(delimiter)?;
            }
        }
        (self.place, self.running, self.feed) = (Place::default(), Running::default(), None);
        self.looks.clear();
        Ok(())
    }

    /// Goes to a place further on, taking all in that is before it; `false` when there is no such place any more.
    fn pass_to(&mut self, place: Place) -> Result<bool, SourceError> {
        while self.place.file <= place.file {
            if self.feed.is_none() {
                if self.place.file >= self.files.len() {
                    return Ok(false);
                }
                self.begin_file()?;
            }
            let here = self.place.file == place.file;
            let count = if here { place.offset.saturating_sub(self.place.offset) } else { u64::MAX };
            let running = &mut self.running;
            let passed = self.feed.as_mut().map(|feed| feed.pass(count, |bytes| running.take(bytes)));
            let passed = passed.unwrap_or(Ok(false)).map_err(|error| self.failed(error))?;
            if here {
                self.place = place;
                return Ok(passed);
            }
            self.place = Place { file: self.place.file + 1, ..Place::default() };
            self.feed = None;
        }
        Ok(false)
    }

    /// Compares the files with what was read of them, and stands where reading has to go on.
    fn follow(&mut self, before: &Position) -> Result<(), SourceError> {
        (self.place, self.running, self.feed) = (Place::default(), Running::default(), None);
        self.looks.clear();
        let mut agrees = 0;
        let mut last = (Place::default(), Running::default());
        for point in &before.points {
            if !self.pass_to(point.place)? || self.running.told() != point.hash {
                break;
            }
            agrees += 1;
            last = (self.place, self.running.clone());
        }
        let all = agrees == before.points.len();
        let ended = match &before.end {
            Some(end) if all => self.pass_to(end.place)? && self.running.told() == end.hash,
            Some(_) | None => false,
        };
        if ended && self.is_at_the_end()? {
            self.position = before.clone();
            self.standing = Standing::Unchanged;
            return Ok(());
        }
        // Where a reading was broken off another one begins, too: whoever made it may still be at it, and two that call
        // themselves the same could each see another state of the files.
        self.position = Position {
            how: before.how.clone(),
            agreed: first_after(last.0),
            points: before.points[..agrees].to_vec(),
            end: None,
        };
        self.standing = Standing::Anew;
        self.lost = !all || (before.end.is_some() && !ended);
        self.go_to(last.0, last.1)
    }

    fn is_at_the_end(&mut self) -> Result<bool, SourceError> {
        let at_end =
            self.feed.as_mut().map_or(Ok(true), Feed::is_at_end).map_err(|error| self.failed(error))?;
        Ok(at_end && self.place.file + 1 >= self.files.len())
    }

    /// Stands at a place whose running hash is known.
    fn go_to(&mut self, place: Place, running: Running) -> Result<(), SourceError> {
        (self.place, self.feed) = (place, None);
        if place.offset > 0 {
            self.begin_file()?;
            let mut passed = 0;
            if let Form::Csv { delimiter } = self.form() {
                passed = self.read_header(delimiter)?.0;
            }
            let feed = self.feed.as_mut().map(|feed| feed.pass(place.offset.saturating_sub(passed), |_| ()));
            feed.unwrap_or(Ok(false)).map_err(|error| self.failed(error))?;
        }
        // What was passed over is in the hash already.
        (self.place, self.running) = (place, running);
        Ok(())
    }

    /// Reads the names of the columns; returns how many bytes and lines they take.
    fn read_header(&mut self, delimiter: u8) -> Result<(u64, u64), SourceError> {
        let mut line = Line::default();
        let lines = self.record(&mut line, true)?;
        let bytes = line.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line.bytes);
        let wrong = |why: String| Error::new(ErrorKind::InvalidData, why);
        let names =
            fields(bytes, delimiter).map_err(|why| self.failed(wrong(format!("its header {why}"))))?;
        for (at, name) in names.iter().enumerate() {
            if name.is_empty() || names[..at].contains(name) {
                let why =
                    format!("column {} of its header is {name:?}, which is empty or there twice", at + 1);
                return Err(self.failed(wrong(why)));
            }
        }
        if line.length > 0
            && let Some(why) = no_key_column(&names, self.spec.key.as_deref())
        {
            return Err(self.failed(wrong(why)));
        }
        self.header = names;
        Ok((line.length, lines))
    }

    /// Reads a line, or as many as a quoted record has. Returns how many.
    fn record(&mut self, line: &mut Line, quoted: bool) -> Result<u64, SourceError> {
        let what = self.path();
        let failed = |cause| SourceError { what: what.clone(), cause };
        let Some(feed) = self.feed.as_mut() else { return Ok(0) };
        let running = &mut self.running;
        feed.line(line, |bytes| running.take(bytes)).map_err(failed)?;
        let mut lines = u64::from(line.length > 0);
        let mut more = Line::default();
        let mut open = quoted && leaves_open(&line.bytes);
        // A quote is doubled inside of quotes, so a record is whole when its quotes are even.
        while open && line.ended && line.length <= MAX_LINE as u64 {
            feed.line(&mut more, |bytes| running.take(bytes)).map_err(failed)?;
            if more.length == 0 {
                break;
            }
            line.bytes.push(b'\n');
            line.bytes.extend_from_slice(&more.bytes);
            line.length += more.length;
            line.ended = more.ended;
            open ^= leaves_open(&more.bytes);
            lines += 1;
        }
        line.open = open;
        Ok(lines)
    }

    fn item(&self, at: Place, line: &Line, content: &[u8]) -> NewItem {
        let path = self.path();
        let name = self.files.get(at.file).and_then(|file| file.file_name()).and_then(|name| name.to_str());
        let at = At {
            file: name.filter(|_| self.files.len() > 1),
            path: &path,
            line: at.line - at.before + 1,
            ordinal: at.line + 1,
            length: line.length,
        };
        let key = self.spec.key.as_deref();
        match self.form() {
            Form::Jsonl => at.json(content, key),
            Form::Csv { .. } if line.open => at.refused(content, &at.unclosed()),
            Form::Csv { delimiter } => at.csv(content, delimiter, &self.header, key),
        }
    }

    /// Sees to it that a file is open; `false` when all are read.
    fn opened(&mut self) -> Result<bool, SourceError> {
        if self.live {
            return Ok(self.feed.is_some());
        }
        if self.feed.is_none() {
            if self.place.file >= self.files.len() {
                return Ok(false);
            }
            self.begin_file()?;
        }
        Ok(true)
    }

    /// On to the next file; `false` when there is none.
    fn next_file(&mut self) -> bool {
        if self.live || self.place.file + 1 >= self.files.len() {
            return false;
        }
        let line = self.place.line;
        self.place = Place { file: self.place.file + 1, offset: 0, line, before: line };
        self.feed = None;
        true
    }
}

/// Why no record of a table could have a key, if none could.
fn no_key_column(names: &[String], key: Option<&str>) -> Option<String> {
    let key = key?;
    let is_key = |name: &String| key.strip_prefix('/') == Some(&name.replace('~', "~0").replace('/', "~1"));
    if names.iter().any(is_key) {
        return None;
    }
    let columns = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    Some(format!(
        "its header has no column for the key {key}; its columns are {columns} (what is between two of them is the source's `delimiter`)"
    ))
}

/// The first line after a place; 0 where that is all of them.
fn first_after(place: Place) -> u64 {
    if place.line == 0 { 0 } else { place.line + 1 }
}

/// Whether there is an odd number of quotes.
fn leaves_open(bytes: &[u8]) -> bool {
    bytes.iter().filter(|byte| **byte == b'"').count() % 2 == 1
}

impl Source for Lines {
    fn next_piece(&mut self) -> Result<Piece, SourceError> {
        // From here on it stands where this very reading left it.
        self.standing = Standing::GoesOn;
        let mut piece = Piece { items: Vec::new(), position: String::new(), done: false };
        let (mut bytes, mut ended) = (0, true);
        let mut line = Line::default();
        while piece.items.len() < PIECE_ITEMS && bytes < PIECE_BYTES {
            if !self.opened()? {
                piece.done = true;
                break;
            }
            if self.live && !piece.items.is_empty() && self.feed.as_ref().is_some_and(Feed::is_drained) {
                break;
            }
            let form = self.form();
            if let (Form::Csv { delimiter }, 0) = (form, self.place.offset) {
                let (length, lines) = self.read_header(delimiter)?;
                self.place.offset += length;
                self.place.line += lines;
            }
            let at = self.place;
            let lines = self.record(&mut line, form != Form::Jsonl)?;
            if lines == 0 {
                if self.next_file() {
                    continue;
                }
                piece.done = true;
                break;
            }
            ended = line.ended;
            self.place.offset += line.length;
            self.place.line += lines;
            let mut content = line.bytes.trim_ascii();
            if at.offset == 0 {
                content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content).trim_ascii();
            }
            bytes += content.len();
            if !content.is_empty() {
                piece.items.push(self.item(at, &line, content));
            }
        }
        let point = self.running.point(self.place);
        // A last line without an end may go on: it is read again with what comes after it.
        // Before the first line of a file there is nothing to agree on.
        if ended && self.place.offset > 0 {
            self.position.push(point.clone());
        }
        if piece.done {
            self.position.end = Some(point);
        }
        piece.position = self.position.written();
        Ok(piece)
    }

    fn standing(&self) -> Standing {
        self.standing
    }

    fn start(&self) -> Start {
        let nothing = self.position.points.is_empty() && self.position.end.is_none();
        let position = (!nothing && !self.live).then(|| self.position.written());
        Start { position, agreed: self.position.agreed, lost: self.lost }
    }

    fn has_changed(&mut self, thorough: bool) -> Result<bool, SourceError> {
        if self.live || self.position.end.is_none() {
            return Ok(false);
        }
        let files = expand(&self.spec.paths)?;
        let looks: Result<Vec<Look>, Error> = files.iter().map(|file| Look::at(file)).collect();
        let looks = looks.map_err(|error| self.failed(error))?;
        let small = looks.iter().map(Look::length).sum::<u64>() <= MOMENT;
        let same = files == self.files && looks == self.looks;
        if same && !(thorough && small) {
            return Ok(false);
        }
        // Somebody may be in the middle of writing it: it is read when it looks the same twice in a row.
        if !same && !thorough && self.pending.as_ref() != Some(&looks) {
            self.pending = Some(looks);
            return Ok(false);
        }
        self.files = files;
        let before = self.position.clone();
        self.follow(&before)?;
        Ok(self.standing != Standing::Unchanged)
    }

    fn rewind(&mut self) -> Result<bool, SourceError> {
        if self.live {
            return Ok(false);
        }
        self.position = Position { how: self.how(), ..Position::default() };
        (self.standing, self.lost) = (Standing::Anew, true);
        self.go_to(Place::default(), Running::default())?;
        Ok(true)
    }

    fn is_whole(&self) -> bool {
        !self.live
    }

    fn is_empty(&self) -> bool {
        self.position.end.as_ref().is_some_and(|end| end.place.line == 0)
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
