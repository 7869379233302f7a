// The example of a worker queue, in a module of its own so that the queue's
// library stays out of the dependency graph of those who import fusebox.
module github.com/fusebox-go/fusebox/examples/queue

go 1.26.0

replace github.com/fusebox-go/fusebox => ../..

require (
	github.com/fusebox-go/fusebox v0.0.0-00010101000000-000000000000
	github.com/hibiken/asynq v0.26.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/redis/go-redis/v9 v9.14.1 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/spf13/cast v1.10.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
