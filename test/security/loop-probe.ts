/**
 * Preloaded into a server under test (`node --import`): measures the turns of its event loop, and answers on a local socket, SVC_LOOP_PROBE, with the longest
 * since it was last asked, in ms of the clock and of the main thread's processor time. The second does not grow on a machine that is busy with other things.
 */
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { threadCpuUsage } from 'node:process'
import { isMainThread } from 'node:worker_threads'

export interface LongestTurn {
  clockMs: number
  processorMs: number
}

const path = process.env.SVC_LOOP_PROBE
// Preloads run in worker threads as well.
if (isMainThread && path !== undefined) measure(path)

function measure(socket: string): void {
  const longest: LongestTurn = { clockMs: 0, processorMs: 0 }
  const processorMs = (): number => {
    const { user, system } = threadCpuUsage()
    return (user + system) / 1000
  }
  let clock = performance.now()
  let processor = processorMs()
  // A timer fires once a turn at most: between two lies one turn, or an idle wait, which takes no processor time.
  setInterval(() => {
    const [now, used] = [performance.now(), processorMs()]
    longest.clockMs = Math.max(longest.clockMs, now - clock)
    longest.processorMs = Math.max(longest.processorMs, used - processor)
    clock = now
    processor = used
  }, 1).unref()
  const server = createServer((asked) => {
    asked.end(JSON.stringify(longest))
    longest.clockMs = longest.processorMs = 0
  })
  server.listen(socket).unref()
  process.on('exit', () => rmSync(socket, { force: true }))
}
