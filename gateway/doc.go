// Package gateway is an HTTP gateway for model APIs: a drop-in base URL for
// OpenAI and Anthropic clients that sends each request to the first usable
// backend of its route, and to the next one when that fails.
//
//	client ──> access ──> endpoint, model ──> route: backends by priority,
//	           (host, origin, token)            │     then by weight
//	                                            v
//	     ┌────────── next backend <── denied ── checks, limit, credential,
//	     │                                      │ then model circuit: permits
//	     │                                      v
//	     ├──── failed before the first <── retry( attempt under limits )
//	     │     content byte                     │
//	     v                                      v
//	 none left: 429 or 503,             answer, passed through untouched;
//	 with what to do instead            its end is the evidence
//
// A backend is a circuit per model, model/BACKEND/MODEL, and one for its
// credential, credential/VARIABLE. What the end of an answer shows is reported
// to both, whatever way the request ends. What goes on beside the requests is
// [Gateway.Run]'s: free checks of backends, whose circuits are check/BACKEND, and
// the process's part of limits that a fleet shares.
package gateway
