//! Mail: archives become messages of the index, messages become threads with summaries.
//!
//! All of it is in one collection. [`Archives`] and [`Threads`] are sources that list what is not in it as it is. [`ListHandler`] names the messages
//! of an archive, a child process ([`worker`]) takes each apart, [`UnfoldHandler`] makes its chunks items of their own, [`KeepHandler`] publishes archives,
//! messages and threads with what is known of them, [`DigestHandler`] reads threads for their summary.

mod archives;
mod digest;
mod facts;
mod keep;
mod list;
mod open;
mod payload;
mod skip;
mod threads;
mod unfold;
pub mod worker;

pub use archives::{Archives, ArchivesSpec, ArchivesTally};
pub use digest::DigestHandler;
pub use facts::{MessageFacts, Place, Summary, ThreadFacts};
pub use keep::KeepHandler;
pub use list::{ListHandler, ListTally};
pub use open::{Form, FoundArchive, FoundArchives, archive_path, find_archives};
pub use payload::{ArchivePayload, MailPayload, MessagePayload, ReadHandler, ThreadPayload};
pub use skip::AskHandler;
pub use threads::{Threads, ThreadsSpec, ThreadsTally};
pub use unfold::UnfoldHandler;

/// The name of the collection that mail is in.
pub const ROOT: &str = "mail:";
/// How the paths of messages begin.
pub const MESSAGE: &str = "message/";
/// How the paths of threads begin.
pub const THREAD: &str = "thread/";
/// How the paths of archives begin.
pub const ARCHIVE: &str = "archive/";
