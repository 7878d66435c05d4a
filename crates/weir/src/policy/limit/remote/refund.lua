-- Takes charges of count.lua back, as far as they can still be told from those of others.
--
-- KEYS  the counts
-- ARGV  of each: kind, b, c (as in count.lua), tokens, mark
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
for i = 1, #KEYS do
  local at = 5 * i - 4
  local kind, b = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local tokens, mark = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local text = redis.call('GET', KEYS[i])
  local s1, s2, s3
  if text then s1, s2, s3 = string.match(text, '^(%d+) (%d+) ?(%d*)$') end
  s1, s2, s3 = tonumber(s1), tonumber(s2), tonumber(s3)
  if s1 then
    local function less(count, by)
      if count < by then return 0 end
      return count - by
    end
    if kind == 4 then
      -- What came back since the charge is not given back: without it the bucket may have been full meanwhile.
      local since = now - mark
      if since < 0 then since = 0 end
      local rest = tokens * b - since * tonumber(ARGV[at + 2])
      if rest > 0 then s2 = less(s2, rest) end
    elseif s1 == mark then
      s2 = less(s2, tokens)
    elseif kind == 3 and s1 == mark + 1 then
      s3 = less(s3, tokens)
    end
    local ttl = redis.call('PTTL', KEYS[i])
    if ttl <= 0 or (s2 == 0 and (s3 or 0) == 0) then
      redis.call('DEL', KEYS[i])
    elseif kind == 3 then
      redis.call('SET', KEYS[i], string.format('%.0f %.0f %.0f', s1, s2, s3 or 0), 'PX', ttl)
    else
      redis.call('SET', KEYS[i], string.format('%.0f %.0f', s1, s2), 'PX', ttl)
    end
  end
end
return #KEYS
