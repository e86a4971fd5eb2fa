# Third-party servers that speak our protocols, each installed into target/peers and started on a loopback port.
# Sourced by scripts/test, and stopped at its end. A peer that cannot be installed is reported, and its tests count as failed.

PEERS=target/peers
peer_pids=()

stop_peers() {
    for pid in "${peer_pids[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# missing WHAT WHY
missing() {
    echo "scripts/test: $1 cannot be tested against: $2" >&2
    return 1
}

# has_pip HOME NAME==VERSION...: whether that environment has exactly these versions.
has_pip() {
    local home=$1 asked name
    shift
    for asked in "$@"; do
        name=${asked%%==*}
        [ "$("$home/bin/pip" show "${name%%\[*}" 2>/dev/null | sed -n 's/^Version: //p')" = "${asked##*==}" ] || return 1
    done
}

# has_npm FOLDER NAME@VERSION...: the same for npm packages, named as for npm (also name@npm:package@version).
has_npm() {
    local folder=$1 asked rest
    shift
    for asked in "$@"; do
        rest=${asked#?}
        grep -qsF "\"version\": \"${asked##*@}\"" "$folder/node_modules/${asked:0:1}${rest%%@*}/package.json" || return 1
    done
}

# install_pip HOME WHAT NAME==VERSION...: installs what that environment does not have.
install_pip() {
    local home=$1 what=$2
    shift 2
    if has_pip "$home" "$@"; then return; fi
    echo "installing $* into $home" >&2
    { python3 -m venv "$home" && "$home/bin/pip" install -q --disable-pip-version-check "$@"; } >&2 ||
        missing "$what" "$* could not be installed from the package index"
}

# install_npm FOLDER WHAT NAME@VERSION...: the same for npm packages.
install_npm() {
    local folder=$1 what=$2
    shift 2
    need_node || return 1
    if has_npm "$folder" "$@"; then return; fi
    echo "installing $* into $folder" >&2
    npm install --prefix "$folder" --no-audit --no-fund --silent "$@" >&2 ||
        missing "$what" "$* could not be installed from the package index"
}

# answers URL PID LOG: waits until the URL answers, while the process lives.
answers() {
    for _ in $(seq 240); do
        if curl -fsS -o /dev/null "$1" 2>/dev/null; then return 0; fi
        if ! kill -0 "$2" 2>/dev/null; then break; fi
        sleep 0.5
    done
    tail -n 20 "$3" >&2
    return 1
}

# Mock answers in the formats of OpenAI and Anthropic; see tests/peers/litellm.yaml.
start_litellm() {
    local home=$PEERS/litellm log=$PEERS/litellm.log
    install_pip "$home" LiteLLM 'litellm[proxy]==1.106.2' || return 1
    local port behind
    port=$(free_port)
    behind=$(free_port)
    env LITELLM_BEHIND_URL="http://127.0.0.1:$behind/v1" LITELLM_TELEMETRY=False LITELLM_LOCAL_MODEL_COST_MAP=True \
        "$home/bin/litellm" --config tests/peers/litellm.yaml --host 127.0.0.1 --port "$port" >"$log" 2>&1 &
    peer_pids+=("$!")
    answers "http://127.0.0.1:$port/health/liveliness" "$!" "$log" ||
        { missing LiteLLM "it did not start; see $log"; return 1; }
    export LITELLM_URL="http://127.0.0.1:$port" LITELLM_BEHIND="127.0.0.1:$behind"
}

# The reference servers of MCP, from npm and PyPI; the tests start them.
install_mcp_servers() {
    install_npm "$PEERS/npm" "MCP's servers" \
        @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31 || return 1
    install_pip "$PEERS/py" "MCP's time server" mcp-server-time==2026.10.19
}

# The client libraries of MCP, from PyPI and npm: the tests run them; see tests/peers/mcp_client.py, mcp_client.mjs
# and mcp_tasks.mjs.
install_mcp_clients() {
    install_pip "$PEERS/mcp" 'the MCP client for Python' mcp==2.3.0 || return 1
    install_npm "$PEERS/mcp-js" 'the MCP clients for JavaScript' \
        @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0 @modelcontextprotocol/ext-tasks@0.2.2
}

# The A2A library, from PyPI: the tests run its client, and call agents built with it; see tests/peers/a2a_server.py.
start_a2a_sdk() {
    local home=$PEERS/a2a log=$PEERS/a2a.log
    install_pip "$home-0.3" a2a-sdk 'a2a-sdk[http-server]==0.3.24' || return 1
    install_pip "$home" a2a-sdk 'a2a-sdk[http-server]==1.3.0' uvicorn==0.54.0 httpx==0.28.1 || return 1
    local port
    port=$(free_port)
    "$home/bin/python" -B tests/peers/a2a_server.py "$port" >"$log" 2>&1 &
    peer_pids+=("$!")
    answers "http://127.0.0.1:$port/jsonrpc-1.0/does/.well-known/agent-card.json" "$!" "$log" ||
        { missing a2a-sdk "its agents did not start; see $log"; return 1; }
    export A2A_SDK_URL="http://127.0.0.1:$port"
}

# OpenAI's own library, from PyPI: the tests run a complete scenario with it; see tests/peers/openai_client.py.
install_openai() { install_pip "$PEERS/openai" openai openai==3.54.0; }

# The same for JavaScript, and the AI SDK's provider for OpenAI, from npm; see tests/peers/openai_client.mjs and ai_openai.mjs.
install_openai_js() {
    local home=$PEERS/openai-js
    install_npm "$home" 'openai for JavaScript' openai@7.57.0 ai6@npm:ai@6.0.326 openai3@npm:@ai-sdk/openai@3.0.141 \
        ai7@npm:ai@7.0.173 openai4@npm:@ai-sdk/openai@4.0.118 || return 1
    cp tests/peers/openai_client.mjs tests/peers/ai_openai.mjs "$home"
}

# OpenAI's Agents SDK, from PyPI; see tests/peers/openai_agents.py.
install_openai_agents() { install_pip "$PEERS/openai-agents" openai-agents openai-agents==0.24.0; }

# Clients in TypeScript and Python, generated from the OpenAPI document by third-party generators. The tests run a complete
# scenario with each; see tests/peers/client.ts and tests/peers/client.py.
generate_clients() {
    local ts=$PEERS/client-ts py=$PEERS/client-py
    install_npm "$ts" 'a client in TypeScript' openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3 \
        @types/node@20.19.43 || return 1
    install_pip "$py" 'a client in Python' openapi-python-client==0.29.1 ruff==0.14.0 || return 1
    "$ts/node_modules/.bin/openapi-typescript" tests/openapi.json -o "$ts/api.d.ts" >&2 || return 1
    cp tests/peers/client.ts "$ts/client.ts"
    "$ts/node_modules/.bin/tsc" --strict --target es2022 --module nodenext --skipLibCheck --outDir "$ts/built" \
        --types node --typeRoots "$ts/node_modules/@types" \
        "$ts/client.ts" >&2 || return 1
    rm -rf "$py/generated"
    # The generator does not know JSON lines: its client treats them as bytes.
    echo '{ "content_type_overrides": { "application/x-ndjson": "application/octet-stream" } }' >"$py/config.json"
    PATH=$PWD/$py/bin:$PATH "$py/bin/openapi-python-client" generate --path tests/openapi.json --output-path "$py/generated" --meta none \
        --config "$py/config.json" --fail-on-warning >&2
}

# OpenTelemetry's own messages and names, from PyPI, for a collector built from them; see tests/peers/otlp_collector.py.
install_opentelemetry() {
    install_pip "$PEERS/opentelemetry" OpenTelemetry \
        opentelemetry-proto==1.45.2 opentelemetry-semantic-conventions==0.66b2
}

# rotel, a collector that forwards what it receives, from PyPI; the tests start it.
install_rotel() {
    local home=$PEERS/rotel folder
    install_pip "$home" rotel rotel==0.0.1a15 || return 1
    folder=$("$home/bin/python" -c 'import importlib.util as u; print(u.find_spec("rotel").submodule_search_locations[0])') &&
        ln -sf "$folder/rotel-agent" "$PWD/$home/bin/rotel-agent"
}

# Phoenix, which receives and shows traces of agents, from PyPI: 850 MB, and some minutes the first time.
start_phoenix() {
    local home=$PEERS/phoenix log=$PEERS/phoenix.log
    install_pip "$home" Phoenix arize-phoenix==20.26.1 || return 1
    local port grpc
    port=$(free_port)
    grpc=$(free_port)
    mkdir -p "$home/data"
    env PHOENIX_WORKING_DIR="$PWD/$home/data" PHOENIX_HOST=127.0.0.1 PHOENIX_PORT="$port" PHOENIX_GRPC_PORT="$grpc" \
        PHOENIX_TELEMETRY_ENABLED=false "$home/bin/phoenix" serve >"$log" 2>&1 &
    peer_pids+=("$!")
    answers "http://127.0.0.1:$port/healthz" "$!" "$log" || { missing Phoenix "it did not start; see $log"; return 1; }
    export PHOENIX_URL="http://127.0.0.1:$port"
}

# nginx, of the system, or the package of Debian unpacked below target/, not installed; the tests start it.
install_nginx() {
    local home=$PEERS/nginx-package found
    mkdir -p "$home"
    found=$(PATH=$PATH:/usr/sbin command -v nginx) || {
        if [ ! -x "$home/usr/sbin/nginx" ]; then
            echo "unpacking nginx into $home" >&2
            (cd "$home" && apt-get download -q nginx && dpkg -x nginx_*.deb .) >&2
        fi
        found=$(realpath "$home/usr/sbin/nginx")
    }
    ln -sf "$found" "$PEERS/nginx"
    "$PEERS/nginx" -v || missing nginx 'there is none, and no package of it: apt-get install nginx'
}

# A provider of OpenID Connect, from npm; the tests start it; see tests/peers/oidc_provider.mjs.
install_oidc_provider() {
    local home=$PEERS/oidc
    install_npm "$home" oidc-provider oidc-provider@9.13.3 || return 1
    cp tests/peers/oidc_provider.mjs "$home/provider.mjs"
}

# The client of the AI SDK, versions 6 and 7, from npm; see tests/peers/ai_sdk.mjs.
install_ai_sdk() {
    local home=$PEERS/ai-sdk
    install_npm "$home" 'the AI SDK' ai6@npm:ai@6.0.326 ai7@npm:ai@7.0.173 || return 1
    cp tests/peers/stories.mjs "$home/"
    cp tests/peers/ai_sdk.mjs "$home/story.mjs"
}

# AG-UI's client, versions before and from 1.0, from npm; see tests/peers/agui.mjs.
install_ag_ui() {
    local home=$PEERS/ag-ui
    install_npm "$home" AG-UI agui0@npm:@ag-ui/client@0.0.59 core0@npm:@ag-ui/core@0.0.59 \
        agui1@npm:@ag-ui/client@1.0.0 core1@npm:@ag-ui/core@1.0.0 || return 1
    cp tests/peers/stories.mjs "$home/"
    cp tests/peers/agui.mjs "$home/story.mjs"
}

# The clients in clients/, built and packed as for a release, and installed from their packages; see tests/peers/our_client.mts
# and tests/peers/our_client.py, and beside each its `_faults`.
install_our_clients() {
    local ts=$PEERS/our-ts py=$PEERS/our-py
    install_npm "$ts" 'our client in TypeScript' typescript@5.9.3 typescript7@npm:typescript@7.0.2 @types/node@20.19.43 || return 1
    (cd clients/typescript && npm ci --no-audit --no-fund --silent && npm pack --silent --pack-destination "$OLDPWD/$ts") >&2 || return 1
    rm -rf "$ts/node_modules/pes-client"
    npm install --prefix "$ts" --no-audit --no-fund --silent --no-save --no-package-lock "$ts"/pes-client-*.tgz || return 1
    cp tests/peers/our_client.mts tests/peers/our_client_faults.mts examples/approve.mts "$ts"
    first_block clients/typescript/README.md >"$ts/shown.mts"
    "$ts/node_modules/.bin/tsc" --strict --target es2022 --module nodenext --types node --typeRoots "$ts/node_modules/@types" \
        --outDir "$ts/built" "$ts"/*.mts >&2 || return 1
    cp tests/peers/our_client_commonjs.cts "$ts"
    local compiler
    for compiler in typescript typescript7; do
        compile_commonjs "$ts" "$compiler" --module node16 --outDir "$ts/built/$compiler" || return 1
        # What a bundler reads stays an `import`; its condition is then that of the bundler.
        compile_commonjs "$ts" "$compiler" --module preserve --moduleResolution bundler --noEmit || return 1
    done
    install_pip "$py" 'our client in Python' build==1.3.0 mypy==2.4.1 pyright==1.1.414 || return 1
    rm -rf "$py/dist"
    "$py/bin/python" -m build --outdir "$py/dist" clients/python >"$py/build.log" 2>&1 || { tail -n 20 "$py/build.log" >&2; return 1; }
    "$py/bin/pip" install -q --disable-pip-version-check --force-reinstall "$py"/dist/*.whl >&2 || return 1
    first_block clients/python/README.md >"$py/shown.py"
    "$py/bin/mypy" --strict --cache-dir "$py/mypy" tests/peers/our_client.py tests/peers/our_client_faults.py \
        examples/approve.py "$py/shown.py" >&2 || return 1
    "$py/bin/pyright" --pythonpath "$py/bin/python" examples/approve.py "$py/shown.py" >&2
}

# compile_commonjs FOLDER COMPILER OPTION...: a program that is a CommonJS module, by one version of TypeScript.
compile_commonjs() {
    local ts=$1 compiler=$2
    shift 2
    node "$ts/node_modules/$compiler/bin/tsc" --strict --target es2022 "$@" --types node --typeRoots "$ts/node_modules/@types" \
        "$ts/our_client_commonjs.cts" >&2
}

# first_block FILE: the first block of code of a document.
first_block() {
    awk '/^```/ { if (is_in) exit; is_in = 1; next } is_in' "$1"
}
