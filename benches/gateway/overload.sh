#!/usr/bin/env bash
# What a slow service does under overload, with and without tidegate in front of it, and what two live
# edits of `max` do in the middle of the load.
#
# The service is real and not ours: nginx with fcgiwrap, eight workers, 50 ms an answer, so 160 answers
# a second; what it cannot take waits in its queue. The load is `hey`, 250 clients that ask again and
# again, three times what the service can do in time.
#
# Usage: benches/gateway/overload.sh [SECONDS]   (needs: apt-get install nginx fcgiwrap spawn-fcgi hey curl)
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-20}
clients=250
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; [ -f "$dir/fcgi.pid" ] && kill $(cat "$dir/fcgi.pid") 2>/dev/null; rm -rf "$dir"' EXIT

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
nginx_port=$(free_port) gate_port=$(free_port) admin_port=$(free_port)

cat >"$dir/slow" <<'SH'
#!/bin/sh
sleep 0.05
printf 'Content-Type: text/plain\r\n\r\nslow answer\n'
SH
chmod 755 "$dir" "$dir/slow"
spawn-fcgi -s "$dir/fcgi.sock" -M 666 -P "$dir/fcgi.pid" -b 4096 -- /usr/sbin/fcgiwrap -c 8 >/dev/null
cat >"$dir/nginx.conf" <<CONF
daemon off; pid $dir/nginx.pid; error_log /dev/null; worker_processes 1;
events { worker_connections 4096; }
http {
    access_log off;
    server {
        listen 127.0.0.1:$nginx_port backlog=4096;
        location / {
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $dir/slow;
            fastcgi_pass unix:$dir/fcgi.sock;
            fastcgi_read_timeout 60s;
        }
    }
}
CONF
PATH="$PATH:/usr/sbin" nginx -c "$dir/nginx.conf" &

cat >"$dir/tidegate.toml" <<CONF
[server]
listen = "127.0.0.1:$gate_port"
[admin]
listen = "127.0.0.1:$admin_port"
[upstreams.slow]
url = "http://127.0.0.1:$nginx_port"
[limiters.slow]
min = 2
max = 200
CONF
cargo build --quiet --release --features daemon --bin tidegate
"${CARGO_TARGET_DIR:-target}/release/tidegate" --log warn serve --config "$dir/tidegate.toml" >/dev/null &
gate=$!
until curl -fs "http://127.0.0.1:$admin_port/health/ready" >/dev/null && curl -fs "http://127.0.0.1:$nginx_port/" >/dev/null; do sleep 0.1; done

# Of one CSV of hey's: how many answers a second were good, and the percentiles of good and refused ones.
report() {
    awk -F, -v name="$1" -v seconds="$seconds" '
        NR > 1 { n[$7]++; print $1 > ("'"$dir"'/status-" $7) }
        END { printf "%-22s", name; printf " good/s %6.1f", n[200] / seconds; printf "   refused/s %7.1f", n[503] / seconds;
              other = 0; for (s in n) if (s != 200 && s != 503) other += n[s]; printf "   other %d\n", other }' "$2"
    for status in 200 503; do
        [ -f "$dir/status-$status" ] || continue
        sort -n "$dir/status-$status" | awk -v status="$status" '
            { x[NR] = $1 }
            END { printf "    %s: p50 %8.1f ms   p99 %8.1f ms   max %8.1f ms\n", status, 1e3 * x[int(NR * .5) + 1], 1e3 * x[int(NR * .99) + 1], 1e3 * x[NR] }'
        rm "$dir/status-$status"
    done
}
memory() { awk '/VmRSS/ { print $2 " KiB" }' "/proc/$gate/status"; }
limiter() { curl -fs "http://127.0.0.1:$admin_port/api/v1/limiters/slow"; }

# A refused client waits a little (hey cannot read Retry-After): at most 20 requests a second each.
echo "$clients clients, $seconds s each"
hey -z "${seconds}s" -c $clients -q 20 -t 60 -o csv "http://127.0.0.1:$nginx_port/" >"$dir/direct.csv"
report "without tidegate" "$dir/direct.csv"
sleep 5
echo "memory before: $(memory)"
hey -z "${seconds}s" -c $clients -q 20 -t 60 -o csv "http://127.0.0.1:$gate_port/" >"$dir/gated.csv"
report "with tidegate" "$dir/gated.csv"
echo "memory after: $(memory)"
curl -s -D - -o "$dir/body" "http://127.0.0.1:$gate_port/" >/dev/null

echo "max edited twice in the middle of the load:"
hey -z "${seconds}s" -c $clients -q 20 -t 60 -o csv "http://127.0.0.1:$gate_port/" >"$dir/edited.csv" &
load=$!
sleep 3
for max in 4 200; do
    sed -i "s/^max = .*/max = $max/" "$dir/tidegate.toml"
    for _ in 1 2 3; do sleep 1; echo "    max = $max: $(limiter | grep -oE '"(limit|in_flight|max)":[0-9]+' | tr '\n' ' ')"; done
done
curl -s -i "http://127.0.0.1:$gate_port/" | tr -d '\r' | grep -iE '^(HTTP|retry-after|tidegate-|\{)' || true
wait $load
report "with the two edits" "$dir/edited.csv"
