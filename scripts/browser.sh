# The tests of the page: in Node, and in the distribution's Chromium. Sourced by scripts/test.

# test_page LOG: sets up what tests/e2e/ needs and runs it against the server that cargo builds.
test_page() {
    need_node || return 1
    need_chromium || return 1
    local node=${NODE:-node}
    "$node" -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' || {
        echo 'The tests of the page need Node 20 or newer.' >&2
        return 1
    }
    cargo build --locked || return 1
    PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --prefix tests/e2e --no-audit --no-fund --silent >&2 || {
        echo 'playwright-core could not be installed from the package index' >&2
        return 1
    }
    local folder=${CARGO_TARGET_DIR:-target}
    PES_BIN=${PES_BIN:-$(realpath "$folder/debug/pes")} "$node" --test --test-concurrency=1 --test-reporter=tap tests/e2e/unit/ tests/e2e/pages/ 2>&1 |
        tee -a "$1"
}

# page_tests LOG pass|fail: how many, of the last line that node's runner writes about it.
page_tests() { awk -v what="$2" '$1 == "#" && $2 == what { n += $3 } END { print n + 0 }' "$1"; }
