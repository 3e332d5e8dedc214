//! Compares lib.rs with the headers: the text of its declarations is turned back into C, and a C
//! compiler says whether both can stand side by side.
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const HEADERS: [&str; 4] = ["assay.h", "assay_data.h", "assay_graph.h", "assay_comm.h"];

/// The text between `open` and its closing counterpart, and what stands behind that.
fn inside(text: &str, open: char, close: char) -> (&str, &str) {
    let mut depth = 1;
    for (i, c) in text.char_indices() {
        depth += (c == open) as i32 - (c == close) as i32;
        if depth == 0 {
            return (&text[..i], &text[i + 1..]);
        }
    }
    panic!("no {close} in {text}");
}

/// Parts at commas that stand in no brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut all, mut before) = (0, 0, vec![], ' ');
    for (i, c) in text.char_indices() {
        let is_arrow = before == '-' && c == '>';
        depth += "([<".contains(c) as i32 - (")]>".contains(c) && !is_arrow) as i32;
        if c == ',' && depth == 0 {
            all.push(&text[from..i]);
            from = i + 1;
        }
        before = c;
    }
    all.push(&text[from..]);
    all.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn c_parameters(text: &str) -> String {
    let types: Vec<String> =
        parts(text).iter().map(|p| declaration(p.split_once(':').unwrap().1, "")).collect();
    if types.is_empty() {
        "void".to_string()
    } else {
        types.join(", ")
    }
}

/// `name` declared in C with a type of Rust.
fn declaration(rust: &str, name: &str) -> String {
    let rust = rust.split_whitespace().collect::<Vec<_>>().join(" ").replace("Option< ", "Option<");
    let rust = rust.as_str();
    if let Some(function) = rust.strip_prefix("Option<unsafe extern \"C\" fn(") {
        let (parameters, rest) = inside(function, '(', ')');
        let result =
            rest.trim_end_matches([',', ' ', '>']).trim().strip_prefix("->").unwrap_or("()");
        return declaration(result, &format!("(*{name})({})", c_parameters(parameters)));
    }
    if let Some(element) = rust.strip_prefix('[') {
        let (element, count) = element.trim_end_matches(']').split_once(';').unwrap();
        return declaration(element, &format!("{name}[{}]", count.trim()));
    }
    if let Some(to) = rust.strip_prefix("*mut ") {
        return declaration(to, &format!("*{name}"));
    }
    if let Some(to) = rust.strip_prefix("*const ") {
        // What is constant is what the pointer points to.
        return if to.starts_with('*') {
            declaration(to, &format!("*const *{name}").replacen('*', "", 1))
        } else {
            format!("const {}", declaration(to, &format!("*{name}")))
        };
    }
    let c = match rust {
        "()" | "c_void" => "void",
        "c_char" => "char",
        "C" => "int",
        "f32" => "float",
        "f64" => "double",
        "usize" => "size_t",
        "u8" => "uint8_t",
        "i32" => "int32_t",
        "u32" => "uint32_t",
        "i64" => "int64_t",
        "u64" => "uint64_t",
        "DLManagedTensorVersioned" => "struct DLManagedTensorVersioned",
        other => other,
    };
    format!("{c} {name}")
}

/// A C file that does not compile unless the declarations are those of the headers; and their names.
fn as_c(rust: &str) -> (String, BTreeSet<String>) {
    let mut c = String::new();
    let mut names = BTreeSet::new();
    for header in HEADERS {
        writeln!(c, "#include <assay/{header}>").unwrap();
    }
    for line in rust.split("pub const ").skip(1) {
        let (name, rest) = line.split_once(':').unwrap();
        let value = rest.split_once('=').unwrap().1.split_once(';').unwrap().0;
        writeln!(c, "_Static_assert({name} == ({value}), \"{name}\");").unwrap();
        names.insert(name.to_string());
    }
    for text in rust.split("pub type ").skip(1) {
        let (name, rest) = text.split_once('=').unwrap();
        let to = rest.split_once(';').unwrap().0;
        writeln!(c, "typedef {};", declaration(to, name.trim())).unwrap();
        names.insert(name.trim().to_string());
    }
    for text in rust.split("opaque!(").skip(1) {
        names.insert(text.split_once(')').unwrap().0.to_string());
    }
    for text in rust.split("#[derive(Clone, Copy)]\npub struct ").skip(1) {
        let (name, rest) = text.split_once('{').unwrap();
        let name = name.trim();
        let fields: Vec<(&str, &str)> = parts(inside(rest, '{', '}').0)
            .iter()
            .map(|field| field.trim_start_matches("pub ").split_once(':').unwrap())
            .collect();
        writeln!(c, "typedef struct {{").unwrap();
        for (field, rust_type) in &fields {
            writeln!(c, "  {};", declaration(rust_type, field)).unwrap();
        }
        writeln!(c, "}} rust_{name};").unwrap();
        writeln!(c, "_Static_assert(sizeof({name}) == sizeof(rust_{name}), \"size of {name}\");")
            .unwrap();
        for (field, _) in &fields {
            let what = format!("{name}.{field}");
            writeln!(c, "_Static_assert(offsetof({name}, {field}) == offsetof(rust_{name}, {field}), \"{what}\");").unwrap();
            writeln!(c, "void same_{name}_{field}(__typeof__(&(({name}*)0)->{field}));").unwrap();
            writeln!(c, "void same_{name}_{field}(__typeof__(&((rust_{name}*)0)->{field}));")
                .unwrap();
        }
        names.insert(name.to_string());
    }
    for text in rust.split("pub fn ").skip(1) {
        let (name, rest) = text.split_once('(').unwrap();
        let (parameters, rest) = inside(rest, '(', ')');
        let result = rest.split_once(';').unwrap().0.trim().strip_prefix("->").unwrap_or("()");
        writeln!(c, "{};", declaration(result, &format!("{name}({})", c_parameters(parameters))))
            .unwrap();
        names.insert(name.to_string());
    }
    (c, names)
}

fn include_folder() -> PathBuf {
    let output =
        Command::new("pkg-config").args(["--variable=includedir", "assay"]).output().unwrap();
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// Whether a C compiler takes the text; what it says otherwise.
fn compiles(c: &str, name: &str) -> Result<(), String> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, c).unwrap();
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", "-I"])
        .arg(include_folder())
        .arg(file)
        .output()
        .unwrap();
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn lib() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap()
}

#[test]
fn declarations_are_those_of_the_headers() {
    let (c, _) = as_c(&lib());
    compiles(&c, "same.c").unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn a_difference_would_be_found() {
    for (from, to) in [
        ("ASSAY_E_BUSY: C = -10", "ASSAY_E_BUSY: C = -11"),
        ("pub grad_norm: f64", "pub grad_norm: f32"),
        (
            "    pub micro_step: i64,\n    pub samples: i64,\n",
            "    pub samples: i64,\n    pub micro_step: i64,\n",
        ),
        (
            "config_json: assay_str,\n        out: *mut *mut assay_model",
            "config_json: assay_str,\n        out: *mut *mut assay_trainer",
        ),
        ("pub fn assay_abi_version() -> u32", "pub fn assay_abi_version() -> i32"),
        ("bytes: [u8; 128]", "bytes: [u8; 120]"),
        (
            "pub fn assay_tensor_retain(t: *const assay_tensor)",
            "pub fn assay_tensor_retain(t: *mut assay_tensor)",
        ),
        ("pub type assay_value = u64", "pub type assay_value = u32"),
        (
            "phase: assay_str, done: i64, total: i64) -> i32",
            "phase: assay_str, done: i64, total: i64) -> i64",
        ),
    ] {
        let text = lib();
        assert_eq!(text.matches(from).count(), 1, "{from}");
        let (c, _) = as_c(&text.replace(from, to));
        assert!(compiles(&c, "other.c").is_err(), "{to}");
    }
}

#[test]
fn nothing_of_the_headers_is_missing() {
    let (_, bound) = as_c(&lib());
    let mut declared = 0;
    for header in HEADERS {
        let text = std::fs::read_to_string(include_folder().join("assay").join(header)).unwrap();
        // Without comments and directives.
        let code: String = text
            .split("/*")
            .enumerate()
            .map(|(i, part)| if i == 0 { part } else { part.split_once("*/").unwrap().1 })
            .collect::<String>()
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| format!("{line}\n"))
            .collect();
        for name in code.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if (name.starts_with("assay_") || name.starts_with("ASSAY_")) && name != "ASSAY_API" {
                declared += 1;
                assert!(bound.contains(name), "{header} declares {name}, which lib.rs lacks");
            }
        }
    }
    assert!(declared > 300);
}
