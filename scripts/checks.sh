# What scripts/check and .ci/run check beside the tests. Sourced by both, after machine.sh.

need_cargo
need_component fmt
need_component clippy

# all_checks: hands each command to the caller's `check COMMAND...`.
all_checks() {
    check cargo fmt --all --check
    check cargo clippy --workspace --locked --all-targets -- -D warnings
    check cargo clippy --workspace --locked --all-targets --features failpoints -- -D warnings
    check env RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps -p pes -p pes-engine
    check scripts/check-commits
    check scripts/check-openapi
    check need_deny
    check cargo deny --log-level error check bans licenses sources
    # Known weaknesses of dependencies fail the build wherever the advisory database can be had.
    if cargo deny --log-level error fetch db; then
        check cargo deny --log-level error check --disable-fetch advisories
    else
        echo 'cargo deny check advisories: NOT DONE, the advisory database cannot be had here' >&2
    fi
}
