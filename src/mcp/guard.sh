# Runs an MCP server in a process group of its own: $1 open files, $2 KiB of address space (0 = any), then its command.
#
# Everything for the server passes through `cat`. When that ends, whoever started us has closed the server's input, or is
# gone; the server sees the end of its input, and what is left of the group two seconds later is killed. When the server
# ends, what it left behind is killed at once.
ulimit -c 0
ulimit -n "$1"
[ "$2" = 0 ] || ulimit -v "$2"
shift 2
{ cat; exec >&-; sleep 2; kill -KILL 0; } | { "$@"; echo "it ended with status $?" >&2; kill -KILL 0; }
