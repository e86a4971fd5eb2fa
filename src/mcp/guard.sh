# Runs an MCP server in a process group of its own: $1 its mark, $2 open files, $3 KiB of address space (0 = any), $4 the
# process that started us, then its command.
#
# Everything for the server passes through `cat`. When that ends, whoever started us has closed the server's input, or is
# gone; the server sees the end of its input, and what is left of it two seconds later is killed. While the server reads
# nothing, `cat` cannot end, so we also look every second whether our parent is still the process that started us. When the
# server ends, what it left behind is killed at once: first what carries its mark in the environment (it may have left the
# group), then the group. A process that is just becoming another program shows no environment: the last look is a second
# later.
mark=PES_MCP_PROCESS=$1
ulimit -c 0
ulimit -n "$2"
[ "$3" = 0 ] || ulimit -v "$3"
owner=$4
shift 4
kill_all() {
    for pause in 0 0 1; do
        sleep "$pause"
        for found in $(grep -lszx "$mark" /proc/[0-9]*/environ 2>/dev/null); do
            found=${found#/proc/}
            kill -KILL "${found%/environ}" 2>/dev/null
        done
    done
    kill -KILL 0
}
is_owned() { read -r _ _ _ parent _ <"/proc/$$/stat" && [ "$parent" = "$owner" ]; }
if is_owned 2>/dev/null; then
    { while is_owned; do sleep 1; done; sleep 2; kill_all; } >/dev/null 2>&1 &
fi
{ cat; exec >&-; sleep 2; kill_all; } | { (export "$mark"; exec "$@"); echo "it ended with status $?" >&2; exec >&-; kill_all; }
