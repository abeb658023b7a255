//! How messages are written into archives, with everything that can be wrong about it.

use std::fmt::Write as _;

/// A message that is made up.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) id: Option<String>,
    pub(super) references: Vec<String>,
    pub(super) use_in_reply_to_only: bool,
    pub(super) subject: String,
    pub(super) from: String,
    /// Seconds since 1970.
    pub(super) at: i64,
    pub(super) list: Option<String>,
    pub(super) lines: Vec<String>,
    pub(super) quoted: Option<String>,
    /// Which kinds of parts it has.
    pub(super) form: usize,
    /// What is wrong with it.
    pub(super) flaw: usize,
    /// Whether a line of its text begins with `From `.
    pub(super) from_line: bool,
    /// Bytes of a large attachment.
    pub(super) big: usize,
}

/// How an archive keeps lines of a text that begin with `From `.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    /// One `>` before any such line, quoted ones as well.
    Rd,
    /// One `>` before those that are not quoted.
    O,
    /// Not at all: a header tells how long the text is.
    Length,
    /// Not at all.
    None,
}

impl Message {
    /// The name of a message that stands in this one's text, where the archive can tell.
    pub(super) fn pasted(&self, can_tell: bool) -> Option<String> {
        let id = self.id.as_ref()?;
        (can_tell && self.from_line && self.form < 8).then(|| format!("pasted.{id}"))
    }

    /// The bytes of the message. `can_tell`: its archive keeps texts apart by their length.
    pub(super) fn raw(&self, can_tell: bool) -> Vec<u8> {
        let (kind, body) = self.body(can_tell);
        let mut head = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(head, "{name}: {value}");
        };
        line("Received", "from somewhere by relay.example.org; Tue, 17 Nov 2026 10:00:00 +0000");
        line("From", &self.from);
        match self.flaw {
            0 => line("Subject", &format!("{}\n\t{}", self.subject, "")),
            _ => line("Subject", &self.subject),
        }
        match self.flaw {
            1 => line("Date", "yesterday, about noon"),
            2 => {}
            _ => line("Date", &date(self.at)),
        }
        if let Some(id) = &self.id {
            line(if self.flaw == 3 { "MESSAGE-ID" } else { "Message-ID" }, &format!("<{id}>"));
        }
        if let Some(answered) = self.references.last() {
            if self.use_in_reply_to_only {
                line("In-Reply-To", &format!("Your message of last week <{answered}>"));
            } else {
                let all: Vec<String> = self.references.iter().map(|id| format!("<{id}>")).collect();
                line("References", &all.join("\n "));
            }
        }
        if let Some(list) = &self.list {
            line("List-Id", &format!("A list <{list}>"));
        }
        line("MIME-Version", "1.0");
        line("Content-Type", &kind);
        if self.flaw == 4 {
            head.push_str("this line has no colon and no business here\n");
        }
        let mut raw = head.into_bytes();
        if self.flaw == 5 {
            raw.extend_from_slice(b"X-Raw: caf\xe9 \xff\xfe\n");
        }
        if can_tell {
            raw.extend_from_slice(format!("Content-Length: {}\n", body.len()).as_bytes());
        }
        raw.push(b'\n');
        raw.extend_from_slice(&body);
        raw
    }

    fn text(&self, can_tell: bool) -> String {
        let mut text = String::from("Hi all,\n\n");
        if let Some(quoted) = &self.quoted {
            let _ = write!(text, "On Monday, somebody wrote:\n> {quoted}\n\n");
        }
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        if self.from_line {
            text.push_str("\nFrom here on I can only guess.\n>From a quoted line.\n");
            if let Some(id) = self.pasted(can_tell) {
                let _ = write!(
                    text,
                    "\nFrom pasted@example.org Tue Nov 17 10:00:00 2026\nMessage-ID: <{id}>\n\nPasted.\n"
                );
            }
        }
        text.push_str("\n-- \nSent with something\n");
        text
    }

    /// The type and the bytes of the body.
    fn body(&self, can_tell: bool) -> (String, Vec<u8>) {
        let text = self.text(can_tell);
        if self.big > 0 {
            let part = base64(&vec![b'x'; self.big]);
            let big = format!(
                "--big\nContent-Type: text/plain\n\n{text}\n--big\nContent-Type: application/octet-stream\nContent-Disposition: attachment; \
                 filename=\"big.bin\"\nContent-Transfer-Encoding: base64\n\n{part}\n--big--\n"
            );
            return ("multipart/mixed; boundary=\"big\"".into(), big.into_bytes());
        }
        match self.form {
            8 => {
                let html = format!(
                    "<html><body><p>{}</p><script>x()</script></body></html>",
                    self.lines.join("</p><p>")
                );
                let both = format!(
                    "--in\nContent-Type: text/plain; charset=utf-8\n\n{text}\n--in\nContent-Type: text/html\n\n{html}\n--in--\n"
                );
                let all = format!(
                    "--out\nContent-Type: multipart/alternative; boundary=\"in\"\n\n{both}\n--out\nContent-Type: text/csv; name=\"t.csv\"\n\
                     Content-Disposition: attachment; filename=\"t.csv\"\n\nname,count\n{},3\n--out--\n",
                    self.subject
                );
                ("multipart/mixed; boundary=\"out\"".into(), all.into_bytes())
            }
            9 => {
                let inner = format!(
                    "From: inner@example.org\nSubject: inner of {}\n\nThe inner text.\n",
                    self.subject
                );
                let all = format!("--b\n\n{text}\n--b\nContent-Type: message/rfc822\n\n{inner}\n--b--\n");
                ("multipart/mixed; boundary=b".into(), all.into_bytes())
            }
            // The end of the parts is missing.
            10 => ("multipart/mixed; boundary=\"never\"".into(), format!("--never\n\n{text}").into_bytes()),
            // It says one encoding and is in another.
            11 => {
                let mut bytes = text.into_bytes();
                bytes.extend_from_slice(b"caf\xe9 au lait, na\xefve\n");
                ("text/plain; charset=utf-8".into(), bytes)
            }
            7 => ("text/plain; charset=x-no-such-thing".into(), text.into_bytes()),
            _ => ("text/plain; charset=us-ascii".into(), text.into_bytes()),
        }
    }
}

/// The same message as another list passed it on.
pub(super) fn forwarded_copy(raw: &[u8]) -> Vec<u8> {
    let mut copy =
        b"Received: from other.example.org by mirror.example.org; Tue, 17 Nov 2026 11:00:00 +0000\n".to_vec();
    copy.extend(
        raw.split_inclusive(|byte| *byte == b'\n')
            .filter(|line| !line.starts_with(b"Content-Length"))
            .flatten(),
    );
    copy
}

/// Adds a message to an mbox.
pub(super) fn append(archive: &mut Vec<u8>, quoting: Quoting, raw: &[u8], at: i64) {
    let line = format!("From somebody@example.org {}\n", ctime(at));
    archive.extend_from_slice(line.as_bytes());
    let mut in_body = false;
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        let bare = line.iter().position(|byte| *byte != b'>').map_or(line, |start| &line[start..]);
        let is_quoted = match quoting {
            Quoting::Rd => bare.starts_with(b"From "),
            Quoting::O => line.starts_with(b"From "),
            Quoting::Length | Quoting::None => false,
        };
        if in_body && is_quoted {
            archive.push(b'>');
        }
        archive.extend_from_slice(line);
        in_body |= line == b"\n";
    }
    archive.push(b'\n');
}

fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + bytes.len() / 57);
    for row in bytes.chunks(57) {
        for three in row.chunks(3) {
            let n =
                three.iter().fold(0_u32, |n, byte| (n << 8) | u32::from(*byte)) << (8 * (3 - three.len()));
            for at in 0..4 {
                let sign = SIGNS[(n >> (18 - 6 * at)) as usize & 63];
                text.push(if at > three.len() { '=' } else { char::from(sign) });
            }
        }
        text.push('\n');
    }
    text
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// Year, month, day, hour, minute, second, weekday.
fn parts(at: i64) -> (i64, usize, i64, i64, i64, i64, &'static str) {
    let (days, seconds) = (at.div_euclid(86_400), at.rem_euclid(86_400));
    // Days to dates after Howard Hinnant.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    let weekday = DAYS[usize::try_from(days.rem_euclid(7)).unwrap_or(0)];
    (
        year,
        usize::try_from(month - 1).unwrap_or(0),
        day,
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        weekday,
    )
}

fn date(at: i64) -> String {
    let (year, month, day, hour, minute, second, weekday) = parts(at);
    format!("{weekday}, {day:02} {} {year} {hour:02}:{minute:02}:{second:02} +0000", MONTHS[month])
}

fn ctime(at: i64) -> String {
    let (year, month, day, hour, minute, second, weekday) = parts(at);
    format!("{weekday} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}", MONTHS[month])
}
