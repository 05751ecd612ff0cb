# How the commands of all packages are built: statically over glibc, without symbols. Sourced from the repository's
# root. With a target named, the flag is not for build scripts and procedural macros, which cannot be static.
host=$(rustc -vV | sed -n 's/^host: //p')
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
unset CARGO_ENCODED_RUSTFLAGS
export CARGO_TARGET_DIR=$target CARGO_BUILD_TARGET=$host CARGO_PROFILE_RELEASE_STRIP=symbols
export RUSTFLAGS='-C target-feature=+crt-static'
