# Installs or reports what is needed to build and test this project. Sourced by the scripts beside it.
# Missing packages are installed only for root, or in CI if sudo needs no password.

has() { command -v "$1" >/dev/null; }

if ! has cargo && [ -f "$HOME/.cargo/env" ]; then
    . "$HOME/.cargo/env"
fi

# Never prompts, and keeps existing configuration files.
install_packages() {
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        [ "${CI:-}" = true ] && sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    has apt-get || return 1
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c '
        apt-get update -qq && apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "$@"
    ' sh "$@" >&2
}

# need WHAT TEST PACKAGE...: TEST is a command with its arguments, as 'has tmux'.
need() {
    local what=$1 is_there=$2
    shift 2
    if $is_there; then return 0; fi
    echo "$what is missing; installing $*" >&2
    if install_packages "$@" && $is_there; then return 0; fi
    echo "$what is missing. Install it with: sudo apt-get install $*" >&2
    return 1
}

need_curl() { need 'curl' 'has curl' curl; }
need_tmux() { need 'tmux' 'has tmux' tmux; }
need_python() { need 'Python 3' 'has python3' python3; }
need_node() { need 'Node with npm' 'has npm' npm; }
need_compiler() { need 'A C compiler' 'has cc' gcc libc6-dev; }
need_systemd_analyze() { need 'systemd-analyze' 'has systemd-analyze' systemd; }
need_git() { need 'git' 'has git' git; }

has_certificates() { [ -s /etc/ssl/certs/ca-certificates.crt ] || [ ! -f /etc/debian_version ]; }
need_certificates() { need 'The list of certificate authorities' has_certificates ca-certificates; }

has_chromium() { has chromium || has chromium-browser || has google-chrome; }
need_chromium() { need 'Chromium' has_chromium chromium; }

has_firefox() { has firefox-esr || has firefox; }
need_firefox() { need 'Firefox' has_firefox firefox-esr; }

has_webkit() { has WebKitWebDriver && has Xvfb; }
need_webkit() { need 'WebKitGTK with its WebDriver and Xvfb' has_webkit webkit2gtk-driver xvfb; }

# The same places as tests/it/support/postgres.sh.
has_postgres() {
    has initdb && return 0
    local place
    for place in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin; do
        if [ -x "$place/initdb" ]; then return 0; fi
    done
    return 1
}
# The tests start their own clusters, so the package must not create one.
need_postgres() {
    if [ "$(id -u)" = 0 ] && ! has_postgres && [ ! -e /etc/postgresql-common ]; then
        mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    fi
    need PostgreSQL has_postgres postgresql
}

# policy-rc.d prevents the package from starting a server.
need_promtool() {
    has promtool && return 0
    local policy=/usr/sbin/policy-rc.d made=
    if [ "$(id -u)" = 0 ] && [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=$policy
    fi
    local found=0
    need 'promtool' 'has promtool' prometheus || found=1
    [ -z "$made" ] || rm -f "$made"
    return "$found"
}

need_cargo() {
    has cargo && return 0
    echo 'Rust is missing. Install it from https://rustup.rs' >&2
    return 1
}

# need_component NAME: a component of the Rust toolchain.
need_component() {
    cargo "$1" --version >/dev/null 2>&1 && return 0
    local component=$1
    [ "$component" = fmt ] && component=rustfmt
    has rustup && rustup component add "$component" >&2 && return 0
    echo "cargo $1 is missing. Install it with: rustup component add $component" >&2
    return 1
}

need_deny() {
    cargo deny --version >/dev/null 2>&1 && return 0
    echo 'cargo-deny is missing; building it' >&2
    cargo install --quiet --locked cargo-deny
}
