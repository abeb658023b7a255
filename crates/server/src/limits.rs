//! How much of everything is taken.

use std::time::Duration;

/// Most bytes of a request's body.
pub const BODY: usize = 16 << 20;
/// Most bytes of a request's head.
pub const HEAD: usize = 32 << 10;
/// Most connections at a time.
pub const CONNECTIONS: usize = 512;
/// Further connections, on which only that is answered which needs no token: whether the process lives is told when all are taken.
pub const RESERVE: usize = 16;
/// Connections of one token above which it gives way to others when all are taken.
pub const SHARE: usize = CONNECTIONS / 4;
/// Most bodies of one token that are waited for at a time: the others find places, however slowly it sends.
pub const BODIES_OF_ONE: usize = SHARE;
/// How long somebody who was asked to leave is waited for before another one is.
pub const LEAVE_WITHIN: Duration = Duration::from_millis(25);
/// How many are asked to leave for one that came.
pub const LEAVERS: usize = 8;
/// Most clients that follow events at a time.
pub const FOLLOWERS: usize = 64;
/// Most bytes of one query.
pub const QUERY: usize = 8 << 10;
/// Largest number that is taken: JavaScript has no larger whole ones.
pub const NUMBER: i64 = (1 << 53) - 1;
/// How long a client may take for the head of a request, and for a handshake.
pub const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How long a client may take for a body.
pub const BODY_WITHIN: Duration = Duration::from_secs(30);
/// How long a client may take to read something that was written to it.
pub const READ_WITHIN: Duration = Duration::from_secs(30);
/// How long requests that are under way may take when the process is told to stop.
pub const DRAIN_WITHIN: Duration = Duration::from_secs(10);
/// How often followers of events are told something at most.
pub const EVENT_EVERY: Duration = Duration::from_millis(250);
/// How often followers are told that nothing happened.
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often the folder of pipelines is looked at.
pub const RELOAD_EVERY: Duration = Duration::from_secs(1);
/// How often schedules are looked at.
pub const SCHEDULE_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether something is kept no longer.
pub const FORGET_EVERY: Duration = Duration::from_secs(10);
/// How often it is looked whether something is to be told, where somebody wrote something.
pub const TELL_EVERY: Duration = Duration::from_secs(1);
/// How often that is looked at, whether or not somebody wrote something.
pub const TELL_AT_LEAST_EVERY: Duration = Duration::from_secs(10);
/// How often it is looked whether it is time for a sweep or for a look at the laws.
pub const SWEEP_EVERY: Duration = Duration::from_secs(2);
/// How long the store may take to say that it is there.
pub const READY_WITHIN: Duration = Duration::from_secs(2);
/// How often it is tried whether the store can be written.
pub const TRY_WRITING_EVERY: Duration = Duration::from_secs(5);
/// How often that is tried where it could not.
pub const TRY_WRITING_AGAIN: Duration = Duration::from_secs(1);
