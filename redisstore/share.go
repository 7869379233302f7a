package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/fusebox-go/fusebox"
)

// shareScript is fusebox.Shares.Claim, by the server's clock. A hash holds
// "held need until" by owner.
//
//	KEYS shares
//	ARGV owner, limit, need, want, ms
//	  -> held, owners, short (0 or 1)
var shareScript = rueidis.NewLuaScript(`
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local limit, need, want = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local left, owners, short, last = limit, 0, 0, ms + ARGV[5]
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local held, needs, ends = string.match(all[i + 1], '^(%d+) (%d+) (%d+)$')
  if all[i] == ARGV[1] or not held or tonumber(ends) <= ms then
    redis.call('HDEL', KEYS[1], all[i])
  else
    left = left - held
    owners = owners + 1
    last = math.max(last, tonumber(ends))
    if tonumber(held) < tonumber(needs) then
      short = 1
    end
  end
end
want = math.max(need, want)
local held = math.max(math.min(left, want), 0)
if want > 0 then
  owners = owners + 1
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f %.0f', held, math.min(need, limit), ms + ARGV[5]))
end
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', last))
return {held, owners, short}
`)

// Share implements fusebox.Sharer. It waits two seconds at most, or until ctx
// ends. When it fails, the claim may still have arrived; it may be made again.
func (s *Store) Share(ctx context.Context, name string, c fusebox.Claim) (share fusebox.Share, err error) {
	if err := c.Validate(); err != nil {
		return share, err
	}
	if name, err = fusebox.CanonicalName(name); err != nil {
		return share, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args := []string{c.Owner}
	for _, n := range []int64{int64(c.Limit), int64(c.Need), int64(c.Want), c.For.Milliseconds()} {
		args = append(args, strconv.FormatInt(n, 10))
	}
	answer, _, _, err := s.link.run(ctx, shareScript, []string{s.keys(name).of("shares")}, args)
	if err != nil {
		return share, fmt.Errorf("redisstore: %s: shares of %s: %w", s.address, name, err)
	}
	var got [3]int64
	if len(answer) != len(got) {
		return share, fmt.Errorf("redisstore: %s: shares of %s: %w", s.address, name, errAnswer)
	}
	for i := range got {
		if got[i], err = answer[i].AsInt64(); err != nil {
			return share, fmt.Errorf("redisstore: %s: shares of %s: %w", s.address, name, errAnswer)
		}
	}
	return fusebox.Share{Held: int(got[0]), Owners: int(got[1]), Short: got[2] == 1}, nil
}
