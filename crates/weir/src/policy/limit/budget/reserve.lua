-- Reserves what one call of an AI model may use: from all of its counts or, if one has too little left, from none.
--
-- KEYS  the counts
-- ARGV  id of the reservation, us that it lasts; then of each count: kind, 0 if it refuses nothing, amount, a, b, c, d, e
--         kind 1  window from the first call: a = quota, b = window in us
--         kind 2  windows that begin at b, c, d and e (us since 1970), of which one or the next is now: a = quota
--         kind 4  token bucket: a = burst, b = ns in which one comes back
--
-- Returns five numbers for each count:
--   1: reserved; 0: too little left; -1: enough, but another count has too little
--   what is left, us until more is left, us until the amount would be there, and the mark of the window
--
-- State: a hash. `s` is 'mark used reserved next': mark is the end (1) or beginning (2) of the window, or the moment of the level (4); used is
-- an amount or, of a bucket, ns until it is full; reserved is what calls in flight have reserved of a bucket; next is the earliest moment at
-- which a reservation may have ended. Each reservation is a field by its id: 'amount end mark'.
local floor, ceil, match = math.floor, math.ceil, string.match
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local id, lasts = ARGV[1], tonumber(ARGV[2])
local counts, fits, reply = {}, true, {}
local most = 9e15

local function write(key, s)
  redis.call('HSET', key, 's', string.format('%.0f %.0f %.0f %.0f', s.mark, s.used, s.reserved, s.next))
end

-- Reservations whose gateway did not settle them in time stand as used.
local function expire(key, s)
  local all = redis.call('HGETALL', key)
  s.next = 0
  s.changed = true
  for i = 1, #all, 2 do
    if all[i] ~= 's' then
      local amount, ends = match(all[i + 1], '^(%d+) (%d+) ')
      amount, ends = tonumber(amount), tonumber(ends)
      if ends <= now then
        redis.call('HDEL', key, all[i])
        if s.kind == 4 then
          s.reserved = s.reserved - amount
          s.used = s.used + amount * s.b
        end
      elseif s.next == 0 or ends < s.next then
        s.next = ends
      end
    end
  end
  if s.reserved < 0 then s.reserved = 0 end
  if s.used > most then s.used = most end
end

for i = 1, #KEYS do
  local at = 8 * i - 5
  local s = { kind = tonumber(ARGV[at]), enforced = ARGV[at + 1] ~= '0', amount = tonumber(ARGV[at + 2]), a = tonumber(ARGV[at + 3]), b = tonumber(ARGV[at + 4]) }
  local text = redis.call('HGET', KEYS[i], 's')
  local mark, used, reserved, next
  if text then mark, used, reserved, next = match(text, '^(%d+) (%d+) (%d+) (%d+)$') end
  s.mark, s.used, s.reserved, s.next = tonumber(mark) or 0, tonumber(used) or 0, tonumber(reserved) or 0, tonumber(next) or 0
  if s.kind == 1 then
    if s.mark <= now then s.mark = now + s.b; s.used = 0 end
    -- The clock was set back, or another server took over: no window is longer than its length.
    if s.mark > now + s.b then s.mark = now + s.b end
    s.ends = s.mark
  elseif s.kind == 2 then
    local first, second = s.b, tonumber(ARGV[at + 5])
    local third, last = tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7])
    local begin, ends, after = second, third, last
    if now < second then begin, ends, after = first, second, third end
    if now >= third then begin, ends, after = third, last, last end
    if s.mark < begin then s.mark = begin; s.used = 0 end
    if s.mark > ends then s.mark = ends end
    s.ends = s.mark == ends and after or ends
  else
    if s.mark < now then
      s.used = s.used - (now - s.mark) * 1000
      if s.used < 0 then s.used = 0 end
    end
    s.mark = now
  end
  if s.next > 0 and s.next <= now then expire(KEYS[i], s) end
  if s.kind == 4 then
    s.left = floor((s.a * s.b - s.used) / s.b) - s.reserved
  else
    s.left = s.a - s.used
  end
  if s.left < 0 then s.left = 0 end
  if s.left < s.amount and s.enforced then fits = false end
  counts[i] = s
end

for i = 1, #KEYS do
  local s = counts[i]
  local result = -1
  if s.left < s.amount then
    result = 0
  elseif fits then
    result = 1
    s.left = s.left - s.amount
    if s.kind == 4 then s.reserved = s.reserved + s.amount else s.used = s.used + s.amount end
    local ends = now + lasts
    if s.next == 0 or ends < s.next then s.next = ends end
    redis.call('HSET', KEYS[i], id, string.format('%.0f %.0f %.0f', s.amount, ends, s.mark))
    write(KEYS[i], s)
    local us
    if s.kind == 4 then us = lasts + s.a * s.b / 1000 + s.used / 1000 else us = s.ends - now end
    local ms = ceil(us / 1000) + 1
    if ms > redis.call('PTTL', KEYS[i]) or s.kind ~= 4 then redis.call('PEXPIRE', KEYS[i], string.format('%.0f', ms)) end
  end
  -- Reservations that ended are gone, whatever becomes of this one.
  if s.changed and result ~= 1 then write(KEYS[i], s) end
  local reset, retry
  if s.kind == 4 then
    reset = ceil(s.used / 1000)
    retry = ceil((s.used + (s.reserved + s.amount - s.a) * s.b) / 1000)
    if retry < 1 then retry = 1 end
  else
    reset = s.ends - now
    retry = reset
  end
  local n = 5 * i - 5
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = result, s.left, reset, retry, s.mark
end
return reply
