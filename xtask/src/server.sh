# Keeps one server for as long as standard input stays open, then stops it and removes its folder.
#
# Arguments: the folder, which is to go in the end and which takes the log; the program and its
# arguments. The only line of output is the number of the server's process.
#
# The input ends when the other side closes it, and just as well when the other side is gone, however
# it went: nothing needs to be caught there.

dir=$1
shift

umask 077
trap '' PIPE
cd / || exit 1

"$@" </dev/null >"$dir/log" 2>&1 &
pid=$!
echo "$pid"
while read -r _; do :; done

# The number stays its own until it is waited for, whether or not the server still runs.
kill -TERM "$pid" 2>>"$dir/log"
(
    sleep 10
    kill -KILL "$pid"
) >/dev/null 2>&1 &
killer=$!
wait "$pid"
kill "$killer" 2>/dev/null
rm -rf -- "$dir"
