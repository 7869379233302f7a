package fusebox

// DecodeEvent is ParseEvent without its fast path.
var DecodeEvent = decodeEvent
