-- Puts what a call of an AI model has used in the place of what it reserved (reserve.lua). A second time it changes nothing, so a gateway that
-- does not know whether its call arrived sends it again.
--
-- KEYS  the counts
-- ARGV  id of the reservation; then of each count: kind, b, amount used
--
-- Returns for each count 1, or 0 if it has no such reservation (any more).
local match = string.match
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local id = ARGV[1]
local reply = {}
for i = 1, #KEYS do
  local key, at = KEYS[i], 3 * i - 1
  local kind, b, used = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local own = redis.call('HGET', key, id)
  reply[i] = 0
  if own then
    reply[i] = 1
    redis.call('HDEL', key, id)
    local amount, _, mark = match(own, '^(%d+) (%d+) (%d+)$')
    amount, mark = tonumber(amount), tonumber(mark)
    local text = redis.call('HGET', key, 's')
    local s1, s2, s3, s4 = match(text or '', '^(%d+) (%d+) (%d+) (%d+)$')
    s1, s2, s3, s4 = tonumber(s1), tonumber(s2), tonumber(s3), tonumber(s4)
    if s1 then
      if kind == 4 then
        if s1 < now then
          s2 = s2 - (now - s1) * 1000
          if s2 < 0 then s2 = 0 end
          s1 = now
        end
        s2 = s2 + used * b
        if s2 > 9e15 then s2 = 9e15 end
        s3 = s3 - amount
        if s3 < 0 then s3 = 0 end
      elseif s1 == mark then
        -- The window that was charged; of one that is over nothing is left to correct.
        s2 = s2 + used - amount
        if s2 < 0 then s2 = 0 end
      end
      redis.call('HSET', key, 's', string.format('%.0f %.0f %.0f %.0f', s1, s2, s3, s4))
      -- Used up for longer than the reservations last: debt must not be forgotten.
      if kind == 4 then
        local ms = math.ceil(s2 / 1000000) + 1
        if ms > redis.call('PTTL', key) then redis.call('PEXPIRE', key, string.format('%.0f', ms)) end
      end
    end
  end
end
return reply
