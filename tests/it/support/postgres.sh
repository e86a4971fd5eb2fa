# Runs one PostgreSQL cluster of its own for as long as standard input stays open, then stops and erases it: when the
# process that started it ends, however it ends, the cluster goes too. Standard output: the cluster's folder, then its log.
#
# Usage: sh -c "$script" sh "$script" [postgres options]
set -eu
script=$1

find_initdb() {
    command -v initdb && return
    for found in $(ls -d /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb /opt/homebrew/opt/postgresql*/bin/initdb 2>/dev/null | sort -rV); do
        echo "$found" && return
    done
    echo 'no initdb found: install PostgreSQL (Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql)'
    return 1
}

# PostgreSQL refuses to run as root.
if [ "$(id -u)" = 0 ]; then
    user=postgres
    id "$user" >/dev/null 2>&1 || user=nobody
    exec setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups sh -c "$script" sh "$@"
fi
shift

# The owner of the pipe decides when this ends.
trap '' INT TERM HUP PIPE
initdb=$(find_initdb) || { echo "$initdb"; exit 1; }
folder=$(mktemp -d "${TMPDIR:-/tmp}/pes-postgres.XXXXXX")
server=
finish() {
    if [ -n "$server" ]; then
        kill -QUIT "$server" 2>/dev/null || true
        wait "$server" || true
    fi
    rm -rf "$folder"
}
trap finish EXIT

"$initdb" --pgdata="$folder/data" --username=postgres --auth=trust --encoding=UTF8 --no-locale --no-sync >"$folder/initdb.log" 2>&1 ||
    { cat "$folder/initdb.log"; exit 1; }
echo "$folder"
"${initdb%initdb}postgres" -D "$folder/data" -k "$folder" -p 5432 -c listen_addresses= "$@" </dev/null 2>&1 &
server=$!
# From here on only the server holds the log: its end tells that the server has ended.
exec >&- 2>&-
cat >/dev/null
