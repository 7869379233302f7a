package mcp

import "sync"

// buffers are what responses are copied through, kept from one to the next: a
// new one for each was a tenth of what a call took. It is a
// httputil.BufferPool.
type buffers struct{ pool sync.Pool }

const copySize = 32 << 10

func (b *buffers) Get() []byte {
	if kept, ok := b.pool.Get().(*[]byte); ok {
		return *kept
	}
	return make([]byte, copySize)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }
