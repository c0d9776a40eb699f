# Keeps one PostgreSQL cluster for as long as standard input stays open, then removes all of it.
#
# Arguments: a folder, which is to go in the end; the folder of the server's programs; the name of
# the superuser; lines for postgresql.conf. The first line of input is the superuser's password, each
# further one a port to try. Each line is answered with `done` or `failed`.
#
# The input ends when the other side closes it, and just as well when the other side is gone, however
# it went: nothing needs to be caught there.

dir=$1 bin=$2 user=$3 settings=$4
data=$dir/data

umask 077
# An answer that nobody reads must not keep the end from being reached.
trap '' PIPE
cd / && exec 2>>"$dir/log"

make() {
    printf '%s\n' "$1" >"$dir/password" &&
        "$bin/initdb" --pgdata="$data" --username="$user" --pwfile="$dir/password" \
            --auth=password --encoding=UTF8 --locale=C.UTF-8 --no-sync >&2 &&
        printf '%s\n' "$settings" >>"$data/postgresql.conf"
}

# The server has to let go of the pipes of this script: with `-l` it does.
start() {
    "$bin/pg_ctl" start -s -w -t 30 -D "$data" -l "$dir/log" -o "-p $1" >&2
}

stop() {
    "$bin/pg_ctl" stop -s -w -t 10 -D "$data" -m "$1" >&2
}

answer() {
    if "$@"; then echo done; else echo failed; fi
}

IFS= read -r password && answer make "$password"
while read -r port; do answer start "$port"; done
if [ -f "$data/postmaster.pid" ]; then stop fast || stop immediate; fi
rm -rf -- "$dir"
