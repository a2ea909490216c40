/**
 * A thread of an engine process that ends it by SIGKILL: above its memory, and when the node is gone. DuckDB counts its buffers only, and while a function
 * of JavaScript runs the process' own event loop stands still; this thread sleeps between two looks and does nothing else.
 */
import { workerData } from 'node:worker_threads'

export interface WatchData {
  limitBytes: number
  /** [0]: 1 while a statement is under way. */
  busy: Int32Array
  parent: number
}

/** Memory grows by some 2 MB in a millisecond at most: about 20 MB are over the limit at the end. */
const LOOK_MS = 10
const IDLE_MS = 500

const { limitBytes, busy, parent } = workerData as WatchData
const never = new Int32Array(new SharedArrayBuffer(4))

for (;;) {
  if (process.memoryUsage.rss() > limitBytes || process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  if (Atomics.load(busy, 0) === 0) Atomics.wait(busy, 0, 0, IDLE_MS)
  else Atomics.wait(never, 0, 0, LOOK_MS)
}
