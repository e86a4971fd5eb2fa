# The tests of the console: in Node, and in the distribution's Chromium, Firefox and WebKitGTK. Sourced by scripts/test.

# Playwright needs Node 20: if the distribution's is older, installs one from the package index below target/.
node_20() {
    local is_new='process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' own=${CARGO_TARGET_DIR:-target}/node
    if has node && node -e "$is_new"; then
        command -v node
        return
    fi
    if [ ! -x "$own/node_modules/.bin/node" ]; then
        echo "Node is older than 20; installing one into $own" >&2
        npm install --prefix "$own" --no-audit --no-fund --silent node@20 >&2 || return 1
    fi
    realpath "$own/node_modules/.bin/node"
}

# set_up_page: installs what tests/e2e/ needs. Prints the path of its Node.
set_up_page() {
    { need_node && need_chromium; } >&2 || return 1
    PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --prefix tests/e2e --no-audit --no-fund --silent >&2 || {
        echo 'playwright-core could not be installed from the package index' >&2
        return 1
    }
    node_20
}

# The page's fold in Node, and in a browser a run and what docs/GUARANTEES.md names.
page_core=(
    tests/e2e/unit/
    tests/e2e/pages/live.test.mjs
    tests/e2e/pages/failure.test.mjs
    tests/e2e/pages/leaver.test.mjs
    tests/e2e/pages/hostile.test.mjs
    tests/e2e/pages/later.test.mjs
    tests/e2e/pages/signin.test.mjs
)

# A run as people see it, its past, its edits and signing in: also in Firefox.
page_firefox=(
    tests/e2e/pages/live.test.mjs
    tests/e2e/pages/past.test.mjs
    tests/e2e/pages/edit.test.mjs
    tests/e2e/pages/signin.test.mjs
)

# test_page LOG FILE...: sets up tests/e2e/, and runs these files and folders of it against the server that cargo builds.
test_page() {
    local said=$1 node
    shift
    node=$(set_up_page) || return 1
    cargo build --locked || return 1
    PES_BIN=${PES_BIN:-$(realpath "${CARGO_TARGET_DIR:-target}/debug/pes")} "$node" --test --test-timeout=600000 --test-concurrency=1 --test-reporter=tap "$@" 2>&1 |
        tee -a "$said"
}

# page_tests LOG pass|fail: the number of tests, from the summary lines of node's test runner.
page_tests() { awk -v what="$2" '$1 == "#" && $2 == what { n += $3 } END { print n + 0 }' "$1"; }
