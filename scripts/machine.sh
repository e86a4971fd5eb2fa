# Installs or reports what is needed to build and test this project. Sourced by the scripts beside it.
# Missing packages are installed only for root, or in CI if sudo needs no password.

if ! command -v cargo >/dev/null && [ -f "$HOME/.cargo/env" ]; then
    . "$HOME/.cargo/env"
fi

# Never prompts, and keeps existing configuration files.
install_packages() {
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        [ "${CI:-}" = true ] && sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    command -v apt-get >/dev/null || return 1
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c '
        apt-get update -qq && apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "$@"
    ' sh "$@" >&2
}

# need WHAT TEST PACKAGE...
need() {
    local what=$1 is_there=$2
    shift 2
    if "$is_there"; then return 0; fi
    echo "$what is missing; installing $*" >&2
    if install_packages "$@" && "$is_there"; then return 0; fi
    echo "$what is missing. Install it with: sudo apt-get install $*" >&2
    return 1
}

has_compiler() { command -v cc >/dev/null; }
has_git() { command -v git >/dev/null; }
has_certificates() { [ -s /etc/ssl/certs/ca-certificates.crt ] || [ ! -f /etc/debian_version ]; }
# The same places as tests/it/support/postgres.sh.
has_postgres() {
    command -v initdb >/dev/null && return 0
    local place
    for place in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin; do
        if [ -x "$place/initdb" ]; then return 0; fi
    done
    return 1
}

need_cargo() {
    command -v cargo >/dev/null && return 0
    echo 'Rust is missing. Install it from https://rustup.rs' >&2
    return 1
}

has_curl() { command -v curl >/dev/null; }
has_tmux() { command -v tmux >/dev/null; }
need_tmux() { need 'tmux' has_tmux tmux; }

has_python() { command -v python3 >/dev/null; }
has_node() { command -v npm >/dev/null; }
has_chromium() { command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; }

need_node() { need 'Node with npm' has_node npm; }

need_chromium() { need 'Chromium' has_chromium chromium; }

need_curl() { need 'curl' has_curl curl; }

need_python() { need 'Python 3' has_python python3; }

has_systemd_analyze() { command -v systemd-analyze >/dev/null; }
need_systemd_analyze() { need "systemd-analyze" has_systemd_analyze systemd; }

has_promtool() { command -v promtool >/dev/null; }
# policy-rc.d prevents the package from starting a server.
need_promtool() {
    has_promtool && return 0
    local policy=/usr/sbin/policy-rc.d made=
    if [ "$(id -u)" = 0 ] && [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=$policy
    fi
    local found=0
    need 'promtool' has_promtool prometheus || found=1
    [ -z "$made" ] || rm -f "$made"
    return "$found"
}

need_compiler() { need 'A C compiler' has_compiler gcc libc6-dev; }

# The tests start their own clusters, so the package must not create one.
need_postgres() {
    if [ "$(id -u)" = 0 ] && ! has_postgres && [ ! -e /etc/postgresql-common ]; then
        mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    fi
    need PostgreSQL has_postgres postgresql
}

# need_component NAME: a component of the Rust toolchain.
need_component() {
    cargo "$1" --version >/dev/null 2>&1 && return 0
    local component=$1
    [ "$component" = fmt ] && component=rustfmt
    command -v rustup >/dev/null && rustup component add "$component" >&2 && return 0
    echo "cargo $1 is missing. Install it with: rustup component add $component" >&2
    return 1
}

need_deny() {
    cargo deny --version >/dev/null 2>&1 && return 0
    echo 'cargo-deny is missing; building it' >&2
    cargo install --quiet --locked cargo-deny
}
