-- Corrects what one gateway's worker holds of counts of kind 5 (count.lua), by the clock of this server.
--
-- KEYS  the counts
-- ARGV  worker, time in us after which what it holds ends; then of each count: what is done, and a number
--         0  what it holds lasts on, if it is still there
--         1  it holds this number: also what was lost with a server is there again
--         2  it holds so many less
local floor = math.floor
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local worker, lasts = ARGV[1], tonumber(ARGV[2])
for i = 1, #KEYS do
  local what, number = tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
  local text = redis.call('GET', KEYS[i])
  local parts, last, own, until_us = {}, 0, 0, 0
  if text then
    for id, ends, held in string.gmatch(text, '(%d+):(%d+):(%d+)') do
      local e = tonumber(ends)
      if e > now + lasts then e = now + lasts end
      if e > now then
        if id == worker then
          own, until_us = tonumber(held), e
        else
          parts[#parts + 1] = string.format('%s:%.0f:%s', id, e, held)
          if e > last then last = e end
        end
      end
    end
  end
  if what == 0 then
    if own > 0 then until_us = now + lasts end
  elseif what == 1 then
    own, until_us = number, now + lasts
  else
    own = own - number
  end
  if own > 0 then
    parts[#parts + 1] = string.format('%s:%.0f:%.0f', worker, until_us, own)
    if until_us > last then last = until_us end
  end
  if #parts == 0 then
    redis.call('DEL', KEYS[i])
  else
    redis.call('SET', KEYS[i], table.concat(parts, ' '), 'PX', string.format('%.0f', floor((last - now) / 1000) + 1))
  end
end
return #KEYS
