//! The example of an external worker stays one that is read at one look.

#[test]
fn the_example_in_python_has_at_most_fifty_lines_and_imports_no_packages() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example = std::fs::read_to_string(root.join("examples/external/worker.py")).expect("there");
    assert!(example.lines().count() <= 50, "{} lines", example.lines().count());
    let imported: Vec<&str> = example.lines().filter_map(|line| line.strip_prefix("import ")).collect();
    assert_eq!(
        imported,
        ["json, os, threading, time, urllib.error, urllib.request"],
        "of the standard library"
    );
}
