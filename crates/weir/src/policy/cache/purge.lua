-- KEYS[1]: hash of purges. ARGV: a random word; most targets; milliseconds after which a purge concerns nothing; the target of everything;
-- the highest number that the caller has seen: if this Redis has lost it, numbers must not begin again below what responses carry;
-- then pairs of target and number (0: a new one). Returns the highest number, then the new ones in order.
-- A new number is at least the time here: after a loss that no caller has seen, numbers do not begin again either.
local key, most, forgotten, all = KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local highest = math.max(tonumber(string.match(redis.call('HGET', key, '') or '0', '^%d+')) or 0, tonumber(ARGV[5]))
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local result = { 0 }
local function put(target, number)
  redis.call('HSET', key, target, string.format('%.0f:%.0f', number, now))
end
-- First what was lost, so that new numbers are above.
for i = 6, #ARGV, 2 do
  local number = tonumber(ARGV[i + 1])
  if number > 0 then
    highest = math.max(highest, number)
    local before = tonumber(string.match(redis.call('HGET', key, ARGV[i]) or '0', '^%d+')) or 0
    if number > before then put(ARGV[i], number) end
  end
end
for i = 6, #ARGV, 2 do
  if tonumber(ARGV[i + 1]) == 0 then
    highest = math.max(highest + 1, now)
    put(ARGV[i], highest)
    result[#result + 1] = highest
  end
end
-- The field without a name is one of them.
if redis.call('HLEN', key) > most + 1 then
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local at = tonumber(string.match(fields[i + 1], ':(%d+)$'))
    if fields[i] ~= '' and at and at + forgotten < now then redis.call('HDEL', key, fields[i]) end
  end
  if redis.call('HLEN', key) > most + 1 then
    redis.call('DEL', key)
    highest = highest + 1
    put(all, highest)
  end
end
redis.call('HSET', key, '', string.format('%.0f-', highest) .. ARGV[1])
result[1] = highest
return result
