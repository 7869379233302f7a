package replay

// heap is a priority queue: the first item is one before which no other comes.
type heap[T any] struct {
	before func(a, b *T) bool
	items  []T
}

func (h *heap[T]) empty() bool { return len(h.items) == 0 }

// first returns the first item, for looking at, or for changing and fix.
func (h *heap[T]) first() *T { return &h.items[0] }

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	i := len(h.items) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(&h.items[i], &h.items[parent]) {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

func (h *heap[T]) pop() T {
	item := h.items[0]
	last := len(h.items) - 1
	h.items[0] = h.items[last]
	h.items = h.items[:last]
	h.fix()
	return item
}

// fix finds the place of the first item after it changed.
func (h *heap[T]) fix() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(h.items) {
			return
		}
		if right := child + 1; right < len(h.items) && h.before(&h.items[right], &h.items[child]) {
			child = right
		}
		if !h.before(&h.items[child], &h.items[i]) {
			return
		}
		h.items[i], h.items[child] = h.items[child], h.items[i]
		i = child
	}
}
