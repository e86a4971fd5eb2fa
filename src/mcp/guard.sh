# Runs an MCP server, or watches over one. Each kills, in the end, whatever carries the marker in its environment (it may have
# left the process group), and then the group. A process that is just becoming another program shows no environment: the last
# look is a second later.
#
# With the marker alone ($1) it is the watch, which leads the process group. Only the process that started it has the other end
# of its input, and never writes: `read` returns when that process is gone, however it ended. The server has seen the end of
# its own input then, and has two seconds to end by itself.
#
# Otherwise it runs a program in that group: $2 open files, $3 KiB of address space (0 = any), then its command. What the
# program leaves behind when it ends is killed at once.
marker=PES_MCP_PROCESS=$1
kill_all() {
    for pause in 0 0 1; do
        sleep "$pause"
        for found in $(grep -lszx "$marker" /proc/[0-9]*/environ 2>/dev/null); do
            found=${found#/proc/}
            kill -KILL "${found%/environ}" 2>/dev/null
        done
    done
    kill -KILL 0
}
if [ $# = 1 ]; then
    read -r _
    sleep 2
    kill_all
fi
ulimit -c 0
ulimit -n "$2"
[ "$3" = 0 ] || ulimit -v "$3"
shift 3
(export "$marker"; exec "$@")
echo "it ended with status $?" >&2
exec <&- >&-
kill_all
