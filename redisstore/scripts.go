package redisstore

import (
	"strings"

	"github.com/redis/rueidis"
)

// appendScript takes in a batch and tries the lock. What the reporter sent
// before is skipped.
//
//	KEYS state pending lock seen
//	ARGV token, lock's ms, seen's ms, keep's ms, most pending, position, policy, then number and event in turn
//	  -> time (2), epoch, in, waiting, pushed, holder, state, batches
//
// The state is left out while batches up to position wait and somebody else has
// the lock.
var appendScript = rueidis.NewLuaScript(`
local now = redis.call('TIME')
local epoch = redis.call('HGET', KEYS[1], 'epoch')
local waiting = redis.call('LLEN', KEYS[2])
local pushed = 0
if #ARGV > 7 then
  local last = tonumber(redis.call('GET', KEYS[4]) or '0')
  local batch = {ARGV[7]}
  for i = 8, #ARGV, 2 do
    local n = tonumber(ARGV[i])
    if n > last then
      batch[#batch + 1] = ARGV[i + 1]
      last = n
    end
  end
  if #batch > 1 then
    if waiting >= tonumber(ARGV[5]) then
      return redis.error_reply('FULL events wait that nobody folds')
    end
    redis.call('RPUSH', KEYS[2], table.concat(batch, '\n'))
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
    redis.call('SET', KEYS[4], string.format('%.0f', last), 'PX', ARGV[3])
    waiting = waiting + 1
    pushed = 1
    if not epoch then
      epoch = ARGV[1]
      redis.call('HSET', KEYS[1], 'epoch', epoch)
      redis.call('PEXPIRE', KEYS[1], ARGV[4])
    end
    redis.call('HINCRBY', KEYS[1], 'in', 1)
  end
end
local known = redis.call('HMGET', KEYS[1], 'in', 'state')
local came = tonumber(known[1] or '0')
local holder, batches = 0, {}
if waiting > 0 then
  if redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', ARGV[2]) then
    holder = 1
  elseif redis.call('GET', KEYS[3]) == ARGV[1] then
    redis.call('PEXPIRE', KEYS[3], ARGV[2])
    holder = 1
  end
  if holder == 1 then
    batches = redis.call('LRANGE', KEYS[2], 0, 99)
  end
end
local state = ''
if holder == 1 or waiting == 0 or came - waiting >= tonumber(ARGV[6]) then
  state = known[2] or ''
end
return {now[1], now[2], epoch or '', came, waiting, pushed, holder, state, batches}
`)

// commitScript writes what the holder of the lock has folded. It is refused,
// with an empty answer, to who has lost the lock, and where the batches were
// committed already.
//
//	KEYS state pending lock log
//	ARGV token, lock's ms, keep's ms, state's ms (0 = for ever), folded before, batches, state,
//	     channel ('' = no news), circuit, go on (0 or 1), longest log, then lines of evidence
//	  -> time (2), batches
var commitScript = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[3]) ~= ARGV[1] then
  return {}
end
local known = redis.call('HMGET', KEYS[1], 'in', 'epoch')
if tonumber(known[1] or '0') - redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[5]) then
  return {}
end
redis.call('HSET', KEYS[1], 'state', ARGV[7])
redis.call('LTRIM', KEYS[2], ARGV[6], -1)
if ARGV[4] == '0' then
  redis.call('PERSIST', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
for i = 12, #ARGV do
  redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[11], '*', 'e', ARGV[i])
end
redis.call('PEXPIRE', KEYS[4], ARGV[3])
local now = redis.call('TIME')
if ARGV[8] ~= '' then
  local news = redis.call('HINCRBY', KEYS[1], 'news', 1)
  redis.call('PUBLISH', ARGV[8], table.concat({known[2], news, ARGV[9], ARGV[7]}, '\n'))
end
local batches = {}
if ARGV[10] == '1' then
  batches = redis.call('LRANGE', KEYS[2], 0, 99)
end
if #batches > 0 then
  redis.call('PEXPIRE', KEYS[3], ARGV[2])
else
  redis.call('DEL', KEYS[3])
end
return {now[1], now[2], batches}
`)

// keys are the names of a circuit's keys.
type keys struct{ prefix, tag string }

// Braces would end the hash tag.
var (
	escapeTag   = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
	unescapeTag = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")
)

func (s *Store) keys(circuit string) keys {
	return keys{s.prefix, "{" + escapeTag.Replace(circuit) + "}"}
}

func (k keys) of(what string) string { return k.prefix + k.tag + ":" + what }

const stateSuffix = "}:state"

// circuitOf is the circuit whose state is kept under that key.
func (s *Store) circuitOf(key string) (string, bool) {
	tag, ok := strings.CutPrefix(key, s.prefix+"{")
	if !ok {
		return "", false
	}
	if tag, ok = strings.CutSuffix(tag, stateSuffix); !ok {
		return "", false
	}
	return unescapeTag.Replace(tag), true
}
