//! Finds the installed library with pkg-config.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let is_static = std::env::var_os("CARGO_FEATURE_STATIC").is_some();
    let mut command = Command::new("pkg-config");
    if is_static {
        command.args(["--define-variable=library=assay", "--static"]);
    }
    let output = command
        .args(["--libs", "assay >= 1.0"])
        .output()
        .expect("pkg-config, which finds libassay, cannot be run");
    assert!(
        output.status.success(),
        "install libassay, or set PKG_CONFIG_PATH to its lib/pkgconfig: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    for flag in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
            if is_static {
                println!("cargo:rerun-if-changed={folder}/libassay.a");
            }
        } else if flag == "-lassay" && is_static {
            println!("cargo:rustc-link-lib=static:-bundle=assay");
        } else if let Some(library) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={library}");
        }
    }
}
