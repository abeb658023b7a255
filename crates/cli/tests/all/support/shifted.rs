//! A clock that can be put: the wall clock of a process is off by what a file says, read anew every time.

use std::path::PathBuf;
use std::process::Command;

use super::Place;

/// What stands before the C library. Only the wall clock is off; what is never put, and `sleep`, run as they do.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <sys/time.h>
#include <unistd.h>

static long long shift_ms(void) {
    const char *path = getenv("CLOCK_SHIFT_FILE");
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
    if (answer == 0 && id == CLOCK_REALTIME) {
        long long ns = out->tv_nsec + shift_ms() % 1000 * 1000000LL;
        out->tv_sec += shift_ms() / 1000 + (ns < 0 ? -1 : ns / 1000000000LL);
        out->tv_nsec = (ns % 1000000000LL + 1000000000LL) % 1000000000LL;
    }
    return answer;
}
"#;

/// The wall clock of every process that is started in a place.
pub struct Shifted {
    file: PathBuf,
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
        let shifted = Self { file };
        shifted.put(0);
        shifted
    }

    /// Puts the clock: so many milliseconds from the right time.
    pub fn put(&self, ms: i64) {
        // Whole at once: a clock that is read between must not find half a number.
        let new = self.file.with_extension("new");
        std::fs::write(&new, ms.to_string()).expect("written");
        std::fs::rename(new, &self.file).expect("put");
    }
}
