-- One ceiling, one key: what is owed, the rate and its curve, and who asked lately. The store's clock.
--
-- KEYS[1]  a hash: d units owed, at when (us); p x xt cut the curve of the rate; r the rate it was set to;
--          n members, seen when they were last counted (us), and m:ID the last request of each (us).
-- ARGV     id want least unspent used throttled_us(-1: no) succeeded rate burst min max
-- returns  granted, life_us, wait_us, rate, members
local key = KEYS[1]
local id, want, least = 'm:' .. ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local unspent, used = tonumber(ARGV[4]), tonumber(ARGV[5])
local throttled, succeeded = tonumber(ARGV[6]), ARGV[7] == '1'
local set, full, min, max = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local s = redis.call('HMGET', key, 'd', 'at', 'p', 'x', 'xt', 'cut', 'r', 'n', 'seen')
local d, at = tonumber(s[1]) or 0, tonumber(s[2]) or now
local p, x, xt, cut = tonumber(s[3]) or set, tonumber(s[4]) or 1, tonumber(s[5]) or now, tonumber(s[6]) or 0
local r, n, seen = tonumber(s[7]) or set, tonumber(s[8]) or 0, tonumber(s[9]) or 0

-- A clock that went back counts as one that stands still: nothing is printed, and nobody is locked out.
local passed = math.max(0, now - at) / 1000000
if cut > now then cut = 0 end
if xt > now then xt = now end
if seen > now then seen = 0 end

local function rate_now()
  return math.max(min, math.min(max, p * (1 - 0.3 * (1 - x) ^ 3)))
end
d = math.max(0, d - passed * rate_now())
d = math.min(math.max(0, d - unspent) + used, full)

if math.abs(r - set) > 1e-9 * set then p, x, xt, r = set, 1, now, set end
if throttled >= 0 and now - throttled >= cut and now >= cut + 50000 then
  p, x, xt, cut = 0.9 * rate_now(), 0, now, now
elseif succeeded then
  if p * (1 - 0.3 * (1 - x) ^ 3) < max then
    x = x + math.min(now - xt, 1000000) / 1000000 / math.max(2, math.min(10, 50 / rate_now()))
  end
  xt = now
end

-- The burst is worth the same time at every rate. Half of it is for leases that are out.
local rate = rate_now()
local burst = math.max(1, full * math.min(1, rate / set))
local life = math.max(2000, math.min(100000, burst / rate / 2 * 1000000))
local most = math.max(1, burst - rate * life / 1000000)

if now - seen >= 1000000 or n < 1 then
  local all = redis.call('HGETALL', key)
  n, seen = 1, now
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'm:' and all[i] ~= id then
      local last = tonumber(all[i + 1]) or 0
      if last > now or now - last > 10000000 then redis.call('HDEL', key, all[i]) else n = n + 1 end
    end
  end
end

local granted, wait = 0, 0
if want > 0 then
  local room = math.floor(most - d + 1e-6)
  if room >= least then
    granted = math.min(want, room)
    -- Who comes first does not take it all.
    if n > 1 then granted = math.min(granted, math.max(least, math.ceil(room / 2))) end
  elseif least > most and d <= 0 then
    granted = least
  end
  d = d + granted
  if granted < want then
    wait = math.ceil(math.max(0, d + math.min(least, most) - most) / rate * 1000000)
  end
end

local f = function(v) return string.format('%.9g', v) end
local us = function(v) return string.format('%.0f', v) end
redis.call('HSET', key, 'd', string.format('%.6f', d), 'at', us(now), 'p', f(p), 'x', f(x), 'xt', us(xt),
  'cut', us(cut), 'r', f(r), 'n', n, 'seen', us(seen), id, us(now))
redis.call('PEXPIRE', key, 60000 + math.ceil(math.min(burst / rate, 86400) * 1000))
return { granted, math.floor(life), wait, f(rate), n }
