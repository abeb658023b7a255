//! A clock that can be put: the clocks of a process are off by what files say, read anew every time.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Place;

/// What stands before the C library. The wall clock is off, and so is the steady one where that is asked for; `sleep` runs as it does.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <sys/time.h>
#include <unistd.h>

static long long shift_ms(const char *name) {
    const char *path = getenv(name);
    char text[32] = {0};
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    return got > 0 ? atoll(text) : 0;
}

int clock_gettime(clockid_t id, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int answer = real(id, out);
    if (answer == 0 && (id == CLOCK_REALTIME || id == CLOCK_MONOTONIC)) {
        long long shift = shift_ms(id == CLOCK_REALTIME ? "CLOCK_SHIFT_FILE" : "STEADY_SHIFT_FILE");
        long long ns = out->tv_nsec + shift % 1000 * 1000000LL;
        out->tv_sec += shift / 1000 + (ns < 0 ? -1 : ns / 1000000000LL);
        out->tv_nsec = (ns % 1000000000LL + 1000000000LL) % 1000000000LL;
    }
    return answer;
}
"#;

/// The clocks of every process that is started in a place.
pub struct Shifted {
    file: PathBuf,
    steady: Option<PathBuf>,
}

impl Shifted {
    /// Begins with the right time.
    pub fn in_place(place: &mut Place) -> Self {
        place.write("shim.c", SHIM);
        let (source, library) = (place.path("shim.c"), place.path("shim.so"));
        let built = Command::new("gcc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(&source)
            .arg("-ldl")
            .output()
            .expect("gcc starts");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let file = place.path("shift");
        place.set("LD_PRELOAD", &library.display().to_string());
        place.set("CLOCK_SHIFT_FILE", &file.display().to_string());
        let shifted = Self { file, steady: None };
        shifted.put(0);
        shifted
    }

    /// The same, and [`Shifted::pass`] lets time pass for whoever waits.
    pub fn with_waits(place: &mut Place) -> Self {
        let steady = place.path("steady");
        place.set("STEADY_SHIFT_FILE", &steady.display().to_string());
        write_whole(&steady, 0);
        Self { steady: Some(steady), ..Self::in_place(place) }
    }

    /// Lets so many milliseconds have passed since the start for whoever waits for something; never fewer than before. A process
    /// finds out when something else wakes it.
    pub fn pass(&self, ms: i64) {
        write_whole(self.steady.as_ref().expect("made with waits"), ms);
    }

    /// Puts the clock: so many milliseconds from the right time.
    pub fn put(&self, ms: i64) {
        write_whole(&self.file, ms);
    }
}

/// Writes it whole at once: a clock that is read between must not find half a number.
fn write_whole(file: &Path, ms: i64) {
    let new = file.with_extension("new");
    std::fs::write(&new, ms.to_string()).expect("written");
    std::fs::rename(new, file).expect("put");
}
