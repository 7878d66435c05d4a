-- KEYS[1]: hash of purges. ARGV: a random word; most targets; milliseconds after which a purge concerns nothing; the target of everything;
-- the highest number that the caller has seen: if this Redis has lost it, numbers must not begin again below what responses carry;
-- then pairs of target and number (0: a new one). Returns the highest number.
local key, most, forgotten, all = KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local highest = math.max(tonumber(string.match(redis.call('HGET', key, '') or '0', '^%d+')) or 0, tonumber(ARGV[5]))
local now = tonumber(redis.call('TIME')[1]) * 1000
local function put(target, number)
  redis.call('HSET', key, target, string.format('%.0f:%.0f', number, now))
end
for i = 6, #ARGV, 2 do
  local number = tonumber(ARGV[i + 1])
  if number == 0 then number = highest + 1 end
  if number > highest then highest = number end
  local before = tonumber(string.match(redis.call('HGET', key, ARGV[i]) or '0', '^%d+')) or 0
  if number > before then put(ARGV[i], number) end
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
return highest
