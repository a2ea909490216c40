#!/usr/bin/env node
/** argv, signals, and the only process.exit. */

import { keepCompiledCode } from './cli/compile-cache.ts'

// Whatever is written, by native libraries too, is its owner's only: data, backups and exports are as secret as the credentials that guard them.
process.umask(0o077)

keepCompiledCode(process.env)

// Engines run long native calls in libuv's thread pool, where the log's fdatasync must not wait behind them. libuv reads the size when
// it first needs the pool, so it is set before anything is loaded.
process.env.UV_THREADPOOL_SIZE ??= '16'
const { run } = await import('./cli/cli.ts')

/** Exiting waits for threads, and they for native calls that may never return: this waits for nothing. Locks end with the process. */
function kill(): void {
  process.kill(process.pid, 'SIGKILL')
}

let stop: (signal: string) => void = () => {}
const stopSignal = new Promise<string>((resolve) => {
  stop = resolve
})
let signals = 0
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.on(signal, () => {
    // The second signal means at once: what was acknowledged is in the log, and is replayed.
    if (++signals > 1) kill()
    stop(signal)
  })
}

// A reader that goes away early, such as `head`, is no failure of ours.
process.stdout.on('error', () => {})

const code = await run(process.argv.slice(2), {
  env: process.env,
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  stopSignal,
  kill,
})
// Output to a pipe is written asynchronously and would be cut by exiting before it has drained.
process.stdout.write('', () => process.exit(code))
