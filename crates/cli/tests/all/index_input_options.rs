//! Options of `redrive index` and `redrive search` that cannot be: told with the option and what to do, before anything is made.

use crate::support::Place;

const SERVICE: [&str; 6] = ["--embedder", "openai", "--base-url", "http://127.0.0.1:1/v1", "--model", "m"];

/// Options of `index`, and what has to be said about them.
const INDEX: &[(&[&str], &[&str])] = &[
    (&["--base-url", "http://h/v1"], &["--base-url", "--embedder openai"]),
    (&["--model", "m"], &["--model", "--embedder openai"]),
    (&["--api-key-env", "KEY"], &["--api-key-env", "--embedder openai"]),
    (&["--dimensions", "5"], &["--dimensions", "--embedder openai"]),
    (&["--embedder", "openai"], &["--base-url", "for example"]),
    (&["--embedder", "openai", "--base-url", "http://h/v1"], &["--model", "for example"]),
    (&["--embedder", "openai", "--base-url", "ftp://h", "--model", "m"], &["http://"]),
    (
        &["--embedder", "openai", "--base-url", "http://me:hunter2@h/v1", "--model", "m"],
        &["--base-url", "password", "--api-key-env"],
    ),
    (
        &["--embedder", "openai", "--base-url", "http://h/v1", "--model", "m", "--api-key-env", "sk-hunter2"],
        &["name of an environment variable"],
    ),
    (&["--embedder", "magic"], &["builtin", "openai"]),
    (&["--chunk-tokens", "0"], &["0 is not between 16 and 8192"]),
    (&["--chunk-tokens", "many"], &["--chunk-tokens", "many"]),
    (&["--chunk-tokens", "100", "--overlap", "80"], &["overlap", "at most 50"]),
    (&["--max-bytes", "lots"], &["lots", "16MiB"]),
    (&["--max-bytes", "0"], &["1 byte"]),
    (&["--processes", "0"], &["0 is not between 1 and"]),
    (&["--max-wait", "soon"], &["--max-wait", "30s"]),
    (&["--lease", "0s"], &["--lease"]),
    (&["--bogus"], &["--bogus"]),
];

fn with_a_file() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("docs")).expect("made");
    place.write("docs/a.md", "The otter swims.");
    place
}

#[test]
fn options_that_cannot_be_are_told_before_anything_is_made() {
    let place = with_a_file();
    for (options, fragments) in INDEX {
        let args: Vec<&str> = ["index", "docs"].into_iter().chain(options.iter().copied()).collect();
        let ran = place.run(&args);
        assert_eq!(ran.code(), Some(2), "{options:?}: {}", ran.stderr);
        for fragment in *fragments {
            assert!(ran.stderr.contains(fragment), "{options:?}: no {fragment:?} in\n{}", ran.stderr);
        }
        assert_eq!(ran.stdout, "", "{options:?}: errors are no data");
        assert!(!ran.stderr.contains("hunter2"), "{options:?}: {}", ran.stderr);
        assert!(!place.path(".redrive").exists(), "{options:?}: no store was made");
    }
}

#[test]
fn a_wrong_value_is_told_by_the_option_it_was_given_with() {
    let place = with_a_file();
    for (option, value) in
        [("--chunk-tokens", "0"), ("--overlap", "200"), ("--max-bytes", "lots"), ("--processes", "0")]
    {
        let ran = place.run(&["index", "docs", option, value]).expect(2);
        assert!(ran.stderr.contains(option), "{option} is not in\n{}", ran.stderr);
    }
}

#[test]
fn a_key_that_is_not_set_is_told_and_binds_the_directory_to_no_model() {
    let place = with_a_file();
    let args: Vec<&str> =
        ["index", "docs"].into_iter().chain(SERVICE).chain(["--api-key-env", "NO_SUCH_KEY_HERE"]).collect();
    let ran = place.run(&args).expect(2);
    assert!(ran.stderr.contains("NO_SUCH_KEY_HERE is not set"), "{}", ran.stderr);
    // Nothing was embedded: whoever changes their mind need not make anything anew.
    place.run(&["index", "docs"]).expect(0);
}

#[test]
fn without_an_index_a_search_says_how_to_make_one() {
    let place = with_a_file();
    let ran = place.run(&["search", "otter"]).expect(2);
    assert!(
        ran.stderr.contains("there is no store") && ran.stderr.contains("redrive index"),
        "{}",
        ran.stderr
    );
    assert!(!place.path(".redrive").exists(), "no store was made");
    place.write(
        "p.toml",
        "name = \"p\"\n[source]\npath = \"in.jsonl\"\n[[stage]]\nname = \"s\"\nkind = \"pass\"\n",
    );
    place.write("in.jsonl", "{}\n");
    place.run(&["run", "p.toml"]).expect(0);
    let ran = place.run(&["search", "otter"]).expect(2);
    assert!(ran.stderr.contains("no index") && ran.stderr.contains("redrive index DIR"), "{}", ran.stderr);
}

#[test]
fn searches_that_cannot_be_are_told() {
    let place = with_a_file();
    place.run(&["index", "docs"]).expect(0);
    std::fs::create_dir(place.path("other")).expect("made");
    let table: &[(&[&str], &[&str])] = &[
        (&[], &["QUERY"]),
        (&[""], &["empty"]),
        (&["", "--mode", "words"], &["empty"]),
        (&["otter", "--path", "a["], &["'a[' is not a glob"]),
        (&["otter", "--lang", "klingon"], &["klingon", "markdown"]),
        (&["otter", "--mode", "smell"], &["hybrid", "meaning", "words"]),
        (&["otter", "-k", "many"], &["many"]),
        (&["otter", "-k", "0"], &["-k"]),
        (&["otter", "--page", "0"], &["--page"]),
        (&["otter", "--in", "nowhere"], &["there is no directory 'nowhere'"]),
        (&["otter", "--in", "other"], &["there is no index of", "other", "redrive index DIR"]),
        (&["otter", "--model", "m"], &["builtin/", "not with m", "--rebuild"]),
    ];
    let mut wrong = Vec::new();
    for (options, fragments) in table {
        let args: Vec<&str> = ["search"].into_iter().chain(options.iter().copied()).collect();
        let ran = place.run(&args);
        let missing: Vec<&&str> =
            fragments.iter().filter(|fragment| !ran.stderr.contains(**fragment)).collect();
        if ran.code() != Some(2) || !missing.is_empty() || !ran.stdout.is_empty() {
            wrong.push(format!("{options:?}: code {:?}, without {missing:?}: {}", ran.code(), ran.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn help_names_every_option_of_the_contract() {
    let place = Place::new();
    let table: &[(&str, &[&str])] = &[
        (
            "index",
            &[
                "[DIR]",
                "--embedder",
                "builtin",
                "openai",
                "--base-url",
                "--model",
                "--api-key-env",
                "--dimensions",
                "--chunk-tokens",
                "--overlap",
                "--hidden",
                "--follow-symlinks",
                "--no-ignore",
                "--max-bytes",
                "--processes",
                "--watch",
                "--rebuild",
                "--retry-refused",
                "--new",
                "--max-wait",
                "--lease",
                "--json",
                "--store",
                "--quiet",
            ],
        ),
        (
            "search",
            &[
                "<QUERY>...",
                "-k",
                "--mode",
                "hybrid",
                "meaning",
                "words",
                "--path",
                "--lang",
                "--page",
                "--in",
                "--model",
                "--json",
                "--store",
            ],
        ),
    ];
    for (command, options) in table {
        let help = place.run(&[command, "--help"]).expect(0).stdout;
        for option in *options {
            assert!(help.contains(option), "{command}: no {option} in\n{help}");
        }
        let overview = place.run(&["--help"]).expect(0).stdout;
        assert!(overview.contains(command), "{overview}");
    }
}
