-- KEYS[1]: where a response goes. ARGV: the response; milliseconds that it lasts. A response that was requested later is not replaced by one that
-- was requested before it and is no newer by its date. Both stand behind the first two bytes of a value.
local function number(text, at)
  local sum = 0
  for i = at, at + 7 do sum = sum * 256 + string.byte(text, i) end
  return sum
end
local old = redis.call('GETRANGE', KEYS[1], 0, 17)
if #old == 18 and string.byte(old, 1) == string.byte(ARGV[1], 1) then
  local ahead = number(old, 3) - number(ARGV[1], 3)
  -- No fetch takes an hour: more is a clock that was wrong.
  if ahead > 0 and ahead < 3600000 and number(old, 11) >= number(ARGV[1], 11) then return 0 end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
