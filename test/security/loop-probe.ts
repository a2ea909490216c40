/**
 * Preloaded into a server under test (`node --import`): measures the turns of its event loop, and answers on a local socket, SVC_LOOP_PROBE, with the longest
 * since it was last asked, in ms of the clock and of the main thread's processor time. The second does not grow while the thread waits for a processor, but a
 * processor that is shared or throttled does less in it: so it also tells what a fixed loop takes.
 */
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { threadCpuUsage } from 'node:process'
import { isMainThread } from 'node:worker_threads'

export interface LongestTurn {
  clockMs: number
  processorMs: number
  /** Of the main thread in all. */
  totalMs: number
  /** How much longer a fixed loop takes than where the bounds were found, in processor time; never less than 1. */
  slowness: number
}

/** Of the loop, as measured on a core of the machine that the bounds were found on, with nothing else on it. */
const LOOP_MS = 20
const LOOP_STEPS = 12_000_000
const MAX_SLOWNESS = 4
const memory = new Int32Array(1 << 16)

const path = process.env.SVC_LOOP_PROBE
// Preloads run in worker threads as well.
if (isMainThread && path !== undefined) measure(path)

function measure(socket: string): void {
  const longest = { clockMs: 0, processorMs: 0 }
  const processorMs = (): number => {
    const { user, system } = threadCpuUsage()
    return (user + system) / 1000
  }
  let clock = performance.now()
  let processor = processorMs()
  let lastAsked = processor
  // A timer fires once a turn at most: between two lies one turn, or an idle wait, which takes no processor time.
  const look = (): void => {
    const [now, used] = [performance.now(), processorMs()]
    longest.clockMs = Math.max(longest.clockMs, now - clock)
    longest.processorMs = Math.max(longest.processorMs, used - processor)
    clock = now
    processor = used
  }
  setInterval(look, 1).unref()
  const loopMs = (): number => {
    const began = processorMs()
    fixedLoop()
    return processorMs() - began
  }
  // Compiled from here on.
  for (let i = 0; i < 3; i++) loopMs()
  const server = createServer((asked) => {
    // A caller that is gone before its answer.
    asked.on('error', () => {})
    look()
    const totalMs = processor - lastAsked
    const slowness = Math.min(Math.max(loopMs() / LOOP_MS, 1), MAX_SLOWNESS)
    asked.end(JSON.stringify({ ...longest, totalMs, slowness } satisfies LongestTurn))
    // The loop is no turn of the server's.
    look()
    longest.clockMs = longest.processorMs = 0
    lastAsked = processor
  })
  server.listen(socket).unref()
  process.on('exit', () => rmSync(socket, { force: true }))
}

/** Arithmetic, and memory that does not fit the nearest cache. */
function fixedLoop(): void {
  let state = 1
  for (let i = 0; i < LOOP_STEPS; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    const at = (state >>> 8) & (memory.length - 1)
    memory[at] = (memory[at] + i) | 0
  }
}
